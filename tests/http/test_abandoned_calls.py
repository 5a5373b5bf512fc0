"""A call of a tool whose client has gone before its turn never runs."""

import json
import socket
from pathlib import Path
from threading import Event, Lock
from urllib.parse import urlsplit

import anyio
import httpx
import pytest
from mcp_types.version import LATEST_MODERN_VERSION

from skills_mcp.config import Http
from skills_mcp.http.http_server import create_application
from skills_mcp.library import LibraryView
from skills_mcp.server.app import create_server
from tests.http.listening import listening
from tests.support import PATIENCE_SECONDS, open_library, wait_for, write_skill

_META = {
    "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

_AT_ONCE = 16  # calls of one client

# So that the request after them is of another client.
_HTTP = Http(trust_proxy_headers=True, anonymous=("skills:read",))
_OTHER = {"X-Forwarded-For": "192.0.2.1"}


def call(url: str) -> socket.socket:
    """Send a call of which nobody reads the answer."""
    parts = urlsplit(url)
    params = {"name": "list_skills", "arguments": {}, "_meta": _META}
    sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    body = json.dumps(sent)
    fields = {
        "Host": parts.netloc,
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "MCP-Protocol-Version": LATEST_MODERN_VERSION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "list_skills",
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    opened = socket.create_connection((parts.hostname or "", parts.port or 80))
    opened.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n{body}".encode())
    return opened


def test_a_call_that_waits_is_dropped_with_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path, "one.md")
    library = open_library(tmp_path)
    server = create_server(library, is_shared=True)
    config = library.config.model_copy(update={"http": _HTTP})
    app = create_application(server, config, shutdown=anyio.Event())
    released, lock, begun, ended = Event(), Lock(), [], []
    listed = LibraryView.list_skills

    def wait(self: LibraryView, *its: object, **named: object) -> object:
        with lock:
            begun.append(1)
        released.wait(PATIENCE_SECONDS)
        ended.append(1)
        return listed(self, *its, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(LibraryView, "list_skills", wait)
    with listening(app) as url:
        try:
            opened = [call(url) for _ in range(_AT_ONCE + 15)]
            wait_for(lambda: len(begun) == _AT_ONCE)
            for each in opened:
                each.close()
            # An answer to what comes later: the server has seen that they have gone.
            assert httpx.get(f"{url}/nothing", headers=_OTHER).status_code == 404
        finally:
            released.set()
        wait_for(lambda: len(ended) == _AT_ONCE)
        last = call(url)
        assert last.recv(12) == b"HTTP/1.1 200"
        last.close()

    assert len(begun) == _AT_ONCE + 1
