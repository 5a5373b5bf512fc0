"""The servers of this user that serve windows: listed and ended, never started.

What they say is data of another process: it may be of another version, and it may have
stopped answering.
"""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from skills_mcp.processes.group import is_running
from skills_mcp.skills.model import escape_unprintable
from skills_mcp.text.rendering import describe_age

_ANSWER_SECONDS = 1.0  # a server that answers later is busy with something else
_END_SECONDS = 10.0  # its last events get one second, and its calls, too
_POLL_SECONDS = 0.02
_READ_BYTES = 2**16
_MAX_REPLY_BYTES = 2**20
_MEGABYTE = 2**20
_SHOWN = 12  # digits of a commit


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedWindow:
    pid: int
    client: str
    """Name of the client; empty before its first message."""
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A server with its windows."""

    pid: int
    version: str = ""
    """Empty if the server does not answer."""
    seconds: int = 0
    windows: tuple[ConnectedWindow, ...] = ()
    commands: int = 0
    """How many commands it has answered."""
    memory: Mapping[str, int] = field(default_factory=dict)
    commits: tuple[str, ...] = ()

    def render(self) -> dict[str, object]:
        """JSON representation."""
        return asdict(self)

    def __str__(self) -> str:
        if not self.version:
            return f"{self.pid} does not answer"
        number = len(self.windows)
        noun = "window" if number == 1 else "windows"
        clients = ", ".join(
            f"{escape_unprintable(window.client) or 'no client yet'} {describe_age(window.seconds)}"
            for window in self.windows
        )
        resident = self.memory.get("resident_bytes", 0) // _MEGABYTE
        parts = [
            f"{self.pid}, version {self.version}",
            f"{number} {noun}" + (f" ({clients})" if clients else ""),
            *([f"{resident} MB"] if resident else []),
            *(f"at {commit[:_SHOWN]}" for commit in self.commits),
        ]
        return ", ".join(parts)


def list_servers(environment: Mapping[str, str]) -> Sequence[RunningServer]:
    """All servers of this user, the oldest first."""
    servers = (_describe(connection) for connection in _connect_all(environment))
    return sorted(servers, key=lambda server: -server.seconds)


def stop_servers(environment: Mapping[str, str]) -> Sequence[RunningServer]:
    """End all servers of this user, those that do not answer by a signal.

    Returns:
        What has ended.
    """
    found = list_servers(environment)
    numbers = [_stop(connection) for connection in _connect_all(environment)]
    deadline = time.monotonic() + _END_SECONDS
    while any(map(is_running, numbers)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return [server for server in found if not is_running(server.pid)]


def _connect_all(environment: Mapping[str, str]) -> Iterator[socket.socket]:
    """Connect to the servers in folders that belong to this user alone."""
    try:
        from skills_mcp.server.windows.rendezvous import Rendezvous, is_private, list_folders
    except (ImportError, AttributeError):  # a system without Unix sockets
        return
    for folder in filter(is_private, list_folders(environment)):
        for address in sorted(Path(folder).glob("*.sock")):
            rendezvous = Rendezvous(folder, address.stem, keeps_folder=False)
            if connection := rendezvous.connect(_ANSWER_SECONDS):
                with closing(connection):
                    yield connection


def _describe(connection: socket.socket) -> RunningServer:
    try:
        found = json.loads(_request(connection, "list"))
        windows = tuple(ConnectedWindow(**window) for window in found["windows"])
        return RunningServer(
            **{**found, "windows": windows, "commits": tuple(found["commits"])},
        )
    # It is stopped, or of another version.
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return RunningServer(pid=_read_process_id(connection))


def _stop(connection: socket.socket) -> int:
    """Ask a server to end, and kill it if it does not answer; its process id."""
    number = _read_process_id(connection)
    try:
        is_told = bool(_request(connection, "stop"))
    except OSError:
        is_told = False
    if not is_told and number > 0:
        # It has accepted our connection, so the number is not another's by now.
        with suppress(OSError):
            os.kill(number, signal.SIGKILL)
    return number


def _request(connection: socket.socket, kind: str) -> bytes:
    from skills_mcp.server.windows.rendezvous import compose_greeting

    connection.sendall(compose_greeting(kind, ()))
    reply = b""
    while len(reply) < _MAX_REPLY_BYTES and (data := connection.recv(_READ_BYTES)):
        reply += data
    return reply


def _read_process_id(connection: socket.socket) -> int:
    """Process at the other end, as the kernel knows it; 0 if it does not tell."""
    if sys.platform == "darwin":
        return connection.getsockopt(0, 2)  # SOL_LOCAL and LOCAL_PEERPID
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(raw[:4], "little")
