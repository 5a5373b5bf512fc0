"""Shutdown of a server process: signals, and the exit."""

import logging
import os
import signal
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskStatus

logger = logging.getLogger(__name__)


async def run_or_shut_down(
    work: Callable[[], Awaitable[object]],
    shutdown: anyio.Event,
    failed: anyio.Event | None = None,
) -> None:
    """Run a task; on failure set both events, for an exit with `exit_process`.

    An error raised from the task group would wait forever for uninterruptible threads.
    """
    try:
        await work()
    except Exception:
        logger.exception("The server ends because of an unexpected error")
        if failed:
            failed.set()
        shutdown.set()


async def watch_signals(
    shutdown: anyio.Event, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Set the event on SIGTERM, SIGINT or SIGHUP; started once signals are caught."""
    names = ("SIGTERM", "SIGINT", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    try:
        with anyio.open_signal_receiver(*numbers) as received:
            task_status.started()
            async for number in received:
                logger.info("Ending on %s", signal.Signals(number).name)
                shutdown.set()
    except NotImplementedError:
        task_status.started()  # Windows: the end of the input is the only sign


def exit_process(exit_code: int = 0) -> None:
    """Exit at once with `os._exit`: threads may still be running."""
    # Late: the first answer waits for no module that only the end needs.
    from skills_mcp.files.locks import remove_own_temporary_folders

    remove_own_temporary_folders()
    logging.shutdown()
    os._exit(exit_code)
