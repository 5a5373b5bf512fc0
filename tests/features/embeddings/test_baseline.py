"""`skills-mcp test --baseline` with embeddings: both sides compare meanings."""

import json
from pathlib import Path

from tests.cli.conftest import Run
from tests.cli.conftest import invoke as invoke  # noqa: PLC0414 - a fixture
from tests.features.embeddings.embedding_server import EmbeddingServer
from tests.packages import write_package
from tests.support import write

_SKILLS = {
    "billing": "How to write an invoice",
    "shipping": "How to deploy",
    "accounts": "How a login works",
    "plants": "How to water flowers",
}


def test_a_baseline_has_its_vectors_before_it_is_asked(
    invoke: Run, tmp_path: Path, server: EmbeddingServer
) -> None:
    for folder, more in (("before", " here"), ("now", "")):  # whose vectors are not cached
        for name, description in _SKILLS.items():
            write_package(tmp_path / folder, name, description=description + more, body="Do it.")
    tasks = write(
        tmp_path / "tasks.jsonl", '{"query": "what customers owe", "expect": "billing"}\n'
    )
    embedding = f"{{provider: openai-compatible, model: m, base_url: '{server.url}'}}"
    settings = write(tmp_path / "settings.yaml", f"embedding: {embedding}\n")
    words = ("test", str(tasks), "--no-examples", "--json", "--config", str(settings))

    done = invoke(
        *words, "--skills-dir", str(tmp_path / "now"), "--baseline", str(tmp_path / "before")
    )

    found = json.loads(done.stdout)
    assert (found["kept"], found["baseline"]) == (1.0, [])
