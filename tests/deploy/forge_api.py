"""The part of a forge's API that pipelines write comments with, over real HTTP."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

HEADERS = ("Authorization", "PRIVATE-TOKEN")


@dataclass
class ForgeApi:
    """A server that keeps the comments of one request."""

    url: str
    is_open: bool = True
    """Whether the token may write."""
    comments: dict[int, str] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    calls: list[tuple[str, str]] = field(default_factory=list)

    def answer(self, method: str, path: str, body: str) -> tuple[int, Any]:
        self.calls.append((method, path))
        if method == "GET":
            return 200, [{"id": i, "body": text} for i, text in self.comments.items()]
        if not self.is_open:
            return 403, {"message": "Resource not accessible"}
        number = len(self.comments) + 1
        if method in {"PATCH", "PUT"}:
            number = int(path.rpartition("/")[2])
        self.comments[number] = body
        return 200, {"id": number}


@contextmanager
def served_forge() -> Iterator[ForgeApi]:
    """Serve the API on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            for name in HEADERS:
                forge.tokens |= {self.headers[name]} - {None}
            code, data = forge.answer(self.command, self.path, _read(raw))
            payload = json.dumps(data).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_POST = do_PATCH = do_PUT = do_GET  # noqa: N815 - the server asks for these

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        forge = ForgeApi(f"http://127.0.0.1:{server.server_port}")
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield forge
        finally:
            server.shutdown()
            thread.join()


def _read(raw: bytes) -> str:
    """Return the text of a comment, from JSON or from a form."""
    if raw.startswith(b"{"):
        return str(json.loads(raw)["body"])
    return parse_qs(raw.decode()).get("body", [""])[0]
