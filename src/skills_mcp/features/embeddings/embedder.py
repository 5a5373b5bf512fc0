"""The entry to embeddings: switched off, or the vectors of skills for a matcher.

NumPy and HTTP are imported by `vectors_of`, on a worker thread, and not before.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from skills_mcp.config import Embedding
from skills_mcp.skills.model import Skill

if TYPE_CHECKING:  # imported late: the first answer may not wait for numpy
    from skills_mcp.features.embeddings.client import Client, Provider
    from skills_mcp.features.embeddings.fused import TaskVectors
    from skills_mcp.features.embeddings.skill_vectors import SkillVectors

logger = logging.getLogger(__name__)


def open_embedding(
    rules: Embedding, environment: Mapping[str, str], cache: Path
) -> "Embedder | None":
    """Return the embedder, or None if the operator has not switched it on.

    Nothing heavy is imported, and nothing is sent or written yet. A missing key is a
    warning and no error: words still find skills.

    Args:
        rules: The operator's configuration.
        environment: Holds the key.
        cache: The folder of files that may be deleted.

    Raises:
        ConfigError: An address or a model is missing.
    """
    if rules.provider == "none" or not rules.weight:
        return None
    from skills_mcp.features.embeddings.client import derive_provider

    provider = derive_provider(rules, environment)
    if fault := provider.find_fault():
        logger.warning("Tasks are compared by their words alone: %s", fault)
        return None
    return Embedder(provider, rules, cache / "embeddings")


class Embedder:
    """Turns skills and tasks into vectors of one provider.

    Args:
        provider: The provider of the vectors.
        rules: The operator's configuration.
        folder: The cache of vectors.
    """

    def __init__(self, provider: "Provider", rules: Embedding, folder: Path) -> None:
        self._provider = provider
        self._rules = rules
        self._folder = folder
        self._guard = Lock()
        self._opened: tuple[Client, TaskVectors] | None = None

    @property
    def secret(self) -> str:
        """The key, for a log that must never show it; empty if there is none."""
        return self._provider.key

    def vectors_of(self, skills: Sequence[Skill]) -> "SkillVectors":
        """Return the vectors of skills in path order; `prepare` gets them."""
        from skills_mcp.features.embeddings.skill_vectors import SkillVectors
        from skills_mcp.features.embeddings.vector_store import VectorStore

        client, task_vectors = self._open()
        return SkillVectors(
            skills,
            provider=self._provider,
            rules=self._rules,
            client=client,
            task_vectors=task_vectors,
            store=VectorStore(self._folder, self._provider.space()),
        )

    def close(self) -> None:
        """Close the connections to the provider."""
        with self._guard:
            if self._opened:
                self._opened[0].close()

    def _open(self) -> "tuple[Client, TaskVectors]":
        """Return the client and the vectors of tasks, which all snapshots share."""
        from skills_mcp.features.embeddings.client import Client
        from skills_mcp.features.embeddings.fused import TaskVectors

        with self._guard:
            if self._opened is None:
                client = Client(self._provider)
                seconds = self._rules.timeout_seconds
                self._opened = (
                    client,
                    TaskVectors(
                        lambda text: client.embed([text], timeout_seconds=seconds)[0],
                        seconds,
                    ),
                )
            return self._opened
