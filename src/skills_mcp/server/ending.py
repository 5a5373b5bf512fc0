"""How a server ends: the signals that ask for it, and the last step of the process."""

import logging
import os
import signal
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskStatus

logger = logging.getLogger(__name__)


async def run_or_end(
    work: Callable[[], Awaitable[object]],
    ending: anyio.Event,
    failed: anyio.Event | None = None,
) -> None:
    """Run a task; if it fails, set both events, so that the process ends with `leave`.

    An error that left the task group would wait for threads that nothing can
    interrupt, for ever.
    """
    try:
        await work()
    except Exception:
        logger.exception("The server ends because of an unexpected error")
        if failed:
            failed.set()
        ending.set()


async def watch_signals(
    ending: anyio.Event, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Set `ending` when the process is asked to end; started once it would be seen."""
    names = ("SIGTERM", "SIGINT", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    try:
        with anyio.open_signal_receiver(*numbers) as received:
            task_status.started()
            async for number in received:
                logger.info("Ending on %s", signal.Signals(number).name)
                ending.set()
    except NotImplementedError:
        task_status.started()  # Windows: the end of the input is the only sign


def leave(exit_code: int = 0) -> None:
    """Exit now, without the usual clean-up: everything is ended already.

    Threads may still be at work, and leave no temporary folder behind.
    """
    # Late: the first answer waits for no module that only the end needs.
    from skills_mcp.files.temporary_folders import remove_used_folders

    remove_used_folders()
    logging.shutdown()
    os._exit(exit_code)
