"""MCP handshake from the client's side, in both eras of the protocol.

It speaks plain JSON lines, independent of this server's own implementation.
"""

import json
import os
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from skills_mcp.about import __version__
from skills_mcp.processes.group import GROUP_OPTIONS, kill_group

Era = Literal["2025-11-25", "2026-07-28"]
ERAS: tuple[Era, ...] = ("2025-11-25", "2026-07-28")
"""Protocol revisions: the last one with `initialize`, and the first one with
`server/discover`.
"""

ANSWER_TIMEOUT_SECONDS = 30.0
"""Time-out of hosts for the first answer."""

_ENDING_SECONDS = 5.0
_CLIENT_INFO = {"name": "skills-mcp doctor", "version": __version__}
_MAX_PAGES = 50  # of a list of tools; more are a server that never ends it
_QUOTED = 300  # characters of what a server has written to its log


class HandshakeError(Exception):
    """A server did not start, or violated the protocol."""


class ProgramNotFoundError(HandshakeError):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeResult:
    era: Era
    seconds: float
    tools: tuple[str, ...]
    tool_characters: int
    """Length of the names, descriptions and arguments shown to the model."""
    instructions: str


def run_handshake(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    era: Era,
    *,
    patience_seconds: float = ANSWER_TIMEOUT_SECONDS,
) -> HandshakeResult:
    """Start a server, run the handshake, and stop the server.  Blocking.

    `patience_seconds` limits each answer.

    Raises:
        ProgramNotFoundError: The program does not exist.
        HandshakeError: It does not start, exits, or does not answer.
    """
    began = time.monotonic()
    with _running_server(command, environment, folder, patience_seconds) as talk:
        first = talk.request(*_compose_first_request(era))
        seconds = time.monotonic() - began
        if era == "2025-11-25":
            talk.notify("notifications/initialized")
        tools = list(_list_tools(talk, era))
    visible = [
        {key: tool.get(key) for key in ("name", "description", "inputSchema")} for tool in tools
    ]
    return HandshakeResult(
        era=era,
        seconds=seconds,
        tools=tuple(str(tool.get("name")) for tool in tools),
        tool_characters=sum(len(json.dumps(tool_view)) for tool_view in visible),
        instructions=str(first.get("instructions") or ""),
    )


class _JsonRpcClient:
    """JSON-RPC client over pipes, one message per line."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        log: IO[bytes],
        patience_seconds: float,
    ) -> None:
        self._process = process
        self._log = log
        self._patience_seconds = patience_seconds
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._number = 0
        threading.Thread(target=self._read, daemon=True).start()

    def request(self, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        """Send a request, and wait for its result.

        Raises:
            HandshakeError: It timed out, or the answer is an error.
        """
        self._number += 1
        self._write({"id": self._number, "method": method, "params": params})
        while True:
            answer = self._next(method)
            if answer.get("id") == self._number:
                break
        if "error" in answer:
            raise HandshakeError(f"it refuses {method}: {answer['error']}")
        result: dict[str, Any] = answer.get("result") or {}
        return result

    def notify(self, method: str) -> None:
        self._write({"method": method})

    def _write(self, message: Mapping[str, object]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message})
        pipe = self._process.stdin
        try:
            if pipe:
                pipe.write(f"{line}\n".encode())
                pipe.flush()
        except OSError:
            return  # it has ended, and the wait for its answer says why

    def _next(self, method: str) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=self._patience_seconds)
        except queue.Empty:
            raise HandshakeError(
                f"it has not answered {method} within {self._patience_seconds:.0f} "
                f"seconds.{self._quote_log()}"
            ) from None
        if not line:
            status = self._process.wait()
            raise HandshakeError(f"it ended with status {status}.{self._quote_log()}")
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            printed = line.decode("utf-8", "replace").strip()[:_QUOTED]
            raise HandshakeError(f"it has printed what is no message of MCP: {printed}")
        return message

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put(b"")

    def _quote_log(self) -> str:
        self._log.seek(0)
        logged = " ".join(self._log.read().decode("utf-8", "replace").split())
        return f" Its log ends with: {logged[-_QUOTED:]}" if logged else ""


@contextmanager
def _running_server(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    patience_seconds: float,
) -> Iterator[_JsonRpcClient]:
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(  # noqa: S603 - what a host would start
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=dict(environment),
                cwd=folder,
                **GROUP_OPTIONS,
            )
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            raise ProgramNotFoundError(
                f"{command[0]} cannot be started: {os.strerror(error.errno or 0)}"
            ) from error
        except (OSError, ValueError) as error:
            raise HandshakeError(f"it cannot be started: {error}") from error
        try:
            yield _JsonRpcClient(process, log, patience_seconds)
        finally:
            _stop_process(process)


def _stop_process(process: "subprocess.Popen[bytes]") -> None:
    """Close stdin, as a host does, then kill the process group."""
    try:
        if process.stdin:
            process.stdin.close()
        process.wait(_ENDING_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        pass
    finally:
        kill_group(process.pid)
        process.wait()
        if process.stdout:
            process.stdout.close()


def _compose_first_request(era: Era) -> tuple[str, dict[str, object]]:
    if era == "2026-07-28":
        return "server/discover", _compose_metadata(era)
    capabilities: dict[str, object] = {}
    return "initialize", {
        "protocolVersion": era,
        "capabilities": capabilities,
        "clientInfo": _CLIENT_INFO,
    }


def _compose_metadata(era: Era) -> dict[str, object]:
    if era == "2025-11-25":
        return {}
    names = "io.modelcontextprotocol"
    about = {
        f"{names}/protocolVersion": era,
        f"{names}/clientCapabilities": {},
        f"{names}/clientInfo": _CLIENT_INFO,
    }
    return {"_meta": about}


def _list_tools(talk: _JsonRpcClient, era: Era) -> Iterator[Mapping[str, Any]]:
    cursor: dict[str, object] = {}
    for _ in range(_MAX_PAGES):
        page = talk.request("tools/list", {**_compose_metadata(era), **cursor})
        yield from (tool for tool in page.get("tools", ()) if isinstance(tool, dict))
        if not page.get("nextCursor"):
            return
        cursor = {"cursor": page["nextCursor"]}
