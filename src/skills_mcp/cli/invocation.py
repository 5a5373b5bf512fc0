"""The process for which a command runs: its variables, its streams and its terminal.

A command runs in a process of its own, or within a server for another process. Only
then there is an `Invocation`, in a context variable: several run beside each other.
"""

import gc
import io
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

if TYPE_CHECKING:
    from skills_mcp.bootstrap import Application

logger = logging.getLogger(__name__)

Send = Callable[[bytes, bytes], None]
"""Sends data of a kind to the process; on any thread."""

# A process that runs the command itself takes a second to start.
_TURN_SECONDS = 1.0

# Variables of Rich and of Python, which count here as in the process itself.
_TERMINAL = "TERM"
_UNBUFFERED = "PYTHONUNBUFFERED"
_WITHOUT_SIZE = {"dumb", "unknown"}  # Rich has a size of its own for these terminals

_PACKAGE = "skills_mcp"


@dataclass(slots=True, kw_only=True)
class Invocation:
    """A command that runs within a server."""

    environment: Mapping[str, str]
    folder: Path | None
    """The working directory of its process; None if it is gone."""
    columns: int
    lines: int
    """Size of the terminal; 0 if unknown."""
    stdout: TextIO
    stderr: TextIO
    page: Callable[[str, bool], None]
    """Shows a text in a pager, with colours if the second argument is true."""
    applications: list["Application"] = field(default_factory=list)
    is_declined: bool = False
    """Whether its process has to run the command after all."""

    @property
    def size(self) -> dict[str, int]:
        """Arguments for a console, for what no variable says."""
        if self.environment.get(_TERMINAL, "").lower() in _WITHOUT_SIZE:
            return {}
        sizes = {"width": self.columns, "height": self.lines}
        names = {"width": "COLUMNS", "height": "LINES"}
        return {
            key: value
            for key, value in sizes.items()
            if value and not self.environment.get(names[key], "").isdigit()
        }

    def close(self) -> None:
        """Release the resources of the command; a process would just end."""
        for application in self.applications:
            application.library.close()
            application.publisher.outbox.spool.rotate()
        self.applications.clear()
        # Cycles hold an index of several megabytes; what the server had before is frozen.
        gc.collect()


_current: ContextVar[Invocation | None] = ContextVar("invocation", default=None)


def find_invocation() -> Invocation | None:
    """The process for which a server runs a command; None in a process of its own."""
    return _current.get()


def read_environment() -> Mapping[str, str]:
    """Variables of the process for which a command runs."""
    invocation = _current.get()
    return os.environ if invocation is None else invocation.environment


def find_working_folder() -> Path | None:
    """The working directory of the process for which a command runs; None if it is gone."""
    invocation = _current.get()
    if invocation is not None:
        return invocation.folder
    try:
        return Path.cwd()
    except OSError:
        return None


class CommandRunner:
    """Runs commands within a server, one at a time."""

    def __init__(self, group: click.Group) -> None:
        self._group = group
        self._turn = Lock()

    def take_streams(self) -> None:
        """Route standard output and standard error to the process of each command."""
        sys.stdout = cast("TextIO", _RoutedStream(sys.stdout, "stdout"))
        sys.stderr = cast("TextIO", _RoutedStream(sys.stderr, "stderr"))
        logging.getLogger().addHandler(_LogWatch())

    def run(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        folder: Path | None,
        send: Send,
    ) -> int | None:
        """Run a command.  Blocking.

        Args:
            words: The facts of the terminal, then the command line.
            environment: All variables of its process.
            folder: Its working directory; None if it is gone.
            send: Takes the output.

        Returns:
            The exit code; None if the process has to run the command itself.
        """
        if not self._turn.acquire(timeout=_TURN_SECONDS):
            return None
        try:
            facts, *line = words
            return self._run(line, _open_invocation(facts, environment, folder, send))
        except Exception:  # its process says what is wrong
            logger.debug("A command has failed", exc_info=True)
            return None
        finally:
            self._turn.release()

    def _run(self, words: Sequence[str], invocation: Invocation) -> int | None:
        token = _current.set(invocation)
        try:
            exit_code = self._call(words)
            invocation.stdout.flush()
            invocation.stderr.flush()
        finally:
            invocation.close()
            _current.reset(token)
        return None if invocation.is_declined else exit_code

    def _call(self, words: Sequence[str]) -> int | None:
        """Call a command; None for wrong usage, for which Click measures the terminal."""
        try:
            with self._group.make_context("skills-mcp", [*words]) as context:
                self._group.invoke(context)
        except click.exceptions.Exit as ended:
            return ended.exit_code
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else None
        except (click.ClickException, click.Abort):
            return None
        return 0


def _open_invocation(
    facts: str, environment: Mapping[str, str], folder: Path | None, send: Send
) -> Invocation:
    # Late: a system without Unix sockets does not have what it imports.
    from skills_mcp.server.windows.command_client import PAGED, PAGED_PLAIN, STDERR, STDOUT

    is_stdout, is_stderr, columns, lines = map(int, facts.split(" "))
    stdout = _SentOutput(partial(send, STDOUT), is_terminal=bool(is_stdout))
    stderr = _SentOutput(partial(send, STDERR), is_terminal=bool(is_stderr))
    is_buffered = not environment.get(_UNBUFFERED)
    return Invocation(
        environment=environment,
        folder=folder,
        columns=columns,
        lines=lines,
        stdout=_open_stream(stdout, is_buffered=is_buffered, is_by_line=stdout.isatty()),
        stderr=_open_stream(stderr, is_buffered=is_buffered, is_by_line=True),
        page=lambda text, has_colour: send(PAGED if has_colour else PAGED_PLAIN, text.encode()),
    )


class _SentOutput(io.RawIOBase):
    """Standard output or standard error of another process."""

    def __init__(self, send: Callable[[bytes], None], *, is_terminal: bool) -> None:
        self._send = send
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._send(bytes(data))
        return len(data)


def _open_stream(raw: _SentOutput, *, is_buffered: bool, is_by_line: bool) -> TextIO:
    """A stream that is buffered as Python buffers its own: the two may be merged."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw) if is_buffered else cast("io.BufferedWriter", raw),
        encoding="utf-8",
        errors="replace",
        newline="\n",
        line_buffering=is_buffered and is_by_line,
        write_through=not is_buffered,
    )


class _RoutedStream(io.TextIOBase):
    """Standard stream of a server, and of the commands that run within it."""

    errors = "replace"

    def __init__(self, own: TextIO, name: str) -> None:
        self._own = own
        self._name = name

    @property
    def _stream(self) -> TextIO:
        invocation = _current.get()
        if invocation is None:
            return self._own
        return invocation.stdout if self._name == "stdout" else invocation.stderr

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return self._stream.write(text)

    def flush(self) -> None:
        with suppress(ValueError):  # closed at the end of the process
            self._stream.flush()


class _LogWatch(logging.Handler):
    """Notices a line that a command would log in a process of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        invocation = _current.get()
        if invocation is not None:
            is_ours = record.name.partition(".")[0] == _PACKAGE
            level = logging.ERROR if is_ours else logging.WARNING
            invocation.is_declined |= record.levelno >= level
