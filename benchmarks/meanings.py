"""What meanings cost, from a text to a decision, with a small model over HTTP."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.content import Library, Text, invent_text
from benchmarks.figures import MEANT_SKILLS, Measured, Results
from benchmarks.minilm_server import MODEL, find_absent, serving_minilm
from benchmarks.report import print_table
from benchmarks.routing import percentiles
from benchmarks.timing import in_new_process, timed
from skills_mcp.config import Embedding, Matching
from skills_mcp.features.embeddings.client import (
    EmbeddingClient,
    derive_embedding_provider,
)
from skills_mcp.features.embeddings.hooks import ProviderEmbedder
from skills_mcp.routing.decision import score_and_decide
from skills_mcp.routing.inverted_index import TextIndex
from skills_mcp.routing.ranked_matcher import RankedMatcher, to_indexed_document
from skills_mcp.snapshots.skill_snapshot import Embedder

# With a shorter one, words alone would answer in a slow moment, and be measured.
_TIMEOUT_SECONDS = 60.0


@contextmanager
def opening_minilm() -> Iterator[Embedder]:
    """Serve the model, and return what asks it as a server of ours does."""
    with serving_minilm() as address, opening(address) as embedder:
        yield embedder


@contextmanager
def opening(address: str) -> Iterator[Embedder]:
    """Return what asks a served model, with a cache of its own."""
    with TemporaryDirectory(prefix="skills-mcp-bench-") as cache:
        provider = derive_embedding_provider(derive_rules(address), {})
        embedder = ProviderEmbedder(provider, Path(cache), _TIMEOUT_SECONDS)
        try:
            yield embedder
        finally:
            embedder.close()


def derive_rules(address: str) -> Embedding:
    """Return what an operator sets for the model."""
    return Embedding(provider="openai-compatible", base_url=address, model=MODEL)


def measure_meanings(text: Text, *, rounds: int, tasks: int) -> tuple[Results, Sequence[str]]:
    """Return the figures, or the packages that are missing for them."""
    absent = find_absent()
    return {} if absent else in_new_process(_measure, text, rounds, tasks), absent


def _measure(text: Text, rounds: int, tasks: int) -> Results:
    skills, found = Library(text, MEANT_SKILLS), dict[str, list[float]]()
    ranked = RankedMatcher(TextIndex.build(map(to_indexed_document, skills)), skills)
    with serving_minilm() as address, opening(address) as embedder:
        vectors = embedder.vectors_of(skills)
        seconds, is_ready = timed(vectors.prepare)
        if not is_ready:
            raise SystemExit("there are no vectors of the skills")
        found["minilm_skills"] = [MEANT_SKILLS / seconds]
        matcher, matching = vectors.fuse(ranked), Matching()
        client = EmbeddingClient(derive_embedding_provider(derive_rules(address), {}))
        ask = partial(client.embed, timeout_seconds=_TIMEOUT_SECONDS)
        for number in range(rounds):
            routed, asked = [], []
            # Others each time: the vector of a task is remembered.
            prompts = text.prompts[number::rounds][: 2 * tasks]
            for one, other in zip(prompts[::2], prompts[1::2], strict=False):
                routed.append(timed(partial(score_and_decide, matcher, one, matching))[0])
                asked.append(timed(partial(ask, [other]))[0])
            median, slow = percentiles(routed)
            found.setdefault("minilm_p50", []).append(median * 1000)
            found.setdefault("minilm_p99", []).append(slow * 1000)
            found.setdefault("minilm", []).append(median / percentiles(asked)[0])
        client.close()
    return {key: Measured.of(values) for key, values in found.items()}


def main() -> None:
    """Measure this part only."""
    results, absent = measure_meanings(invent_text(), rounds=3, tasks=150)
    if absent:
        raise SystemExit(f"not installed: {', '.join(absent)}")
    print_table(results, ())


if __name__ == "__main__":
    main()
