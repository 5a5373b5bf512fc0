"""Python programs that start as forks of a process that has imported the libraries.

Importing them costs a program half a second of CPU, most of it for the MCP SDK, and our
core a sixth of one; the tests start more than a thousand. Arguments, environment, folder
and streams are those of a program that was started. A test about what is imported, and
when, asks for the fixture `started_anew`.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from io import TextIOWrapper
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, TextIO

_LIBRARIES = (
    *("mcp.server.lowlevel.server", "uvicorn", "starlette.applications", "httpx", "yaml"),
    *("numpy", "click", "jwt", "prometheus_client", "sqlalchemy.orm", "alembic.command"),
)
_CORE = (
    *("skills_mcp.cli.commands.serve", "skills_mcp.http.http_server"),
    *("skills_mcp.server.app", "skills_mcp.server.stdio"),
)
_OURS = ("skills_mcp", "soak.", "demo.", "repositories.", "pytest")
_SCRIPT = os.fspath(Path(sys.executable).parent / "skills-mcp")
_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "OPENBLAS_", "OTEL_P")
"""Beginnings of variables that Python or a library has read before the fork."""
_READ_BY_FORKS = {"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}

_CHANNEL = "FORKS_CHANNEL"
"""Names the descriptor through which tests of a test order their forks."""

_PR_SET_CHILD_SUBREAPER = 36
_SIZE = 8


class Forks:
    """Takes the place of what `subprocess` calls to start a process.

    Args:
        usual: What was there; it starts everything that is no Python program of ours.
    """

    def __init__(self, usual: Callable[..., int]) -> None:
        self.paused = False
        self._usual = usual
        self._lock = Lock()
        self._channel: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self._read_at_start = _find_read_at_start(os.environ)
        if inherited := os.environ.pop(_CHANNEL, None):
            self._channel = socket.socket(fileno=int(inherited))

    def __call__(self, *arguments: Any) -> int:
        """Start a process, given what `_posixsubprocess.fork_exec` is given."""
        words = [os.fsdecode(word) for word in arguments[0]]
        kept, folder, variables = arguments[3:6]
        session, group = arguments[15:17]
        environment = dict(os.environ) if variables is None else _parse(variables)
        if (
            self.paused
            or not _is_ours(words)
            or not arguments[2]  # it inherits what is open
            or len(kept) > 1  # one is the pipe that reports a failed start
            or group != -1
            or any(given is not None and given != -1 for given in arguments[17:22])
        ):
            return self._usual(*arguments)
        with self._lock:
            channel = self._channel or self._start()
            if _find_read_at_start(environment) != self._read_at_start:
                return self._usual(*arguments)
            order = {"words": words, "environment": environment, "session": bool(session)}
            streams = [
                wanted if wanted != -1 else usual
                for usual, wanted in enumerate((arguments[6], arguments[9], arguments[11]))
            ]
            return _ask(channel, json.dumps(order).encode(), streams, folder)

    def close(self) -> None:
        if self._channel:
            self._channel.close()
        if self._server:
            self._server.wait()

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self._channel = ours
        return ours


def _is_ours(words: list[str]) -> bool:
    is_python = words[0] == sys.executable and len(words) > 2
    return words[0] == _SCRIPT or (
        is_python and (words[1] == "-c" or (words[1] == "-m" and words[2].startswith(_OURS)))
    )


def _parse(variables: list[bytes]) -> dict[str, str]:
    pairs = (os.fsdecode(variable).partition("=") for variable in variables)
    return {name: value for name, _, value in pairs}


def _find_read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    found = {k: v for k, v in environment.items() if k.startswith(_READ_AT_START)}
    # Without a locale Python takes the one that is left out here.
    return {k: v for k, v in found.items() if k not in _READ_BY_FORKS and v != "C.UTF-8"}


def _find_own_path() -> list[str]:
    return [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]


def _ask(channel: socket.socket, order: bytes, streams: list[int], folder: bytes | None) -> int:
    """Send an order, and adopt the process: its parent ends before it is announced."""
    place = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        _adopt_orphans(1)
        socket.send_fds(channel, [len(order).to_bytes(_SIZE, "big")], [*streams, place])
        channel.sendall(order)
        answer = channel.recv(_SIZE, socket.MSG_WAITALL)
        if not answer:
            raise OSError("the process that forks has ended")
        return int.from_bytes(answer, "big")
    finally:
        _adopt_orphans(0)
        os.close(place)


def _adopt_orphans(switch: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, switch, 0, 0, 0)


def _wait_for_order(channel: socket.socket) -> dict[str, Any]:
    """Fork for each order, and return it in the fork; end when nobody can order."""
    while True:
        size, descriptors, _, _ = socket.recv_fds(channel, _SIZE, 4)
        if not size:
            raise SystemExit
        order = channel.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
        reader, writer = os.pipe()
        if between := os.fork():
            os.close(writer)
            for descriptor in descriptors:
                os.close(descriptor)
            answer = os.read(reader, _SIZE)
            os.close(reader)
            os.waitpid(between, 0)
            channel.sendall(answer)
            continue
        if program := os.fork():
            os.write(writer, program.to_bytes(_SIZE, "big"))
            os._exit(0)
        *streams, place = descriptors
        os.fchdir(place)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, max(*descriptors, reader, writer, channel.fileno()) + 1)
        channel.detach()
        found: dict[str, Any] = json.loads(order)
        return found


def _become(order: dict[str, Any]) -> None:
    """Run a program in this process, which nothing of it has touched before."""
    words = order["words"]
    if words[1:3] == ["-m", "pytest"]:
        ours, theirs = socket.socketpair()
        if not os.fork():
            ours.close()
            _become(_wait_for_order(theirs))
            return
        theirs.close()
        order["environment"][_CHANNEL] = str(ours.detach())
    if order["session"]:
        os.setsid()
    before = _find_own_path()
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.path[: len(before)] = after = _find_own_path()
    if after != before:  # they may lead to another copy of the source
        for name in [name for name in sys.modules if name.partition(".")[0] == "skills_mcp"]:
            del sys.modules[name]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = open(0, encoding=sys.stdin.encoding, closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = _open_output(1, sys.stdout), _open_output(2, sys.stderr)
    importlib.invalidate_caches()
    sys.orig_argv[:] = words
    if words[0] == _SCRIPT:
        sys.argv = words
        runpy.run_path(_SCRIPT, run_name="__main__")
        return
    way, program = words[1:3]
    if way == "-m":
        sys.path.insert(0, os.fspath(Path.cwd()))
        sys.argv = words[2:]
        runpy.run_module(program, run_name="__main__", alter_sys=True)
        return
    sys.path.insert(0, "")
    sys.argv = ["-c", *words[3:]]
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(program, "<string>", "exec"), main.__dict__)  # noqa: S102


def _open_output(number: int, like: TextIO) -> TextIOWrapper:
    is_unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    return TextIOWrapper(
        open(number, "wb", 0 if is_unbuffered else -1, closefd=False),
        encoding=like.encoding,
        errors=like.errors,
        newline="\n",
        line_buffering=not is_unbuffered and (number == 2 or os.isatty(number)),
        write_through=is_unbuffered,
    )


def _leave_libraries(before: set[str]) -> None:
    """Spare the end of a program the libraries: to take them apart copies their memory."""
    libraries = [sys.modules.pop(name) for name in set(sys.modules) & _loaded - before]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(libraries))


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file
    _loaded = set[str]()
    atexit.register(_leave_libraries, set(sys.modules))  # the first one is called last
    for library in _LIBRARIES:
        importlib.import_module(library)
    _loaded |= set(sys.modules)
    for module in _CORE:
        importlib.import_module(module)
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _become(_wait_for_order(socket.socket(fileno=int(sys.argv[1]))))
