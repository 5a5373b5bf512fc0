"""Server on standard input and output, from start to shutdown.

There is one shutdown with three triggers: end of input, a signal, or the death of the
parent process. Calls and child processes are stopped. Events are on disk already;
publishing them gets one second.
"""

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
from mcp.server.lowlevel import Server

from skills_mcp.server.ending import exit_process, run_or_shut_down, watch_signals
from skills_mcp.server.message_streams import message_streams
from skills_mcp.server.parts import ServerPart, Serving
from skills_mcp.server.wire import Wire

logger = logging.getLogger(__name__)

_Work = Callable[[], Awaitable[object]]

_LAST_CALLS_SECONDS = 1.0
_LAST_PUBLISH_SECONDS = 1.0
_PARENT_CHECK_SECONDS = 1.0


async def serve_stdio(serving: Serving, wire: Wire, parts: Sequence[ServerPart] = ()) -> None:
    """Serve until shutdown, then stop everything."""
    library, publisher = serving.library, serving.publisher
    for part in parts:
        await part.open()
    works = (library.run, publisher.run, *(part.run for part in parts))
    async with _served(serving.server, wire, works) as shutdown:
        library.close()
        for part in parts:
            await part.close()
        with anyio.move_on_after(_LAST_PUBLISH_SECONDS):
            await run_or_shut_down(publisher.publish, shutdown)
        exit_process()


async def serve_unconfigured(server: Server[Any], wire: Wire, exit_code: int) -> None:
    """Serve until shutdown, then exit with this code."""
    async with _served(server, wire):
        exit_process(exit_code)


@asynccontextmanager
async def _served(
    server: Server[Any], wire: Wire, works: Sequence[_Work] = ()
) -> AsyncIterator[anyio.Event]:
    """Serve along with other tasks until shutdown; the block must call `exit_process`.

    The process exits without joining its threads: one thread blocks uninterruptibly in
    a
    read of standard input.
    """
    shutdown, answered = anyio.Event(), anyio.Event()
    serving = anyio.CancelScope()
    all_works: tuple[_Work, ...] = (
        partial(watch_signals, shutdown),
        partial(_watch_parent, shutdown),
        *works,
        partial(_serve, server, wire, serving, shutdown, answered),
    )
    async with anyio.create_task_group() as tasks:
        for work in all_works:
            tasks.start_soon(run_or_shut_down, work, shutdown)
        await shutdown.wait()
        # A script that is just being started is known only to its own call.
        serving.cancel()
        with anyio.move_on_after(_LAST_CALLS_SECONDS):
            await answered.wait()
        yield shutdown


async def _serve(
    server: Server[Any],
    wire: Wire,
    serving: anyio.CancelScope,
    shutdown: anyio.Event,
    answered: anyio.Event,
) -> None:
    with serving:
        async with message_streams(wire) as (read, write):
            try:
                await server.run(read, write, server.create_initialization_options())
                logger.info("The client has closed the connection")
            finally:
                # Not after the block: it waits for the end of our input, which
                # may never come when a client only stops reading.
                shutdown.set()
                answered.set()


async def _watch_parent(shutdown: anyio.Event) -> None:
    """Shut down after the death of the parent, even if the input stays open."""
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - no event tells
        await anyio.sleep(_PARENT_CHECK_SECONDS)
    logger.info("The parent process is gone")
    shutdown.set()
