from pathlib import Path

import pytest

from skills_mcp.config import Embedding
from skills_mcp.errors import ConfigError
from skills_mcp.features.embeddings.hooks import ProviderEmbedder, open_embedder
from skills_mcp.snapshots.skill_snapshot import Embedder
from skills_mcp.text.redaction import redact
from tests.features.embeddings.embedding_server import (
    KEY,
    EmbeddingServer,
    example_skills,
    provider_for,
    rules_for,
)
from tests.features.embeddings.lexical import LexicalMatcher
from tests.support import run_python

NOTHING_IMPORTED = """
import sys
from pathlib import Path
from skills_mcp.config import Embedding
before = {name for name in sys.modules if "embeddings" not in name}
from skills_mcp.features.embeddings.hooks import open_embedder
rules = Embedding(provider=sys.argv[1])
opened = open_embedder(rules, {"OPENAI_API_KEY": "sk-1"}, Path(sys.argv[2]))
ours = "skills_mcp.features.embeddings."
fresh = set(sys.modules) - before
heavy = [name for name in fresh if name.partition(".")[0] in {"httpx", "numpy", "ssl"}]
mine = sorted(name.removeprefix(ours) for name in fresh if name.startswith(ours))
print(opened is not None, heavy, *mine)
"""


@pytest.mark.parametrize(
    "provider, opened",
    [("none", "False [] hooks"), ("openai", "True [] client hooks")],
)
@pytest.mark.usefixtures("started_anew")
def test_nothing_heavy_is_imported_and_nothing_is_written_to_open_it(
    provider: str, opened: str, tmp_path: Path
) -> None:
    printed = run_python(NOTHING_IMPORTED, provider, tmp_path)

    assert printed == opened
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "home"])


def test_by_default_there_are_no_embeddings(tmp_path: Path) -> None:
    assert open_embedder(Embedding(), {"OPENAI_API_KEY": KEY}, tmp_path) is None


@pytest.mark.parametrize("environment", [{}, {"OPENAI_API_KEY": "sk\n-1"}])
def test_without_a_key_words_decide_and_the_variable_is_named(
    environment: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened = open_embedder(Embedding(provider="openai"), environment, tmp_path)

    assert opened is None
    assert "OPENAI_API_KEY" in caplog.text
    assert "-1" not in caplog.text


def test_what_the_operator_has_to_say_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^embedding\.base_url: "):
        open_embedder(Embedding(provider="openai-compatible"), {}, tmp_path)


def test_from_the_settings_to_a_skill_that_shares_no_word_with_the_task(
    server: EmbeddingServer, tmp_path: Path
) -> None:
    skills = example_skills()
    embedder: Embedder | None = open_embedder(rules_for(server), {"OPENAI_API_KEY": KEY}, tmp_path)
    assert embedder
    vectors = embedder.vectors_of(skills)
    matcher = vectors.fuse(LexicalMatcher(skills))

    vectors.prepare()
    found = matcher.score("What do our\n customers owe us?")
    embedder.vectors_of(skills).fuse(LexicalMatcher(skills)).score("deploy")
    embedder.close()

    assert [candidate.skill.path for candidate in found] == ["billing"]
    assert server.texts[-1] == "What do our customers owe us?"
    assert {each.key for each in server.received} == {f"Bearer {KEY}"}
    assert KEY not in redact(f"the key {KEY}")
    assert KEY not in repr(embedder)
    assert KEY.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*.npy"))


def test_a_server_that_hangs_leaves_the_words(
    server: EmbeddingServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    skills = example_skills()
    embedder = ProviderEmbedder(provider_for(server), tmp_path, timeout_seconds=0.1)
    vectors = embedder.vectors_of(skills)
    vectors.prepare()
    server.told.append("hang")
    plain = LexicalMatcher(skills)

    found = vectors.fuse(plain).score("write a release")

    assert found == plain.score("write a release")
    assert "Tasks are compared by their words alone: " in caplog.text
    server.released.set()
    embedder.close()
