"""The door to embeddings: off, or vectors of skills and a matcher that knows them.

Numpy and HTTP are imported by the first `prepare`, which runs on a worker thread, and
not before.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from skills_mcp.config import Embedding
from skills_mcp.embeddings.provider import Provider, derive_provider
from skills_mcp.skills.model import Skill

if TYPE_CHECKING:  # imported late: the first answer may not wait for numpy
    from skills_mcp.embeddings.client import Client
    from skills_mcp.embeddings.questions import Questions
    from skills_mcp.embeddings.skill_vectors import SkillVectors

logger = logging.getLogger(__name__)


def open_embedding(
    rules: Embedding, environment: Mapping[str, str], cache: Path
) -> "Embedder | None":
    """Return what compares meanings, or None if the operator wants nobody to.

    Nothing is imported, sent or written yet. Without its key there is nobody to ask,
    which is a warning and no error: words still find skills.

    Args:
        rules: The operator's.
        environment: Where the key is.
        cache: The folder of everything that may be deleted.

    Raises:
        ConfigError: The operator has to say more.
    """
    if rules.provider == "none" or not rules.weight:
        return None
    provider = derive_provider(rules, environment)
    if fault := provider.find_fault():
        logger.warning("Tasks are compared by their words alone: %s", fault)
        return None
    return Embedder(provider, rules, cache / "embeddings")


class Embedder:
    """Turns skills and tasks into vectors of one provider.

    Args:
        provider: Whom to ask.
        rules: How to ask, and how much an answer counts.
        folder: Where vectors are kept.
    """

    def __init__(self, provider: Provider, rules: Embedding, folder: Path) -> None:
        self._provider = provider
        self._rules = rules
        self._folder = folder
        self._guard = Lock()
        self._opened: tuple[Client, Questions] | None = None

    @property
    def secret(self) -> str:
        """The key, for a log that must never show it; empty if there is none."""
        return self._provider.key

    def vectors_of(self, skills: Sequence[Skill]) -> "SkillVectors":
        """Return the vectors of skills in path order; there are none yet."""
        from skills_mcp.embeddings.skill_vectors import SkillVectors
        from skills_mcp.embeddings.vectors import VectorStore

        client, questions = self._open()
        return SkillVectors(
            skills,
            provider=self._provider,
            rules=self._rules,
            client=client,
            questions=questions,
            store=VectorStore(self._folder, self._provider.space()),
        )

    def close(self) -> None:
        """Close the connections to the provider."""
        with self._guard:
            if self._opened:
                self._opened[0].close()

    def _open(self) -> "tuple[Client, Questions]":
        """Return what all snapshots share, so that tasks are remembered."""
        from skills_mcp.embeddings.client import Client
        from skills_mcp.embeddings.questions import Questions

        with self._guard:
            if self._opened is None:
                client = Client(self._provider)
                seconds = self._rules.timeout_seconds
                self._opened = (
                    client,
                    Questions(
                        lambda text: client.embed([text], timeout_seconds=seconds)[0],
                        seconds,
                    ),
                )
            return self._opened
