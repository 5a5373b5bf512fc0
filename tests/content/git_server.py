"""Git over HTTP as a forge serves it: `git http-backend` behind a real socket.

It can also fail in every way that a forge or a network does: set `server.fault` to
one of the faults below, or to a function of your own that answers a request.
"""

import base64
import gzip
import os
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What the real Git would have said."""

    status: int
    headers: Mapping[str, str]
    content: bytes = b""


class Request(BaseHTTPRequestHandler):
    """One request; a fault answers it with the methods below, or not at all."""

    server: "GitServer"
    body: bytes = b""

    @property
    def kind(self) -> str:
        """`info/refs`, `ls-refs` or `fetch`, which is the one that brings the pack."""
        if "/info/refs" in self.path:
            return "info/refs"
        return "ls-refs" if b"command=ls-refs" in self.body else "fetch"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        zipped = self.headers.get("Content-Encoding") == "gzip"
        self.body = gzip.decompress(body) if zipped else body
        self.server.authorizations.append(self.headers.get("Authorization"))
        self.server.kinds.append(self.kind)
        (self.server.fault or Request.serve)(self)

    do_POST = do_GET  # noqa: N815 - the standard library's name

    def serve(self) -> None:
        """Answer as if nothing were wrong."""
        self.send(self.ask_git())

    def ask_git(self) -> Answer:
        """Return the answer that nothing is wrong with; 401 without the token."""
        if self.server.moved_to:
            return Answer(302, {"Location": self.server.moved_to + self.path})
        if not self.server.admits(self.headers.get("Authorization")):
            return Answer(401, {"WWW-Authenticate": 'Basic realm="content"'})
        self.server.on_request()
        return self._run_backend()

    def send(self, answer: Answer, content: bytes | None = None) -> None:
        """Send an answer; with `content`, less or other bytes than it announces."""
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content if content is None else content)
        self.wfile.flush()

    def wait(self) -> None:
        """Say nothing more until the test is over."""
        self.server.ended.wait()

    def _run_backend(self) -> Answer:
        path, _, query = self.path.partition("?")
        done = subprocess.run(
            ["git", "http-backend"],
            input=self.body,
            capture_output=True,
            check=True,
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(self.server.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_GLOBAL": os.devnull,
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type") or "",
                "CONTENT_LENGTH": str(len(self.body)),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
            },
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        lines = [line.partition(": ") for line in head.decode().split("\r\n")]
        headers = {name: value for name, _, value in lines}
        status = int(headers.pop("Status", "200").split()[0])
        return Answer(status, headers, content)

    def log_message(self, *_: Any) -> None:
        """Keep the output of the tests clean."""


Fault = Callable[[Request], object]
"""Answers a request in the place of Git; called before anything is checked."""


class GitServer(ThreadingHTTPServer):
    """Serves every repository below `root`; asks for `token`, if there is one."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, root: Path, token: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.root = root
        self.token = token
        self.user = "x-access-token"
        self.moved_to: str | None = None
        self.fault: Fault | None = None
        self.on_request: Callable[[], object] = lambda: None
        self.authorizations: list[str | None] = []
        self.kinds: list[str] = []
        self.ended = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def counts(self) -> Counter[str]:
        """How many requests of each `Request.kind` there were."""
        return Counter(self.kinds)

    def admits(self, authorization: str | None) -> bool:
        expected = base64.b64encode(f"{self.user}:{self.token}".encode()).decode()
        return self.token is None or authorization == f"Basic {expected}"

    def encrypt(self, certificate: Path) -> None:
        """Speak TLS from now on; the file holds the key, too."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed hangs up; that is what many tests are about."""


def hang(request: Request) -> None:
    """Accept, and send no byte."""
    request.wait()


def hang_after_headers(request: Request) -> None:
    """Send the headers of a good answer, and nothing of its content."""
    request.send(request.ask_git(), b"")
    request.wait()


def stall(at: float) -> Fault:
    """Send the pack up to a byte (or a share of it, such as 0.5), and no more."""
    return _in_pack(lambda request, good, n: _send_part(request, good, n, waits=True), at)


def drip(piece: int, pause_seconds: float) -> Fault:
    """Send the pack in small pieces, with a pause before each."""

    def send_slowly(request: Request, good: Answer, _: int) -> None:
        request.send(good, b"")
        for start in range(0, len(good.content), piece):
            request.server.ended.wait(pause_seconds)
            request.wfile.write(good.content[start : start + piece])
            request.wfile.flush()

    return _in_pack(send_slowly, 0)


def cut(at: float) -> Fault:
    """Hang up in the pack, before the byte `at` (or at a share of it)."""
    return _in_pack(lambda request, good, n: _send_part(request, good, n, waits=False), at)


def flip(at: float) -> Fault:
    """Change one byte of the pack's answer."""

    def send_changed(request: Request, good: Answer, place: int) -> None:
        content = bytearray(good.content)
        content[place % len(content)] ^= 0x55
        request.send(good, bytes(content))

    return _in_pack(send_changed, at)


def answer(status: int, content: bytes = b"", **headers: str) -> Fault:
    """Answer every request so; `Retry_After="60"` is the header `Retry-After`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: request.send(Answer(status, named, content))


def redirect(status: int, target: str) -> Fault:
    """Send every request to the same path somewhere else."""
    return lambda request: request.send(Answer(status, {"Location": target + request.path}))


def replaying(request: Request, answers: dict[bytes, Answer]) -> Answer:
    """Return what Git has said to the same request before, as it takes less time."""
    key = request.path.encode() + request.body
    if key not in answers:
        answers[key] = request.ask_git()
    return answers[key]


def alternate(*faults: Fault | None) -> Fault:
    """Take the next fault for each new sync (`info/refs`); None serves it well."""
    turns = cycle(faults)
    current: list[Fault | None] = [None]

    def take_turns(request: Request) -> None:
        if request.kind == "info/refs":
            current[0] = next(turns)
        (current[0] or Request.serve)(request)

    return take_turns


def only(kind: str, fault: Fault) -> Fault:
    """Let the fault happen to one `Request.kind` alone."""
    return lambda request: (fault if request.kind == kind else Request.serve)(request)


def flood(count: int) -> Fault:
    """Advertise that many branches, in the old protocol, which names all of them."""
    commit = b"1" * 40
    first = commit + b" HEAD\0side-band-64k ofs-delta shallow\n"
    rest = (b"%s refs/heads/b%09d\n" % (commit, number) for number in range(count))
    lines = (b"# service=git-upload-pack\n", None, first, *rest, None)
    content = b"".join(
        b"0000" if line is None else b"%04x%s" % (len(line) + 4, line) for line in lines
    )
    return answer(200, content, Content_Type="application/x-git-upload-pack-advertisement")


def _in_pack(spoil: Callable[[Request, Answer, int], object], at: float) -> Fault:
    def spoil_pack(request: Request) -> None:
        good = request.ask_git()
        if request.kind != "fetch" or good.status != 200:
            request.send(good)
            return
        size = len(good.content)
        spoil(request, good, int(at * size if 0 < at < 1 else at))

    return spoil_pack


def _send_part(request: Request, good: Answer, size: int, *, waits: bool) -> None:
    request.send(good, good.content[:size])
    if waits:
        request.wait()


@contextmanager
def serving(root: Path, token: str | None = None) -> Iterator[GitServer]:
    """Serve the repositories below `root` until the block ends."""
    with GitServer(root, token) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()
