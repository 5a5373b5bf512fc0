"""Clients: in memory, in both protocol eras, and what they need around them."""

import itertools
import json
import os
import queue
import select
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import anyio
import mcp.client.session
from mcp.client.client import Client
from mcp.client.session import ElicitationFnT
from mcp_types import Implementation, Request, RequestParams, Result, TextContent
from pydantic import ConfigDict

from skills_mcp.content.source import Checkout
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.processes.group import kill_group
from skills_mcp.server.app import create_server
from skills_mcp.server.tools import COMMAND_TOOLS, CORE_TOOLS, PACKAGE_TOOLS
from tests.content.sources import FakeSource, checkout_of
from tests.support import PATIENCE_SECONDS

TOOLS = (*CORE_TOOLS, *PACKAGE_TOOLS, *COMMAND_TOOLS)
"""Every tool, in the order in which hosts list them, which never changes."""

ERAS = {"auto": "2026-07-28", "legacy": "2025-06-18"}
"""How a client opens a connection, and the protocol revision that it then speaks."""

# What Codex and Gemini CLI ask for; the SDK's own client would ask for 2025-11-25.
mcp.client.session.LATEST_HANDSHAKE_VERSION = ERAS["legacy"]  # type: ignore[attr-defined]

MODERN: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""What every request of 2026-07-28 says about its sender."""

LEGACY = {
    "protocolVersion": ERAS["legacy"],
    "capabilities": {},
    "clientInfo": {"name": "elder", "version": "1"},
}
"""How a client of 2025 opens a connection."""


@asynccontextmanager
async def connected(
    library: SkillLibrary,
    era: str = "auto",
    *,
    name: str = "test",
    elicit: ElicitationFnT | None = None,
    **options: Any,
) -> AsyncIterator[Client]:
    """Serve a library in memory, with its background work, to a client of an era.

    Args:
        library: What is served.
        era: One of `ERAS`; the newest, unless the test is about the wire.
        name: What the client calls itself.
        elicit: How its user answers a question; None for a client that cannot ask.
        options: Of the SDK's client.
    """
    info = Implementation(name=name, version="1")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(library.refresher.run)
        try:
            server = create_server(library)
            async with Client(
                server, mode=era, client_info=info, elicitation_callback=elicit, **options
            ) as client:
                yield client
        finally:
            library.close()
            tasks.cancel_scope.cancel()


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool and return the one JSON object that it answers with."""
    with anyio.fail_after(PATIENCE_SECONDS):
        result = await client.call_tool(tool, arguments)
    [block] = result.content
    assert isinstance(block, TextContent)
    reply: dict[str, Any] = json.loads(block.text)
    assert result.is_error is ("error" in reply)
    return reply


ExtensionMethod = Literal["skills/list", "skills/get", "resources/directory/read"]


class _ExtensionParams(RequestParams):
    uri: str | None = None
    cursor: str | None = None


class _ExtensionRequest(Request[_ExtensionParams, ExtensionMethod]):
    method: ExtensionMethod


class _ExtensionAnswer(Result):
    model_config = ConfigDict(extra="allow")


async def ask_extension(client: Client, method: ExtensionMethod, **given: str) -> dict[str, Any]:
    """Call a method of the extension for skills and return its whole answer."""
    params = _ExtensionParams.model_validate(given)
    asked = _ExtensionRequest(method=method, params=params)
    with anyio.fail_after(PATIENCE_SECONDS):
        answer = await client.session.send_request(asked, _ExtensionAnswer)
    return answer.model_dump(by_alias=True)


async def list_published(client: Client) -> list[dict[str, Any]]:
    """Return every entry of the extension for skills, from all pages."""
    page = await ask_extension(client, "skills/list")
    skills: list[dict[str, Any]] = page["skills"]
    while page.get("nextCursor"):
        page = await ask_extension(client, "skills/list", cursor=page["nextCursor"])
        skills += page["skills"]
    return skills


class Reports:
    """What a client is told about the progress of a call.

    Args:
        then: What to do with every report.
    """

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.seconds: list[float] = []
        self.messages: list[str | None] = []
        self._then = then

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        self.seconds.append(progress)
        self.messages.append(message)
        self._then()


class SlowSource(FakeSource):
    """A repository that arrives when a test says so."""

    def __init__(self, directory: Path) -> None:
        super().__init__("a slow remote", checkout_of(None, directory))
        self._asked = threading.Event()
        self.arrived = threading.Event()

    def wait_until_asked(self) -> None:
        assert self._asked.wait(timeout=PATIENCE_SECONDS)

    def close(self) -> None:
        self.arrived.set()

    def _await_outcome(self) -> Checkout | Exception | None:
        self._asked.set()
        assert self.arrived.wait(timeout=PATIENCE_SECONDS)
        return super()._await_outcome()


class Lifeline:
    """A named pipe that a script and all its children hold open while they live."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._group: int | None = None

    def script(self) -> str:
        """Return a script that never ends by itself, and neither does its child."""
        return f'exec 9>"{self.path}"\nsleep 600 &\necho $$ >&9\nwait\n'

    def wait_for_start(self) -> None:
        self._group = int(self._next())

    def wait_for_end(self) -> None:
        """Return when every client has gone."""
        assert self._next() == b""
        self._group = None

    def close(self) -> None:
        """End what a failed test has left."""
        os.close(self._end)
        if self._group is not None:
            kill_group(self._group)

    def _next(self) -> bytes:
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        assert poll.poll(60_000), "nothing happened in a minute"
        return os.read(self._end, 100)


class HangingRemote:
    """A host that takes connections and never says a word."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE_SECONDS)
        self._connection: socket.socket | None = None
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/skills.git"

    def wait_for_request(self) -> None:
        """Return when a client has asked for something."""
        self._connection, _ = self._listener.accept()
        self._connection.settimeout(PATIENCE_SECONDS)
        assert self._connection.recv(1)

    def wait_for_hang_up(self) -> None:
        """Return when no process holds the connection any more."""
        assert self._connection is not None
        with suppress(ConnectionResetError):
            while self._connection.recv(4096):
                pass

    def close(self) -> None:
        self._listener.close()
        if self._connection:
            self._connection.close()


class ServerProcess:
    """A real server, and a client that writes and reads single lines.

    Args:
        arguments: Of the program.
        environment: Added to that of the test.
        log: The file that gets standard error.
        prefix: The command that starts the server's command, if not we do.
    """

    def __init__(
        self,
        *arguments: str,
        environment: Mapping[str, str],
        log: Path,
        prefix: Sequence[str] = (),
    ) -> None:
        self.lines: list[str] = []
        self.meta = MODERN
        """What each request says about its sender."""
        self._log = log
        self._numbers = itertools.count(1)
        self.arrived: queue.Queue[str] = queue.Queue()
        command = [*prefix, sys.executable, "-m", "skills_mcp", *arguments]
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=os.environ | environment,
                text=True,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def log(self) -> str:
        """What was written to standard error."""
        return self._log.read_text()

    def write(self, line: str) -> None:
        """Send a line, valid or not."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def notify(self, method: str, **params: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))

    def shake_hands(self) -> dict[str, Any]:
        """Open the connection as clients of 2025 do; return the result."""
        self.meta = {}
        answer: dict[str, Any] = self.request("initialize", **LEGACY)["result"]
        self.notify("notifications/initialized")
        return answer

    def send(self, method: str, **params: Any) -> int:
        """Send a request, in the way of 2026-07-28 without a handshake; return its id."""
        number = next(self._numbers)
        message = {"jsonrpc": "2.0", "id": number, "method": method}
        self.write(json.dumps(message | {"params": {"_meta": self.meta, **params}}))
        return number

    def receive(self) -> dict[str, Any]:
        """Return the next message from the server."""
        message: dict[str, Any] = json.loads(self.arrived.get(timeout=PATIENCE_SECONDS))
        return message

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its answer; what comes before it is skipped."""
        number = self.send(method, **params)
        while True:
            message = self.receive()
            if message.get("id") == number:
                return message

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return the JSON object that it answers with."""
        answer = self.request("tools/call", name=tool, arguments=arguments)
        reply: dict[str, Any] = json.loads(answer["result"]["content"][0]["text"])
        return reply

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self) -> int:
        """Return the exit status; fail if the process does not end."""
        return self.process.wait(timeout=PATIENCE_SECONDS)

    def wait_for_end_of_output(self) -> None:
        """Return when no process can write to our pipe any more."""
        self._reader.join(timeout=PATIENCE_SECONDS)
        assert not self._reader.is_alive()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=PATIENCE_SECONDS)
        self._reader.join(timeout=PATIENCE_SECONDS)
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(BrokenPipeError):
                assert pipe is not None
                pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            self.arrived.put(line)
