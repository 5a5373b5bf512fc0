"""Runs a command to its end, or ends it: the whole tree, whatever it does.

Output is read as it comes and kept up to a limit, so a script that never stops
printing costs no memory.
"""

import errno
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, Process

from skills_mcp.errors import InvalidArgumentsError, RunnerNotFoundError
from skills_mcp.process_group import GROUP_OPTIONS, kill_group, terminate_group

TIMEOUT_EXIT_CODE = 137
"""128 + SIGKILL, also when SIGTERM was enough (001 §8.4)."""
TIMEOUT_MESSAGE = "[skills-mcp] Script killed: timeout exceeded."

_TERMINATE_SECONDS = 5.0  # between SIGTERM and SIGKILL (001 §8.4)

# A child of the script may hold the pipes open after the script has ended.
_DRAIN_SECONDS = 1.0
_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to start: a sandbox would wrap this, and nothing else (DESIGN §3.13)."""

    words: tuple[str, ...]
    """The program, by its name or path, and its arguments."""
    environment: Mapping[str, str]
    working_directory: Path
    timeout_seconds: float
    max_output_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResult:
    """How a run ended. Failure and timeout are results, not errors."""

    exit_code: int
    stdout: str
    stderr: str
    duration_seconds: float
    timed_out: bool
    truncated_stdout: bool = False
    truncated_stderr: bool = False

    @property
    def success(self) -> bool:
        """Whether the script ended by itself and said that all went well."""
        return self.exit_code == 0 and not self.timed_out


class ScriptRunner:
    """Starts commands and knows which are running."""

    def __init__(self) -> None:
        self._running: set[int] = set()

    async def run(self, command: Command) -> ScriptResult:
        """Run a command; cancelling ends it and everything it started.

        Raises:
            RunnerNotFoundError: The runner is not installed.
            InvalidArgumentsError: The arguments are longer than the system allows.
        """
        started = time.monotonic()
        with anyio.CancelScope(shield=True):  # a child half started would be lost
            process = await _start(command)
        self._running.add(process.pid)
        limit = command.max_output_bytes
        stdout, stderr = _Kept(limit), _Kept(limit)
        try:
            async with anyio.create_task_group() as readers:
                readers.start_soon(stdout.read, process.stdout)
                readers.start_soon(stderr.read, process.stderr)
                timed_out = await _wait(process, command.timeout_seconds)
                await _drain(stdout, stderr)
                readers.cancel_scope.cancel()
        finally:
            kill_group(process.pid)  # whoever is left, also when we are cancelled
            self._running.discard(process.pid)
            with anyio.CancelScope(shield=True):
                await process.aclose()
        return ScriptResult(
            exit_code=TIMEOUT_EXIT_CODE if timed_out else _exit_code(process),
            stdout=stdout.text(),
            stderr=_with_timeout(stderr.text()) if timed_out else stderr.text(),
            duration_seconds=time.monotonic() - started,
            timed_out=timed_out,
            truncated_stdout=stdout.is_truncated,
            truncated_stderr=stderr.is_truncated,
        )

    def close(self) -> None:
        """End every command that is running, at once."""
        for pid in tuple(self._running):
            kill_group(pid)


class _Kept:
    """The first bytes of a stream, up to a limit; the rest is read and dropped."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._data = bytearray()
        self._total_bytes = 0
        self.ended = anyio.Event()

    async def read(self, stream: ByteReceiveStream | None) -> None:
        try:
            while stream is not None:
                chunk = await stream.receive(_CHUNK_BYTES)
                self._total_bytes += len(chunk)
                self._data += chunk[: self._limit_bytes - len(self._data)]
        except (
            anyio.EndOfStream,
            anyio.ClosedResourceError,
            anyio.BrokenResourceError,
        ):
            pass
        finally:
            self.ended.set()

    @property
    def is_truncated(self) -> bool:
        return self._total_bytes > len(self._data)

    def text(self) -> str:
        kept = self._data.decode("utf-8", "replace")
        dropped = self._total_bytes - len(self._data)
        if not dropped:
            return kept
        return f"{kept}\n[skills-mcp] Output truncated: {dropped:,} more bytes."


def _find_program(command: Command) -> str:
    name = command.words[0]
    found = shutil.which(name, path=command.environment.get("PATH"))
    if found is None:
        raise RunnerNotFoundError(
            f"{name!r} is not installed on this machine, or not in PATH. The operator "
            "can install it, or configure another program."
        )
    return os.path.abspath(found)  # noqa: PTH100 - it is started in another folder


async def _start(command: Command) -> Process:
    program = _find_program(command)
    try:
        return await anyio.open_process(
            [program, *command.words[1:]],
            stdin=subprocess.DEVNULL,
            cwd=command.working_directory,
            env=command.environment,
            **GROUP_OPTIONS,
        )
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise InvalidArgumentsError(
                "args: too long for this machine. Shorten them, or put the text into "
                "a file and pass its path."
            ) from error
        raise RunnerNotFoundError(
            f"{command.words[0]!r} cannot be started: {error.strerror}"
        ) from error


async def _wait(process: Process, timeout_seconds: float) -> bool:
    """Wait for the end; return whether it had to be brought about."""
    with anyio.move_on_after(timeout_seconds):
        await process.wait()
        return False
    terminate_group(process.pid)
    with anyio.move_on_after(_TERMINATE_SECONDS):
        await process.wait()
    kill_group(process.pid)
    with anyio.CancelScope(shield=True):
        await process.wait()
    return True


async def _drain(*streams: _Kept) -> None:
    with anyio.move_on_after(_DRAIN_SECONDS):
        for stream in streams:
            await stream.ended.wait()


def _exit_code(process: Process) -> int:
    """Return what a shell would: 128 + n for a process that signal n ended."""
    code = process.returncode
    if code is None:
        return TIMEOUT_EXIT_CODE
    return 128 - code if code < 0 else code


def _with_timeout(stderr: str) -> str:
    separator = "" if not stderr or stderr.endswith("\n") else "\n"
    return f"{stderr}{separator}{TIMEOUT_MESSAGE}"
