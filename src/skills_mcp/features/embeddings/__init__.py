"""Embeddings: texts as vectors, from a model chosen by the operator."""
