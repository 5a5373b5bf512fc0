"""The hook of embeddings: the embedder of a provider.

Without a provider neither NumPy nor httpx is imported, and nothing leaves the machine.
With one, they are imported by `vectors_of`, on a worker thread, and not before.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from skills_mcp.config import Embedding
from skills_mcp.skills.model import Skill
from skills_mcp.snapshots.skill_snapshot import Embedder

if TYPE_CHECKING:  # imported late: the first answer may not wait for numpy
    from skills_mcp.features.embeddings.client import EmbeddingClient, EmbeddingProvider
    from skills_mcp.features.embeddings.skill_embeddings import EmbeddedSkills, QueryEmbedder


logger = logging.getLogger(__name__)

# An agent waits so long for a vector; a provider usually answers in some tenths of it.
_TASK_TIMEOUT_SECONDS = 2.0


def open_embedder(rules: Embedding, environment: Mapping[str, str], cache: Path) -> Embedder | None:
    """Open the embedder; None if the operator has not switched it on.

    Nothing heavy is imported, and nothing is sent or written yet. A missing key is a
    warning and no error: words still find skills.

    Raises:
        ConfigError: An address or a model is missing.
    """
    if rules.provider == "none":
        return None
    from skills_mcp.features.embeddings.client import derive_embedding_provider

    provider = derive_embedding_provider(rules, environment)
    if fault := provider.find_fault():
        logger.warning("Tasks are compared by their words alone: %s", fault)
        return None
    return ProviderEmbedder(provider, cache / "embeddings")


class ProviderEmbedder:
    """Embeds skills and tasks in the vector space of one provider."""

    def __init__(
        self,
        provider: "EmbeddingProvider",
        folder: Path,
        timeout_seconds: float = _TASK_TIMEOUT_SECONDS,
    ) -> None:
        self._provider = provider
        self._folder = folder
        self._timeout_seconds = timeout_seconds
        self._guard = Lock()
        self._opened: tuple[EmbeddingClient, QueryEmbedder] | None = None

    def vectors_of(self, skills: Sequence[Skill]) -> "EmbeddedSkills":
        """Make the vectors of skills in path order; `prepare` fetches them."""
        from skills_mcp.features.embeddings.skill_embeddings import EmbeddedSkills, VectorStore

        client, task_vectors = self._open()
        return EmbeddedSkills(
            skills,
            provider=self._provider,
            client=client,
            query_embedder=task_vectors,
            store=VectorStore(self._folder, self._provider.space()),
        )

    def close(self) -> None:
        with self._guard:
            if self._opened:
                self._opened[0].close()

    def _open(self) -> "tuple[EmbeddingClient, QueryEmbedder]":
        from skills_mcp.features.embeddings.client import EmbeddingClient
        from skills_mcp.features.embeddings.skill_embeddings import QueryEmbedder

        with self._guard:
            if self._opened is None:
                client = EmbeddingClient(self._provider)
                seconds = self._timeout_seconds
                self._opened = (
                    client,
                    QueryEmbedder(
                        lambda text: client.embed([text], timeout_seconds=seconds)[0], seconds
                    ),
                )
            return self._opened
