"""The hook of embeddings."""

from skills_mcp.features.embeddings.embedder import open_embedding as open_embedder

__all__ = ["open_embedder"]
