"""Git over HTTP as a forge serves it: `git http-backend` behind a real socket."""

import base64
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class GitServer(ThreadingHTTPServer):
    """Serves every repository below `root`; asks for `token`, if there is one."""

    daemon_threads = True

    def __init__(self, root: Path, token: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.moved_to: str | None = None
        self.on_request: Callable[[], object] = lambda: None
        self.authorizations: list[str | None] = []
        self.token = token

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def admits(self, authorization: str | None) -> bool:
        expected = base64.b64encode(f"x-access-token:{self.token}".encode()).decode()
        return self.token is None or authorization == f"Basic {expected}"


class _Handler(BaseHTTPRequestHandler):
    server: GitServer

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        authorization = self.headers.get("Authorization")
        self.server.authorizations.append(authorization)
        if self.server.moved_to:
            self._answer(302, {"Location": self.server.moved_to + self.path})
        elif not self.server.admits(authorization):
            self._answer(401, {"WWW-Authenticate": 'Basic realm="content"'})
        else:
            self.server.on_request()
            self._serve(body)

    do_POST = do_GET  # noqa: N815 - the standard library's name

    def _serve(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            capture_output=True,
            check=True,
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(self.server.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type") or "",
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
            },
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        lines = [line.partition(": ") for line in head.decode().split("\r\n")]
        headers = {name: value for name, _, value in lines}
        status = int(headers.pop("Status", "200").split()[0])
        self._answer(status, headers, content)

    def _answer(
        self, status: int, headers: dict[str, str], content: bytes = b""
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Keep the output of the tests clean."""


@contextmanager
def serving(root: Path, token: str | None = None) -> Iterator[GitServer]:
    """Serve the repositories below `root` until the block ends."""
    with GitServer(root, token) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
