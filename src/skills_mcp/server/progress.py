"""Tells a client that asked for it that a long call is still at work."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from mcp.server.session import ServerSession

_INTERVAL_SECONDS = 1.0


@asynccontextmanager
async def reported(session: ServerSession, doing: str) -> AsyncIterator[None]:
    """Report once a second, with the seconds so far, until the block ends."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_report, session, doing)
        yield
        tasks.cancel_scope.cancel()


async def _report(session: ServerSession, doing: str) -> None:
    started = time.monotonic()
    while True:
        seconds = time.monotonic() - started
        await session.report_progress(seconds, message=f"{doing}: {seconds:.0f} s")
        await anyio.sleep(_INTERVAL_SECONDS)
