"""What a text means, as vectors of a model that the operator chose (000 §6.3).

With the provider `none` nothing here is imported but this file and two that are small,
and nothing leaves the machine.
"""

from skills_mcp.embeddings.embedder import open_embedding

__all__ = ["open_embedding"]
