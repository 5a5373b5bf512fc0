"""The hook of embeddings."""

from skills_mcp.features.embeddings import open_embedder

__all__ = ["open_embedder"]
