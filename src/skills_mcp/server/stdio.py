"""One server on standard input and output, from the first line to a clean end.

Rule: there is one way to end, and three reasons for it: the client has closed the
input, a signal has come, or the parent process is gone. Calls and child processes are
ended; events are on the disk already, and sending them gets one second.
"""

import logging
import os
from functools import partial
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from skills_mcp.analytics.publisher import Publisher
from skills_mcp.library import SkillLibrary
from skills_mcp.server.ending import leave, run_or_end, watch_signals
from skills_mcp.server.wire import Wire

logger = logging.getLogger(__name__)

_LAST_CALLS_SECONDS = 1.0
_LAST_PUBLISH_SECONDS = 1.0
_PARENT_CHECK_SECONDS = 1.0


async def serve_stdio(
    server: Server[Any],
    library: SkillLibrary,
    publisher: Publisher,
    wire: Wire,
) -> None:
    """Serve until there is a reason to end, then end everything that was started.

    The process exits without waiting for its threads: one of them still blocks in
    reading the input, and nothing can interrupt it.
    """
    ending, answered = anyio.Event(), anyio.Event()
    serving = anyio.CancelScope()
    async with anyio.create_task_group() as tasks:
        for work in (
            partial(watch_signals, ending),
            partial(_watch_parent, ending),
            library.run,
            publisher.run,
            partial(_serve, server, wire, serving, ending, answered),
        ):
            tasks.start_soon(run_or_end, work, ending)
        await ending.wait()
        # A script that is just being started is known only to its own call.
        serving.cancel()
        with anyio.move_on_after(_LAST_CALLS_SECONDS):
            await answered.wait()
        library.close()
        with anyio.move_on_after(_LAST_PUBLISH_SECONDS):
            await run_or_end(publisher.publish, ending)
        leave()


async def _serve(
    server: Server[Any],
    wire: Wire,
    serving: anyio.CancelScope,
    ending: anyio.Event,
    answered: anyio.Event,
) -> None:
    """Answer requests until the client closes the input or `serving` is cancelled."""
    with serving:
        streams = anyio.wrap_file(wire.reading), anyio.wrap_file(wire.writing)
        async with stdio_server(*streams) as (read, write):
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
