"""One server on standard input and output, from the first line to a clean end.

Rule: there is one way to end, and three reasons for it: the client has closed the
input, a signal has come, or the parent process is gone. Calls and child processes are
ended; events are on the disk already, and sending them gets one second.
"""

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
from mcp.server.lowlevel import Server

from skills_mcp.server.ending import leave, run_or_end, watch_signals
from skills_mcp.server.message_streams import message_streams
from skills_mcp.server.parts import ServerPart, Serving
from skills_mcp.server.wire import Wire

logger = logging.getLogger(__name__)

_Work = Callable[[], Awaitable[object]]

_LAST_CALLS_SECONDS = 1.0
_LAST_PUBLISH_SECONDS = 1.0
_PARENT_CHECK_SECONDS = 1.0


async def serve_stdio(
    serving: Serving, wire: Wire, parts: Sequence[ServerPart] = ()
) -> None:
    """Serve until there is a reason to end, then end everything that was started."""
    library, publisher = serving.library, serving.publisher
    for part in parts:
        await part.open()
    works = (library.run, publisher.run, *(part.run for part in parts))
    async with _served(serving.server, wire, works) as ending:
        library.close()
        for part in parts:
            await part.close()
        with anyio.move_on_after(_LAST_PUBLISH_SECONDS):
            await run_or_end(publisher.publish, ending)
        leave()


async def serve_unconfigured(server: Server[Any], wire: Wire, exit_code: int) -> None:
    """Serve until there is a reason to end, then exit with a code that says why."""
    async with _served(server, wire):
        leave(exit_code)


@asynccontextmanager
async def _served(
    server: Server[Any], wire: Wire, works: Sequence[_Work] = ()
) -> AsyncIterator[anyio.Event]:
    """Serve beside other work until there is a reason to end; the block has to `leave`.

    The process exits without waiting for its threads: one of them still blocks in
    reading the input, and nothing can interrupt it.
    """
    ending, answered = anyio.Event(), anyio.Event()
    serving = anyio.CancelScope()
    all_works: tuple[_Work, ...] = (
        partial(watch_signals, ending),
        partial(_watch_parent, ending),
        *works,
        partial(_serve, server, wire, serving, ending, answered),
    )
    async with anyio.create_task_group() as tasks:
        for work in all_works:
            tasks.start_soon(run_or_end, work, ending)
        await ending.wait()
        # A script that is just being started is known only to its own call.
        serving.cancel()
        with anyio.move_on_after(_LAST_CALLS_SECONDS):
            await answered.wait()
        yield ending


async def _serve(
    server: Server[Any],
    wire: Wire,
    serving: anyio.CancelScope,
    ending: anyio.Event,
    answered: anyio.Event,
) -> None:
    """Answer requests until the client closes the input or `serving` is cancelled."""
    with serving:
        async with message_streams(wire) as (read, write):
            try:
                await server.run(read, write, server.create_initialization_options())
                logger.info("The client has closed the connection")
            finally:
                # Not after the block: it waits for the end of our input, which
                # may never come when a client only stops reading.
                ending.set()
                answered.set()


async def _watch_parent(ending: anyio.Event) -> None:
    """End if the parent dies while another process keeps the input open."""
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - no event tells
        await anyio.sleep(_PARENT_CHECK_SECONDS)
    logger.info("The parent process is gone")
    ending.set()
