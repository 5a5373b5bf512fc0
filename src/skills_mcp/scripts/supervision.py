"""A command beneath its supervisor: starting it, ending it, and how it ended.

The supervisor is a process of its own (`supervisor`), so the command's whole tree ends
even if this process is killed.  On Windows there is no supervisor: the command is
started directly, and only its own process is ended.
"""

import errno
import math
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import Process

from skills_mcp.errors import InvalidArgumentsError, RunnerNotFoundError
from skills_mcp.processes.group import GROUP_OPTIONS, kill_group
from skills_mcp.scripts.execution import PreparedCommand

_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))

_HAS_SUPERVISOR = hasattr(os, "fork")

GRACE_SECONDS = 5.0
"""Between SIGTERM and SIGKILL, when a command has timed out."""

# The loader may need these to start this Python; the command never sees them.
_FOR_PYTHON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

_KILLED = 128 + 9


class Supervised:
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
        return _KILLED if code is None else code

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


async def start(command: PreparedCommand, program: str) -> Supervised:
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


async def _start_supervised(command: PreparedCommand, program: str) -> Supervised:
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
    return Supervised(process, reading)


async def _start_alone(command: PreparedCommand, program: str) -> Supervised:
    process = await anyio.open_process(
        [program, *command.words[1:]],
        stdin=subprocess.DEVNULL,
        cwd=command.working_directory,
        env=command.environment,
        **GROUP_OPTIONS,
    )
    return Supervised(process, None)


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
