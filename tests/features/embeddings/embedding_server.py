"""An API for embeddings on the loopback, and skills that it understands."""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import numpy as np

from skills_mcp.config import Embedding
from skills_mcp.features.embeddings.client import (
    EmbeddingProvider,
    derive_embedding_provider,
)
from skills_mcp.skills.model import Skill
from tests.support import make_skill

KEY = "sk-very-secret-1234567890"
DIMENSIONS = 16

_CONCEPTS = (
    ("invoice", "bill", "charge", "customers", "owe"),
    ("deploy", "release", "ship", "production"),
    ("login", "password", "authentication", "sign"),
)


def vector_of(text: str) -> list[float]:
    """Return a vector that knows that a bill is an invoice."""
    vector = np.full(DIMENSIONS, 0.1)
    for word in text.lower().split():
        for number, words in enumerate(_CONCEPTS):
            vector[number] += word.strip(".,") in words
    return [float(number) for number in vector]


@dataclass
class Answer:
    """What the server says instead of vectors."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def vectors_answer(vectors: Sequence[Any]) -> Answer:
    data = [{"index": n, "embedding": v} for n, v in enumerate(vectors)]
    return Answer(body=json.dumps({"data": data}).encode())


def error_answer(status: int, message: str = "", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json.dumps({"error": {"message": message}}).encode(), named)


@dataclass(frozen=True)
class Received:
    path: str
    key: str | None
    body: dict[str, Any]


class EmbeddingServer(ThreadingHTTPServer):
    """Remembers what it was asked; answers with vectors, or as it is told."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[Received] = []
        self.told: deque[Answer | Literal["hang", "drip"]] = deque()
        self.released = threading.Event()
        """What hangs goes on, and what drips ends."""
        self.vector_of: Callable[[str], list[float]] = vector_of

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def texts(self) -> list[str]:
        return [text for each in self.received for text in each.body["input"]]


class _Handler(BaseHTTPRequestHandler):
    server: EmbeddingServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers["Authorization"]
        self.server.received.append(Received(self.path, key, body))
        told = self.server.told.popleft() if self.server.told else None
        if told == "hang":
            self.server.released.wait(60)
            told = None
        if told == "drip":
            self._drip()
            return
        answer = told or vectors_answer([self.server.vector_of(text) for text in body["input"]])
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def _drip(self) -> None:
        self.send_response(200)
        self.end_headers()
        while not self.server.released.wait(0.02):
            self.wfile.write(b" ")

    def log_message(self, *_: Any) -> None:
        """Keep the output of the tests clean."""

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:
            """Whoever asked did not wait for the answer."""


@contextmanager
def serving() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()


def rules_for(server: EmbeddingServer, **more: Any) -> Embedding:
    return Embedding.model_validate({"provider": "openai", "base_url": server.url, **more})


def provider_for(server: EmbeddingServer, **more: Any) -> EmbeddingProvider:
    return derive_embedding_provider(rules_for(server, **more), {"OPENAI_API_KEY": KEY})


def example_skills() -> list[Skill]:
    """Return skills in path order, of three meanings."""
    return [
        make_skill("auth", description="Login and authentication"),
        make_skill("billing", description="Write an invoice"),
        make_skill("shipping", description="Deploy a release"),
    ]
