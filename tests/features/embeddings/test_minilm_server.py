"""The small model that figures are measured with, where it can be had."""

from collections.abc import Iterator

import pytest

from benchmarks.meanings import opening_minilm
from benchmarks.minilm_server import MODEL, find_absent, serving_minilm
from skills_mcp.config import Embedding
from skills_mcp.features.embeddings.client import (
    EmbeddingClient,
    EmbeddingError,
    derive_embedding_provider,
)
from tests.features.embeddings.embedding_server import example_skills
from tests.routing.matchers import ranked_matcher

pytestmark = pytest.mark.skipif(bool(find_absent()), reason="needs the group meanings")


def rules_for(address: str) -> Embedding:
    return Embedding(provider="openai-compatible", base_url=address, model=MODEL)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving_minilm() as address:
        yield address


def test_what_means_the_same_is_near_and_what_does_not_is_far(address: str) -> None:
    client = EmbeddingClient(derive_embedding_provider(rules_for(address), {}))
    texts = ["write an invoice", "bill a customer", "the history of Rome", "x " * 9_000]

    vectors = client.embed(texts, timeout_seconds=60)
    client.close()

    likeness = vectors @ vectors[0]
    assert vectors.shape == (4, 384)
    assert likeness[0] == pytest.approx(1, abs=1e-5)
    assert likeness[1] > 0.4 > likeness[2]


def test_another_address_is_refused(address: str) -> None:
    client = EmbeddingClient(derive_embedding_provider(rules_for(f"{address}/other"), {}))

    with pytest.raises(EmbeddingError, match="404: /v1/other/embeddings is not served"):
        client.embed(["a"], timeout_seconds=60)
    client.close()


def test_a_paraphrase_is_found_through_the_path_of_the_product() -> None:
    skills = example_skills()
    words = ranked_matcher(skills)

    with opening_minilm() as embedder:
        vectors = embedder.vectors_of(skills)
        assert vectors.prepare()
        found = vectors.fuse(words).score("what do my customers owe me", limit=1)

    assert words.score("what do my customers owe me") == ()
    assert [each.skill.path for each in found] == ["billing"]
