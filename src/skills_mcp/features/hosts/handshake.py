"""The first words between a host and a server, in both eras of the protocol.

They are plain lines of JSON, so nothing here depends on how our own server is built.
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
"""The revisions of the protocol: the last one that begins with `initialize`, and the
one that begins with `server/discover`."""

PATIENCE_SECONDS = 30.0
"""How long hosts wait for the first answer."""

_ENDING_SECONDS = 5.0
_ABOUT_US = {"name": "skills-mcp doctor", "version": __version__}
_MOST_PAGES = 50  # of a list of tools; more are a server that never ends it
_QUOTED = 300  # characters of what a server has written to its log


class HandshakeError(Exception):
    """A server did not start, or did not answer as the protocol wants."""


class NoProgramError(HandshakeError):
    """There is no program of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """What a server says at the beginning, and how soon."""

    era: Era
    seconds: float
    """From its start to its first answer."""
    tools: tuple[str, ...]
    tool_characters: int
    """Of the names, descriptions and arguments that the model sees."""
    instructions: str


def greet(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    era: Era,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Greeting:
    """Start a server, ask what a host asks first, and end the server.  Blocking.

    Args:
        command: The program and its arguments.
        environment: All variables of the server.
        folder: Its working directory.
        era: Which words to begin with.
        patience_seconds: How long each answer may take.

    Raises:
        NoProgramError: There is no such program.
        HandshakeError: It does not start, ends, or does not answer.
    """
    began = time.monotonic()
    with _started(command, environment, folder, patience_seconds) as talk:
        first = talk.ask(*_compose_opening(era))
        seconds = time.monotonic() - began
        if era == "2025-11-25":
            talk.tell("notifications/initialized")
        tools = list(_list_tools(talk, era))
    shown = [
        {key: tool.get(key) for key in ("name", "description", "inputSchema")}
        for tool in tools
    ]
    return Greeting(
        era=era,
        seconds=seconds,
        tools=tuple(str(tool.get("name")) for tool in tools),
        tool_characters=sum(len(json.dumps(each)) for each in shown),
        instructions=str(first.get("instructions") or ""),
    )


class _Talk:
    """Requests and answers, a line each.

    Args:
        process: The server, with pipes for its input and its output.
        log: What it writes to standard error.
        patience_seconds: How long each answer may take.
    """

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

    def ask(self, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        """Return the result of a request.

        Raises:
            HandshakeError: There is none in time, or it is an error.
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

    def tell(self, method: str) -> None:
        """Send a notification."""
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
            shown = line.decode("utf-8", "replace").strip()[:_QUOTED]
            raise HandshakeError(f"it has printed what is no message of MCP: {shown}")
        return message

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put(b"")

    def _quote_log(self) -> str:
        self._log.seek(0)
        said = " ".join(self._log.read().decode("utf-8", "replace").split())
        return f" Its log ends with: {said[-_QUOTED:]}" if said else ""


@contextmanager
def _started(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    patience_seconds: float,
) -> Iterator[_Talk]:
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
            raise NoProgramError(
                f"{command[0]} cannot be started: {os.strerror(error.errno or 0)}"
            ) from error
        except (OSError, ValueError) as error:
            raise HandshakeError(f"it cannot be started: {error}") from error
        try:
            yield _Talk(process, log, patience_seconds)
        finally:
            _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Close the input, as a host does, and kill what does not end by that."""
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


def _compose_opening(era: Era) -> tuple[str, dict[str, object]]:
    if era == "2026-07-28":
        return "server/discover", _describe_us(era)
    capabilities: dict[str, object] = {}
    return "initialize", {
        "protocolVersion": era,
        "capabilities": capabilities,
        "clientInfo": _ABOUT_US,
    }


def _describe_us(era: Era) -> dict[str, object]:
    """Return what each request of an era says about its sender."""
    if era == "2025-11-25":
        return {}
    names = "io.modelcontextprotocol"
    about = {
        f"{names}/protocolVersion": era,
        f"{names}/clientCapabilities": {},
        f"{names}/clientInfo": _ABOUT_US,
    }
    return {"_meta": about}


def _list_tools(talk: _Talk, era: Era) -> Iterator[Mapping[str, Any]]:
    cursor: dict[str, object] = {}
    for _ in range(_MOST_PAGES):
        page = talk.ask("tools/list", {**_describe_us(era), **cursor})
        yield from (tool for tool in page.get("tools", ()) if isinstance(tool, dict))
        if not page.get("nextCursor"):
            return
        cursor = {"cursor": page["nextCursor"]}
