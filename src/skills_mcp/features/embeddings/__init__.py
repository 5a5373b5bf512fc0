"""Embeddings: texts as vectors, from a model chosen by the operator.

Without a provider neither NumPy nor httpx is imported, and nothing leaves the machine.
With one, they are imported by `vectors_of`, on a worker thread, and not before.
"""

from skills_mcp.features.embeddings.embedder import open_embedder

__all__ = ["open_embedder"]
