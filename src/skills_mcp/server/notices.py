"""Tells clients of both eras that the set of skills has changed.

The news comes from the thread that loads content; whoever is to be told lives on the
event loop. Between them is one event, so a client that is gone never holds up a load.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp_types import ResourceListChangedNotification, ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

logger = logging.getLogger(__name__)

# A host has one; more than a process can serve over a pipe or its few sockets.
_MAX_SESSIONS = 256


class Notices:
    """Everybody who wants to know when the list of skills is another one."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._sessions: list[ServerSession] = []
        self._wakers: list[Callable[[], object]] = []
        self.listen = ListenHandler(self._bus)
        """Answers `subscriptions/listen` (2026-07-28)."""

    def announce(self) -> None:
        """Let everybody be told.  From any thread, and never blocking."""
        for wake in tuple(self._wakers):
            try:
                wake()
            except RuntimeError:  # its loop has ended, and with it its clients
                logger.debug("Nobody is left to be told of new skills")

    @asynccontextmanager
    async def telling(self, _: Server[Any]) -> AsyncIterator[None]:
        """Tell clients of what is announced until the block ends."""
        changed = asyncio.Event()
        # Not anyio's own way into a loop: that waits until the loop has time.
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(changed.set)

        self._wakers.append(wake)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._tell_for_ever, changed)
                yield
                tasks.cancel_scope.cancel()
        finally:
            self._wakers.remove(wake)

    async def remember(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Keep the session of a client that has shaken hands, as it is told unasked."""
        is_new = ctx.method == "notifications/initialized"
        if is_new and ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            # A message has a session of its own, and a client may shake hands twice.
            client = ctx.session.client_params
            others = [s for s in self._sessions if s.client_params is not client]
            self._sessions = [*others, ctx.session][-_MAX_SESSIONS:]
        return await call_next(ctx)

    async def _tell_for_ever(self, changed: asyncio.Event) -> None:
        while True:
            await changed.wait()
            changed.clear()
            # The tools stay the same, but what they answer does not: hosts that look
            # at nothing else learn by it that there is news.
            await self._bus.publish(ResourcesListChanged())
            await self._bus.publish(ToolsListChanged())
            for session in tuple(self._sessions):
                await self._tell(session)

    async def _tell(self, session: ServerSession) -> None:
        try:
            await session.send_notification(ResourceListChangedNotification())
            await session.send_notification(ToolListChangedNotification())
        except Exception:
            logger.exception("A client cannot be told of new skills")
            self._sessions = [each for each in self._sessions if each is not session]
