"""Runs commands, a few at a time, each to its end or to its timeout.

Whatever ends a run, its whole tree ends with it: the supervisor sees to that, and the
runner to a supervisor that does not.
"""

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from skills_mcp.errors import BusyError
from skills_mcp.scripts.execution import (
    PreparedCommand,
    ProcessLimits,
    SandboxName,
    ScriptResult,
)
from skills_mcp.scripts.output import KeptOutput
from skills_mcp.scripts.sandbox.programs import require_program
from skills_mcp.scripts.supervision import GRACE_SECONDS, Supervised, start

__all__ = [
    "TIMEOUT_EXIT_CODE",
    "TIMEOUT_MESSAGE",
    "PreparedCommand",
    "ProcessLimits",
    "SandboxName",
    "ScriptResult",
    "ScriptRunner",
]

TIMEOUT_EXIT_CODE = 137
"""128 + SIGKILL, also when SIGTERM was enough (001 §8.4)."""
TIMEOUT_MESSAGE = "[skills-mcp] Script killed: timeout exceeded."

MOST_RUNNING = 4
"""An agent that calls tools side by side needs few; a laptop bears few compilers."""
MOST_WAITING = 16
"""More than that is a loop, and each would wait for minutes."""

# Longer than a supervisor needs to kill a tree that multiplies. A script may have
# stopped or killed its supervisor: then nobody answers.
_PATIENCE_SECONDS = 0.7

# Whoever escaped its supervisor may hold the pipes open.
_DRAIN_SECONDS = 1.0


class ScriptRunner:
    """Runs a few commands at once, keeps some waiting in order, and refuses more."""

    def __init__(self) -> None:
        self._running: set[Supervised] = set()
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
            BusyError: Too many run and wait already, or the server is ending.
            RunnerNotFoundError: The runner is not installed.
            InvalidArgumentsError: The arguments are longer than the system allows.
        """
        search_path = command.environment.get("PATH", os.defpath)
        program = str(require_program(command.words[0], search_path))
        async with self._turn():
            when_started()
            return await self._run(command, program)

    def close(self) -> None:
        """End every command that runs, and let none of those that wait begin."""
        for scope in tuple(self._waiting):
            scope.cancel()
        for supervised in tuple(self._running):
            supervised.end()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait until it is this command's turn; the longest waiting is next."""
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
            supervised = await start(command, program)
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


async def _wait(supervised: Supervised, timeout_seconds: float) -> bool:
    """Wait for the end; return whether it had to be brought about."""
    with anyio.move_on_after(timeout_seconds):
        await supervised.process.wait()
        return False
    supervised.ask_to_end()
    with anyio.move_on_after(GRACE_SECONDS + _PATIENCE_SECONDS):
        await supervised.process.wait()
    return True


async def _end(supervised: Supervised) -> None:
    """See that nobody is left, if need be without the supervisor."""
    supervised.end()
    with anyio.move_on_after(_PATIENCE_SECONDS):
        await supervised.process.wait()
    supervised.kill_unless_reported()
    await supervised.process.aclose()
    supervised.close()


async def _drain(*streams: KeptOutput) -> None:
    with anyio.move_on_after(_DRAIN_SECONDS):
        for stream in streams:
            await stream.ended.wait()


def _with_timeout(stderr: str) -> str:
    separator = "" if not stderr or stderr.endswith("\n") else "\n"
    return f"{stderr}{separator}{TIMEOUT_MESSAGE}"
