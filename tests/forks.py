"""Python programs that start as forks of a process that has imported the libraries.

Importing them costs a program half a second of CPU, most of it for the MCP SDK, and our
core a sixth of one; the tests start more than a thousand. Arguments, environment, folder
and streams are those of a program that was started. A program that looks at what is
imported is started anew, and so is any program of a test with the fixture `started_anew`.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import platform
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from types import ModuleType
from typing import Any, NoReturn, TextIO

_LIBRARIES = (
    *("mcp.server.lowlevel.server", "uvicorn.lifespan.on", "starlette.staticfiles", "httpx"),
    *("anyio._backends._asyncio", "yaml", "frontmatter", "markdown_it", "jinja2", "tomlkit"),
    *("numpy.typing", "Stemmer", "click", "rich.tree", "jwt", "authlib.integrations.base_client"),
    *("prometheus_client", "sqlalchemy.orm", "alembic.command"),
)
_APART = (
    *("skills_mcp.__main__", "skills_mcp.api", "skills_mcp.features.frameworks"),
    "skills_mcp.features.telemetry",
)
"""Modules that run, quieten the log, need what is not installed, or start threads."""
_OURS = ("skills_mcp", "soak.", "demo.", "repositories.", "pytest")
_LOOKS_AT_IMPORTS = ("sys.modules", "meta_path", "find_spec", "import_module")
_SCRIPT = os.fspath(Path(sys.executable).parent / "skills-mcp")
_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "OTEL_P")
"""Beginnings of variables that Python or a library has read before the fork."""
_READ_BY_FORKS = {"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}

_CHANNEL = "FORKS_CHANNEL"
"""Names the descriptor through which tests of a test order their forks."""

_INTERRUPTED, _UNFLUSHED = -signal.SIGINT, 120
"""How Python ends after Ctrl-C, and where its output could not be written."""

_CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
_CLONE_PARENT, _CLONE_CHILD_SETTID, _CLONE_CHILD_CLEARTID = 0x8000, 0x1000000, 0x200000
_PR_GET_TID_ADDRESS = 40
_MADV_COLLAPSE = 25
"""From <sys/syscall.h>, <sched.h>, <sys/prctl.h> and <sys/mman.h> of Linux."""

_SHIM = """#!{python} -IS
import _socket, os, sys
words = [os.fsencode(word) for word in sys.argv[1:]]
pairs = [name + b"=" + value for name, value in os.environb.items()]
call = b"\\0".join([b"%d" % len(words), *words, *pairs])
numbers = [0, 1, 2, os.open(".", os.O_RDONLY)]
passed = b"".join(number.to_bytes(4, sys.byteorder) for number in numbers)
door = _socket.socket(_socket.AF_UNIX)
door.connect({door!r})
door.sendmsg([len(call).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, passed)])
door.sendall(call)
status = int(door.recv(8) or 1)
if status < 0:
    os.kill(os.getpid(), -status)
os._exit(status)
"""
"""Takes the place of our script in a shell; needs a fortieth of the CPU of its start."""

CAN_FORK = sys.platform == "linux" and _CLONE is not None

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
        self._door: socket.socket | None = None
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

    def open_door(self) -> str:
        """A folder with a script of our name that has the program forked, for a shell."""
        if self._door is None:
            self._folder = TemporaryDirectory(prefix="forks-")
            address = os.path.join(self._folder.name, "door")  # noqa: PTH118
            self._door = socket.create_server(address, family=socket.AF_UNIX)
            shim = Path(self._folder.name) / Path(_SCRIPT).name
            shim.write_text(_SHIM.format(python=sys.executable, door=address))
            shim.chmod(0o755)
            threading.Thread(target=self._answer, args=(self._door,), daemon=True).start()
        return self._folder.name

    def _answer(self, door: socket.socket) -> None:
        with suppress(OSError):  # it is closed
            while True:
                connection, _ = door.accept()
                threading.Thread(target=_run_for_shell, args=(connection,), daemon=True).start()

    def close(self) -> None:
        if self._door:
            self._door.shutdown(socket.SHUT_RDWR)
            self._door.close()
            self._folder.cleanup()
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


def _run_for_shell(connection: socket.socket) -> None:
    """Run our program with the streams and the environment of a shim, and say how it ended."""
    size, descriptors, _, _ = socket.recv_fds(connection, _SIZE, 4)
    count, *rest = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL).split(b"\0")
    stdin, stdout, stderr, place = descriptors
    with connection:
        done = subprocess.run(
            [_SCRIPT, *map(os.fsdecode, rest[: int(count)])],
            check=False,
            cwd=f"/proc/self/fd/{place}",
            env=_parse(rest[int(count) :]),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )
        for descriptor in descriptors:
            os.close(descriptor)
        connection.sendall(str(done.returncode).encode())


def _is_ours(words: list[str]) -> bool:
    match words:
        case [program, *_] if program == _SCRIPT:
            return True
        case [sys.executable, "-c", code, *_]:
            return not any(word in code for word in _LOOKS_AT_IMPORTS)
        case [sys.executable, "-m", module, *_]:
            return module.startswith(_OURS)
        case _:
            return False


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
    place = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        socket.send_fds(channel, [len(order).to_bytes(_SIZE, "big")], [*streams, place])
        channel.sendall(order)
        answer = channel.recv(_SIZE, socket.MSG_WAITALL)
        if not answer:
            raise OSError("the process that forks has ended")
        return int.from_bytes(answer, "big")
    finally:
        os.close(place)


def _fork_for_parent() -> int:
    """Fork as `os.fork` does, but make a child of this process' parent, which waits for it."""
    libc = ctypes.PyDLL(None)  # keeps the lock of Python
    thread = ctypes.c_void_p()  # where the C library keeps the number of its thread
    libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(thread), 0, 0, 0)
    flags = _CLONE_PARENT | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID | signal.SIGCHLD
    last = (thread, None) if platform.machine() == "x86_64" else (None, thread)
    ctypes.pythonapi.PyOS_BeforeFork()
    program: int = libc.syscall(_CLONE, ctypes.c_long(flags), None, None, *last)
    if program:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    return program


def _collapse_memory() -> None:
    """Have the kernel join small pages: a fork copies, and later drops, an entry for each."""
    libc = ctypes.PyDLL(None)
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights, *_, place = line.split(maxsplit=5)
        if rights == "rw-p" and place in {"0", "[heap]"}:  # of no file
            begin, end = (int(number, 16) for number in span.split("-"))
            libc.madvise(*map(ctypes.c_size_t, (begin, end - begin)), _MADV_COLLAPSE)


def _wait_for_order(channel: socket.socket) -> dict[str, Any]:
    """Fork for each order, and return it in the fork; end when nobody can order."""
    while True:
        size, descriptors, _, _ = socket.recv_fds(channel, _SIZE, 4)
        if not size:
            raise SystemExit
        order = channel.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
        if program := _fork_for_parent():
            for descriptor in descriptors:
                os.close(descriptor)
            channel.sendall(program.to_bytes(_SIZE, "big"))
            continue
        *streams, place = descriptors
        os.fchdir(place)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, max(*descriptors, channel.fileno()) + 1)
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
            # What a test starts imports what it needs: few tests of tests start anything.
            _find_source(order["environment"])
            _become(_wait_for_order(theirs))
            return
        theirs.close()
        order["environment"][_CHANNEL] = str(ours.detach())
    if order["session"]:
        os.setsid()
    _find_source(order["environment"])
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = open(0, encoding=sys.stdin.encoding, closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = _open_output(1, sys.stdout), _open_output(2, sys.stderr)
    sys.orig_argv[:] = words
    _run(partial(_execute, words))


def _find_source(environment: Mapping[str, str]) -> None:
    """Take over an environment, whose path may lead to another copy of the source."""
    before = _find_own_path()
    os.environ.clear()
    os.environ.update(environment)
    sys.path[: len(before)] = after = _find_own_path()
    if after != before:
        for name in [name for name in sys.modules if name.partition(".")[0] == "skills_mcp"]:
            del sys.modules[name]


def _import_ours() -> None:
    ours = importlib.import_module("skills_mcp")
    for package in pkgutil.iter_modules(ours.__path__, "skills_mcp."):
        if package.ispkg and not package.name.startswith(_APART):
            folder = importlib.import_module(package.name).__path__
            for module in pkgutil.walk_packages(folder, f"{package.name}."):
                if not module.name.startswith(_APART):
                    importlib.import_module(module.name)
    gc.freeze()
    _collapse_memory()


def _execute(words: list[str]) -> None:
    if words[0] == _SCRIPT:
        sys.argv = words
        runpy.run_path(_SCRIPT, run_name="__main__")
    elif words[1] == "-m":
        sys.path.insert(0, os.fspath(Path.cwd()))
        sys.argv = words[2:]
        runpy.run_module(words[2], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, "")
        sys.argv = ["-c", *words[3:]]
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(words[2], "<string>", "exec"), main.__dict__)  # noqa: S102


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


def _run(program: Callable[[], object]) -> NoReturn:
    """Run a program, and end as Python does, but take no module apart.

    That would copy nearly all memory of the fork, for three times what a fork costs.
    """
    status = 0
    try:
        program()
    except SystemExit as ending:
        status = _derive_status(ending.code)
    except BaseException as error:  # noqa: BLE001 - Python prints each of them
        sys.excepthook(type(error), error, error.__traceback__)
        status = _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if (main := vars(sys.modules["__main__"])) is not globals():
        main.clear()  # which closes its files
    for stream in (sys.stdout, sys.stderr):
        status = status if _is_flushed(stream) else _UNFLUSHED
    if status == _INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status & 0xFF)


def _derive_status(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    sys.stderr.write(f"{code}\n")
    return 1


def _is_flushed(stream: TextIO) -> bool:
    try:
        if not stream.closed:
            stream.flush()
    except OSError as error:
        sys.stderr.write(f"Exception ignored in: {stream}\n{type(error).__name__}: {error}\n")
        return False
    return True


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file
    for library in _LIBRARIES:
        importlib.import_module(library)
    _import_ours()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _become(_wait_for_order(socket.socket(fileno=int(sys.argv[1]))))
