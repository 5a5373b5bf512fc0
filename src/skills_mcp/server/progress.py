"""Tells a client that asked for it that a long call is still at work."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from mcp.server.session import ServerSession

_INTERVAL_SECONDS = 1.0


def _nothing() -> str:
    return ""


@asynccontextmanager
async def reported(
    session: ServerSession, doing: str, step: Callable[[], str] = _nothing
) -> AsyncIterator[None]:
    """Report once a second, with the seconds so far, until the block ends.

    Args:
        session: Of the client.
        doing: What the call is for.
        step: Says what it is at, such as `Receiving objects 45 %`, if anybody knows.
    """
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_report, session, doing, step)
        yield
        tasks.cancel_scope.cancel()


async def _report(session: ServerSession, doing: str, step: Callable[[], str]) -> None:
    started = time.monotonic()
    while True:
        seconds = time.monotonic() - started
        at = f"{known}, " if (known := step()) else ""
        said = f"{doing}: {at}{seconds:.0f} s"
        await session.report_progress(seconds, message=said)
        await anyio.sleep(_INTERVAL_SECONDS)
