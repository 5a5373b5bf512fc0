"""Runs commands, a few in parallel, each to its end or its timeout.

Rule: every end of a run kills its whole process tree, even if this process is killed.
Each command has a `supervisor` process for it; if the supervisor does not answer, the
runner kills the tree.  Windows has no supervisor; only the command's own process is
killed.

Only the head and the tail of the output are held in memory.
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
from skills_mcp.scripts.sandbox import require_executable

_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))

_HAS_SUPERVISOR = hasattr(os, "fork")

GRACE_SECONDS = 5.0
"""Between SIGTERM and SIGKILL after a timeout."""

# The loader may need these to start this Python; the command never sees them.
_FOR_PYTHON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

TIMEOUT_EXIT_CODE = 137
"""128 + SIGKILL, also after a successful SIGTERM."""
TIMEOUT_MESSAGE = "[skills-mcp] Script killed: timeout exceeded."

MAX_RUNNING = 4
"""Parallel runs. An agent needs few; a laptop bears few compilers."""
MAX_QUEUED = 16
"""Queue length. An agent sending more is in a loop, and would wait minutes."""

# Longer than a supervisor needs to kill a tree that multiplies. A script may have
# stopped or killed its supervisor, which then does not answer.
_SUPERVISOR_TIMEOUT_SECONDS = 0.7

# A process that escaped its supervisor may hold the pipes open.
_DRAIN_SECONDS = 1.0

_CHUNK_BYTES = 64 * 1024  # what a pipe holds: one read never finds more
_HEAD_SHARE = 0.75  # of the output limit; the rest is for the end

# A cut can fall inside a character: then up to three of its four bytes follow the cut.
_MAX_PARTIAL_CHARACTER_BYTES = 3
_CONTINUATION_BYTES = bytes(range(0b1000_0000, 0b1100_0000))  # of a UTF-8 character


class ScriptRunner:
    """Runs a few commands at once, queues some in order, and refuses more."""

    def __init__(self) -> None:
        self._running: set[SupervisedCommand] = set()
        self._waiting: set[anyio.CancelScope] = set()
        self._slots: anyio.Semaphore | None = None

    async def run(
        self,
        command: PreparedCommand,
        on_start: Callable[[], object] = lambda: None,
    ) -> ScriptResult:
        """Run a command; cancellation kills its process tree.

        Raises:
            BusyError: The queue is full, or the server is shutting down.
            RunnerNotFoundError: The runner is not installed.
            InvalidArgumentsError: The arguments exceed the system's limit.
        """
        search_path = command.environment.get("PATH", os.defpath)
        program = str(require_executable(command.words[0], search_path))
        async with self._acquire_slot():
            on_start()
            return await self._run(command, program)

    def close(self) -> None:
        for scope in tuple(self._waiting):
            scope.cancel()
        for supervised in tuple(self._running):
            supervised.end()

    @asynccontextmanager
    async def _acquire_slot(self) -> AsyncIterator[None]:
        """Slot of the FIFO queue."""
        if self._slots is None:  # it belongs to the event loop
            self._slots = anyio.Semaphore(MAX_RUNNING)
        turns = self._slots
        try:
            turns.acquire_nowait()
        except anyio.WouldBlock:
            await self._wait_in_queue(turns)
        try:
            yield
        finally:
            turns.release()

    async def _wait_in_queue(self, turns: anyio.Semaphore) -> None:
        if len(self._waiting) >= MAX_QUEUED:
            raise BusyError(
                f"{MAX_RUNNING} scripts are running and {MAX_QUEUED} are waiting. "
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
        stdout, stderr = HeadTailBuffer(limit), HeadTailBuffer(limit)
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
                await _kill(supervised)
            self._running.discard(supervised)
        supervised.require_started(command)
        return ScriptResult(
            exit_code=TIMEOUT_EXIT_CODE if timed_out else supervised.exit_code(),
            stdout=stdout.text(),
            stderr=_add_timeout_message(stderr.text()) if timed_out else stderr.text(),
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
    """Wait for the end; True after a timeout."""
    with anyio.move_on_after(timeout_seconds):
        await supervised.process.wait()
        return False
    supervised.terminate_tree()
    with anyio.move_on_after(GRACE_SECONDS + _SUPERVISOR_TIMEOUT_SECONDS):
        await supervised.process.wait()
    return True


async def _kill(supervised: "SupervisedCommand") -> None:
    """Kill the process tree, if necessary without the supervisor."""
    supervised.end()
    with anyio.move_on_after(_SUPERVISOR_TIMEOUT_SECONDS):
        await supervised.process.wait()
    supervised.kill_unless_reported()
    await supervised.process.aclose()
    supervised.close()


async def _drain(*streams: "HeadTailBuffer") -> None:
    with anyio.move_on_after(_DRAIN_SECONDS):
        for stream in streams:
            await stream.ended.wait()


def _add_timeout_message(stderr: str) -> str:
    separator = "" if not stderr or stderr.endswith("\n") else "\n"
    return f"{stderr}{separator}{TIMEOUT_MESSAGE}"


class SupervisedCommand:
    def __init__(self, process: Process, status: int | None) -> None:
        self.process = process
        self._status = status
        self._reports: dict[str, int] = {}

    def terminate_tree(self) -> None:
        """SIGTERM to the tree, then SIGKILL after the grace period."""
        self._signal("SIGCONT", "SIGTERM")  # a script may have stopped its supervisor

    def end(self) -> None:
        # A supervisor that has not set its handlers yet loses SIGINT where interrupts
        # are ignored, as they are in the background of a shell.
        self._signal("SIGCONT", "SIGINT", "SIGTERM")

    def kill_unless_reported(self) -> None:
        """Kill the known tree: a script may have stopped or killed its supervisor."""
        reports = self._read_reports()
        if not {"exited", "signalled", "failed"} & reports.keys():
            kill_group(reports.get("started", self.process.pid))
            kill_group(self.process.pid)

    def close(self) -> None:
        """Close the report pipe of an ended command."""
        self._read_reports()
        if self._status is not None:
            os.close(self._status)
            self._status = None

    def require_started(self, command: PreparedCommand) -> None:
        """Raise the error of a failed start.

        Raises:
            RunnerNotFoundError: The system cannot run the program.
            InvalidArgumentsError: The arguments exceed the system's limit.
        """
        if (number := self._read_reports().get("failed")) is not None:
            raise _start_error(command, number)

    def exit_code(self) -> int:
        number = self._signal_number()
        if number is not None:
            return 128 + number
        code = self._read_reports().get("exited", self.process.returncode)
        return TIMEOUT_EXIT_CODE if code is None else code

    def signal_name(self) -> str | None:
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
        """Parse reports of the supervisor: pairs of word and number."""
        if self._status is not None:
            with suppress(BlockingIOError):
                words = os.read(self._status, 4096).decode().split()
                self._reports |= dict(zip(words[::2], map(int, words[1::2]), strict=True))
        return self._reports


async def _start(command: PreparedCommand, program: str) -> SupervisedCommand:
    """Start a command by the path of its program; errors as `require_started`."""
    try:
        if _HAS_SUPERVISOR:
            return await _start_supervised(command, program)
        return await _start_unsupervised(command, program)
    except OSError as error:
        raise _start_error(command, error.errno) from error


async def _start_supervised(command: PreparedCommand, program: str) -> SupervisedCommand:
    payload = _encode_command(command, program)
    reading, writing = os.pipe()
    try:
        process = await anyio.open_process(
            [sys.executable, "-I", "-S", _SUPERVISOR,
             *_encode_options(command, writing, len(payload))],
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
        await process.stdin.send(payload)
    return SupervisedCommand(process, reading)


async def _start_unsupervised(command: PreparedCommand, program: str) -> SupervisedCommand:
    process = await anyio.open_process(
        [program, *command.words[1:]],
        stdin=subprocess.DEVNULL,
        cwd=command.working_directory,
        env=command.environment,
        **GROUP_OPTIONS,
    )
    return SupervisedCommand(process, None)


def _encode_command(command: PreparedCommand, program: str) -> bytes:
    variables = (f"{name}={value}" for name, value in command.environment.items())
    items = (program, *command.words[1:], *variables)
    return b"".join(os.fsencode(item) + b"\0" for item in items)


def _encode_options(command: PreparedCommand, status: int, size: int) -> list[str]:
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


def _start_error(
    command: PreparedCommand, number: int | None
) -> InvalidArgumentsError | RunnerNotFoundError:
    if number == errno.E2BIG:
        return InvalidArgumentsError(
            "args: too long for this machine. Shorten them, or put the text into a "
            "file and pass its path."
        )
    reason = os.strerror(number) if number else "the system does not say why"
    return RunnerNotFoundError(f"{command.words[0]!r} cannot be started: {reason}")


class HeadTailBuffer:
    """Head and tail of a stream within a size limit."""

    def __init__(self, limit_bytes: int) -> None:
        self._head_bytes = int(limit_bytes * _HEAD_SHARE)
        self._tail_bytes = limit_bytes - self._head_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0
        self.ended = anyio.Event()

    async def read(self, stream: ByteReceiveStream | None) -> None:
        ends = anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError
        try:
            with suppress(*ends):
                while stream is not None:
                    self.add(await stream.receive(_CHUNK_BYTES))
        finally:
            self.ended.set()

    def add(self, chunk: bytes) -> None:
        self.total_bytes += len(chunk)
        head_capacity = self._head_bytes - len(self._head)
        self._head += chunk[:head_capacity]
        self._tail += chunk[head_capacity:]
        surplus = len(self._tail) - self._tail_bytes
        if surplus > 0:
            del self._tail[:surplus]

    @property
    def is_truncated(self) -> bool:
        return self.total_bytes > len(self._head) + len(self._tail)

    def text(self) -> str:
        """Head and tail, with a notice of the omitted bytes in between."""
        if not self.is_truncated:
            return (self._head + self._tail).decode("utf-8", "replace")
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        before = decoder.decode(self._head)
        unfinished, _ = decoder.getstate()
        tail = self._tail[:_MAX_PARTIAL_CHARACTER_BYTES].lstrip(_CONTINUATION_BYTES)
        tail += self._tail[_MAX_PARTIAL_CHARACTER_BYTES:]
        retained_bytes = len(self._head) - len(unfinished) + len(tail)
        left_out = self.total_bytes - retained_bytes
        notice = f"[skills-mcp] Output truncated: {left_out:,} bytes are left out here."
        line_end = "\n" if before and not before.endswith("\n") else ""
        return f"{before}{line_end}{notice}\n{tail.decode('utf-8', 'replace')}"
