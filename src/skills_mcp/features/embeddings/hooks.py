"""The hook of embeddings."""

from collections.abc import Mapping
from pathlib import Path

from skills_mcp.config import Embedding
from skills_mcp.features.embeddings import open_provider_embedder
from skills_mcp.snapshots.skill_snapshot import Embedder


def open_embedder(rules: Embedding, environment: Mapping[str, str], cache: Path) -> Embedder | None:
    """Open the embedder that the operator's settings name; None without one.

    Raises:
        ConfigError: An address or a model is missing.
    """
    return open_provider_embedder(rules, environment, cache)
