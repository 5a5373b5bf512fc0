"""Embeddings: what a text means, as vectors of a model that the operator chose.

With the provider `none` only this file and two small ones are imported, and nothing
leaves the machine.
"""

from skills_mcp.embeddings.embedder import open_embedding

__all__ = ["open_embedding"]
