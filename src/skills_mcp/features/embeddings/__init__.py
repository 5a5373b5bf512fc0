"""Embeddings: what a text means, as vectors of a model that the operator chose.

Without a provider neither NumPy nor httpx is imported, and nothing leaves the machine.
"""

from skills_mcp.features.embeddings.embedder import open_embedding

__all__ = ["open_embedding"]
