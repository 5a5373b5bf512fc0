"""Notifies clients of both protocol versions when the list of skills has changed.

The thread that loads content announces a change, and the event loop sends it. One
event lies between them, so a client that has gone never delays a load.
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

# A host has one; this is more than a process can serve.
_MAX_SESSIONS = 256


class Notices:
    """The clients to notify when the list of skills has changed."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._sessions: list[ServerSession] = []
        self._wakers: list[Callable[[], object]] = []
        self.listen = ListenHandler(self._bus)
        """Answers `subscriptions/listen` (2026-07-28)."""

    def announce(self) -> None:
        """Announce a change.  From any thread, and never blocking."""
        for wake in tuple(self._wakers):
            try:
                wake()
            except RuntimeError:  # its loop has ended, and with it its clients
                logger.debug("No client is left to notify of new skills")

    @asynccontextmanager
    async def telling(self, _: Server[Any]) -> AsyncIterator[None]:
        """Notify clients of each announced change until the block ends."""
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
        """Keep the session of an initialised client: it is notified without asking."""
        is_new = ctx.method == "notifications/initialized"
        if is_new and ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            # Each message has a session of its own, and a client may initialise twice.
            client = ctx.session.client_params
            others = [s for s in self._sessions if s.client_params is not client]
            self._sessions = [*others, ctx.session][-_MAX_SESSIONS:]
        return await call_next(ctx)

    async def _tell_for_ever(self, changed: asyncio.Event) -> None:
        while True:
            await changed.wait()
            changed.clear()
            # The tools stay the same, but their answers do not. Some hosts listen to
            # nothing else.
            await self._bus.publish(ResourcesListChanged())
            await self._bus.publish(ToolsListChanged())
            for session in tuple(self._sessions):
                await self._tell(session)

    async def _tell(self, session: ServerSession) -> None:
        try:
            await session.send_notification(ResourceListChangedNotification())
            await session.send_notification(ToolListChangedNotification())
        except Exception:
            logger.exception("A client cannot be notified of new skills")
            self._sessions = [each for each in self._sessions if each is not session]
