"""Runs commands, a few at a time, each to its end or to its timeout.

Rule: every end of a run ends its whole process tree, even if this process is killed.
Each command has a supervisor, a process of its own (`supervisor`), which does it; if
the supervisor does not answer, the runner kills the tree.  On Windows there is no
supervisor, and only the command's own process is ended.

Of the output the beginning and the end are kept: what lies between costs no memory.
"""

import codecs
import errno
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, Process

from skills_mcp.errors import (
    BusyError,
    InvalidArgumentsError,
    RunnerNotFoundError,
)
from skills_mcp.processes.group import GROUP_OPTIONS, kill_group
from skills_mcp.scripts.execution import PreparedCommand, ScriptResult
from skills_mcp.scripts.sandbox.programs import require_program

_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))

_HAS_SUPERVISOR = hasattr(os, "fork")

GRACE_SECONDS = 5.0
"""Between SIGTERM and SIGKILL, when a command has timed out."""

# The loader may need these to start this Python; the command never sees them.
_FOR_PYTHON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

TIMEOUT_EXIT_CODE = 137
"""128 + SIGKILL, also when SIGTERM was enough."""
TIMEOUT_MESSAGE = "[skills-mcp] Script killed: timeout exceeded."

MOST_RUNNING = 4
"""Runs at one time. An agent needs few in parallel; a laptop bears few compilers."""
MOST_WAITING = 16
"""Runs in the queue. An agent that sends more is in a loop, and would wait minutes."""

# Longer than a supervisor needs to kill a tree that multiplies. A script may have
# stopped or killed its supervisor, which then does not answer.
_PATIENCE_SECONDS = 0.7

# A process that escaped its supervisor may hold the pipes open.
_DRAIN_SECONDS = 1.0

_CHUNK_BYTES = 64 * 1024  # what a pipe holds: one read never finds more
_HEAD_SHARE = 0.75  # of the output limit; the rest is for the end

# A cut can fall inside a character: then up to three of its four bytes follow the cut.
_MOST_REST_BYTES = 3
_CONTINUATION_BYTES = bytes(range(0b1000_0000, 0b1100_0000))  # of a UTF-8 character


class ScriptRunner:
    """Runs a few commands at once, keeps some waiting in order, and refuses more."""

    def __init__(self) -> None:
        self._running: set[SupervisedCommand] = set()
        self._waiting: set[anyio.CancelScope] = set()
        self._turns: anyio.Semaphore | None = None

    async def run(
        self,
        command: PreparedCommand,
        when_started: Callable[[], object] = lambda: None,
    ) -> ScriptResult:
        """Run a command; cancelling ends it and everything it started.

        Args:
            command: What to run.
            when_started: Called when it no longer waits for its turn.

        Raises:
            BusyError: Too many runs are running and waiting, or the server is ending.
            RunnerNotFoundError: The runner is not installed.
            InvalidArgumentsError: The arguments are longer than the system allows.
        """
        search_path = command.environment.get("PATH", os.defpath)
        program = str(require_program(command.words[0], search_path))
        async with self._turn():
            when_started()
            return await self._run(command, program)

    def close(self) -> None:
        """End every command that runs, and start none of those that wait."""
        for scope in tuple(self._waiting):
            scope.cancel()
        for supervised in tuple(self._running):
            supervised.end()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for this command's turn, in the order of arrival."""
        if self._turns is None:  # it belongs to the event loop
            self._turns = anyio.Semaphore(MOST_RUNNING)
        turns = self._turns
        try:
            turns.acquire_nowait()
        except anyio.WouldBlock:
            await self._wait_for(turns)
        try:
            yield
        finally:
            turns.release()

    async def _wait_for(self, turns: anyio.Semaphore) -> None:
        if len(self._waiting) >= MOST_WAITING:
            raise BusyError(
                f"{MOST_RUNNING} scripts are running and {MOST_WAITING} are waiting. "
                "Wait for the answers to your other calls, then call again."
            )
        with anyio.CancelScope() as waiting:
            self._waiting.add(waiting)
            try:
                await turns.acquire()
            finally:
                self._waiting.discard(waiting)
            return
        raise BusyError("The server is ending, and starts no script any more.")

    async def _run(self, command: PreparedCommand, program: str) -> ScriptResult:
        started = time.monotonic()
        with anyio.CancelScope(shield=True):  # a child half started would be lost
            supervised = await _start(command, program)
        self._running.add(supervised)
        limit = command.max_output_bytes
        stdout, stderr = KeptOutput(limit), KeptOutput(limit)
        try:
            async with anyio.create_task_group() as readers:
                readers.start_soon(stdout.read, supervised.process.stdout)
                readers.start_soon(stderr.read, supervised.process.stderr)
                timed_out = await _wait(supervised, command.timeout_seconds)
                supervised.kill_unless_reported()
                await _drain(stdout, stderr)
                readers.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await _end(supervised)
            self._running.discard(supervised)
        supervised.require_started(command)
        return ScriptResult(
            exit_code=TIMEOUT_EXIT_CODE if timed_out else supervised.exit_code(),
            stdout=stdout.text(),
            stderr=_with_timeout(stderr.text()) if timed_out else stderr.text(),
            duration_seconds=time.monotonic() - started,
            timed_out=timed_out,
            signal=supervised.signal_name(),
            truncated_stdout=stdout.is_truncated,
            truncated_stderr=stderr.is_truncated,
            stdout_bytes=stdout.total_bytes,
            stderr_bytes=stderr.total_bytes,
            sandbox=command.sandbox,
        )


async def _wait(supervised: "SupervisedCommand", timeout_seconds: float) -> bool:
    """Wait for the end; return whether the timeout ended the command."""
    with anyio.move_on_after(timeout_seconds):
        await supervised.process.wait()
        return False
    supervised.ask_to_end()
    with anyio.move_on_after(GRACE_SECONDS + _PATIENCE_SECONDS):
        await supervised.process.wait()
    return True


async def _end(supervised: "SupervisedCommand") -> None:
    """End the process tree, if need be without the supervisor."""
    supervised.end()
    with anyio.move_on_after(_PATIENCE_SECONDS):
        await supervised.process.wait()
    supervised.kill_unless_reported()
    await supervised.process.aclose()
    supervised.close()


async def _drain(*streams: "KeptOutput") -> None:
    with anyio.move_on_after(_DRAIN_SECONDS):
        for stream in streams:
            await stream.ended.wait()


def _with_timeout(stderr: str) -> str:
    separator = "" if not stderr or stderr.endswith("\n") else "\n"
    return f"{stderr}{separator}{TIMEOUT_MESSAGE}"


class SupervisedCommand:
    """A command that has been started."""

    def __init__(self, process: Process, status: int | None) -> None:
        self.process = process
        self._status = status
        self._reports: dict[str, int] | None = None

    def ask_to_end(self) -> None:
        """End the whole tree with SIGTERM, and with SIGKILL after the grace period."""
        self._signal("SIGCONT", "SIGTERM")  # a script may have stopped its supervisor

    def end(self) -> None:
        """End the whole tree now."""
        # A supervisor that has not set its handlers yet loses SIGINT where interrupts
        # are ignored, as they are in the background of a shell.
        self._signal("SIGCONT", "SIGINT", "SIGTERM")

    def kill_unless_reported(self) -> None:
        """Kill what is known of the tree, unless its supervisor has reported the end.

        Without a sandbox a script can kill or stop its supervisor.
        """
        reports = self._read_reports()
        if not {"exited", "signalled", "failed"} & reports.keys():
            kill_group(reports.get("started", self.process.pid))
            kill_group(self.process.pid)

    def close(self) -> None:
        """Close the report pipe of a command that has ended."""
        self._read_reports()
        if self._status is not None:
            os.close(self._status)
            self._status = None

    def require_started(self, command: PreparedCommand) -> None:
        """Refuse a command that could not be started.

        Raises:
            RunnerNotFoundError: The system cannot run the program.
            InvalidArgumentsError: The arguments are longer than the system allows.
        """
        if (number := self._read_reports().get("failed")) is not None:
            raise _refusal(command, number)

    def exit_code(self) -> int:
        """Return the code as a shell has it: 128 + n if signal n ended the program."""
        number = self._signal_number()
        if number is not None:
            return 128 + number
        code = self._read_reports().get("exited", self.process.returncode)
        return TIMEOUT_EXIT_CODE if code is None else code

    def signal_name(self) -> str | None:
        """Return the name of the signal that ended the program, if one did."""
        number = self._signal_number()
        if number is None:
            return None
        with suppress(ValueError):  # a real-time signal has no name
            return signal.Signals(number).name
        return f"SIG{number}"

    def _signal_number(self) -> int | None:
        if (number := self._read_reports().get("signalled")) is not None:
            return number
        code = self.process.returncode
        # There is no report, so a signal ended the supervisor itself.
        return -code if code is not None and code < 0 else None

    def _signal(self, *names: str) -> None:
        for name in names:
            with suppress(ProcessLookupError):
                if _HAS_SUPERVISOR and self.process.returncode is None:
                    os.kill(self.process.pid, getattr(signal, name))
        if not _HAS_SUPERVISOR:
            kill_group(self.process.pid)

    def _read_reports(self) -> dict[str, int]:
        """Return the reports of the supervisor: a word and a number each."""
        reports = self._reports or {}
        if self._status is not None:
            with suppress(BlockingIOError):
                text = os.read(self._status, 4096).decode()
                words = text.split()
                reports |= dict(zip(words[::2], map(int, words[1::2]), strict=True))
        self._reports = reports
        return reports


async def _start(command: PreparedCommand, program: str) -> SupervisedCommand:
    """Start a command, whose program has this path.

    Raises:
        RunnerNotFoundError: The system cannot run the program.
        InvalidArgumentsError: The arguments are longer than the system allows.
    """
    try:
        if _HAS_SUPERVISOR:
            return await _start_supervised(command, program)
        return await _start_alone(command, program)
    except OSError as error:
        raise _refusal(command, error.errno) from error


async def _start_supervised(
    command: PreparedCommand, program: str
) -> SupervisedCommand:
    order = _compose_order(command, program)
    reading, writing = os.pipe()
    try:
        process = await anyio.open_process(
            [sys.executable, "-I", "-S", _SUPERVISOR,
             *_compose_options(command, writing, len(order))],
            stdin=subprocess.PIPE,
            cwd=command.working_directory,
            env={name: os.environ[name] for name in _FOR_PYTHON if name in os.environ},
            pass_fds=(writing,),
            **GROUP_OPTIONS,
        )  # fmt: skip
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    os.set_blocking(reading, False)
    assert process.stdin is not None, "asked for above"  # noqa: S101
    # If the supervisor has ended already, the wait for its end finds it.
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.send(order)
    return SupervisedCommand(process, reading)


async def _start_alone(command: PreparedCommand, program: str) -> SupervisedCommand:
    process = await anyio.open_process(
        [program, *command.words[1:]],
        stdin=subprocess.DEVNULL,
        cwd=command.working_directory,
        env=command.environment,
        **GROUP_OPTIONS,
    )
    return SupervisedCommand(process, None)


def _compose_order(command: PreparedCommand, program: str) -> bytes:
    """Return the words and the environment, each ended by NUL."""
    variables = (f"{name}={value}" for name, value in command.environment.items())
    items = (program, *command.words[1:], *variables)
    return b"".join(os.fsencode(item) + b"\0" for item in items)


def _compose_options(command: PreparedCommand, status: int, size: int) -> list[str]:
    options: dict[str, object] = {
        "status": status,
        "bytes": size,
        "words": len(command.words),
        "grace": GRACE_SECONDS,
        "wrapper": "yes" if command.sandbox == "bubblewrap" else "no",
    }
    if command.limits is not None:
        processors = os.cpu_count() or 1
        options |= {
            "memory": command.limits.memory_bytes,
            "file": command.limits.file_bytes,
            "processes": command.limits.processes,
            # All processors for the whole time: it ends what escaped every other end.
            "cpu": math.ceil((command.timeout_seconds + GRACE_SECONDS) * processors),
        }
    return [f"{name}={value}" for name, value in options.items()]


def _refusal(
    command: PreparedCommand, number: int | None
) -> InvalidArgumentsError | RunnerNotFoundError:
    if number == errno.E2BIG:
        return InvalidArgumentsError(
            "args: too long for this machine. Shorten them, or put the text into a "
            "file and pass its path."
        )
    reason = os.strerror(number) if number else "the system does not say why"
    return RunnerNotFoundError(f"{command.words[0]!r} cannot be started: {reason}")


class KeptOutput:
    """The head and the tail of a stream, together up to a limit."""

    def __init__(self, limit_bytes: int) -> None:
        self._head_bytes = int(limit_bytes * _HEAD_SHARE)
        self._tail_bytes = limit_bytes - self._head_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0
        self.ended = anyio.Event()

    async def read(self, stream: ByteReceiveStream | None) -> None:
        """Read a stream to its end, or until it is closed."""
        try:
            while stream is not None:
                self.add(await stream.receive(_CHUNK_BYTES))
        except (
            anyio.EndOfStream,
            anyio.ClosedResourceError,
            anyio.BrokenResourceError,
        ):
            pass
        finally:
            self.ended.set()

    def add(self, chunk: bytes) -> None:
        """Keep or drop the next bytes of the stream."""
        self.total_bytes += len(chunk)
        room = self._head_bytes - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        surplus = len(self._tail) - self._tail_bytes
        if surplus > 0:
            del self._tail[:surplus]

    @property
    def is_truncated(self) -> bool:
        """Whether `text` leaves bytes out."""
        return self.total_bytes > len(self._head) + len(self._tail)

    def text(self) -> str:
        """Return what is kept, with a line that says how many bytes are left out."""
        if not self.is_truncated:
            return (self._head + self._tail).decode("utf-8", "replace")
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        before = decoder.decode(self._head)
        unfinished, _ = decoder.getstate()
        tail = self._tail[:_MOST_REST_BYTES].lstrip(_CONTINUATION_BYTES)
        tail += self._tail[_MOST_REST_BYTES:]
        kept_bytes = len(self._head) - len(unfinished) + len(tail)
        left_out = self.total_bytes - kept_bytes
        notice = f"[skills-mcp] Output truncated: {left_out:,} bytes are left out here."
        line_end = "\n" if before and not before.endswith("\n") else ""
        return f"{before}{line_end}{notice}\n{tail.decode('utf-8', 'replace')}"
