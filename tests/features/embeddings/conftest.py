"""A server that speaks the API, for every test here."""

from collections.abc import Iterator

import pytest

from skills_mcp.features.embeddings.client import EmbeddingClient
from tests.features.embeddings.embedding_server import (
    EmbeddingServer,
    provider_for,
    serving,
)


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with serving() as server:
        yield server


@pytest.fixture
def client(server: EmbeddingServer) -> Iterator[EmbeddingClient]:
    client = EmbeddingClient(provider_for(server))
    yield client
    client.close()
