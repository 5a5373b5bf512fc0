"""Notifications of changed skills, in both protocol eras.

Until 2025-11-25 each initialised client is notified; since 2026-07-28 clients
subscribe. Clients with different access form separate audiences, each notified only of
changes visible to them.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp_types import (
    ResourceListChangedNotification,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skills_mcp.server.callers import Context, caller_of
from skills_mcp.skills.access import EVERYTHING, Access

logger = logging.getLogger(__name__)

_MAX_STREAMS = 10_000
"""Per audience; over HTTP a lower limit holds for all together."""

# Longer than a client that reads needs, and no other client waits for it.
_NOTIFY_TIMEOUT_SECONDS = 10.0


@dataclass(eq=False)
class _Audience:
    """Clients with the same visible skills."""

    listing: Hashable
    """Listing at the last notification."""
    sessions: list[ServerSession] = field(default_factory=list)
    streams: int = 0

    def __post_init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self.bus, max_subscriptions=_MAX_STREAMS)

    @property
    def is_empty(self) -> bool:
        return not self.sessions and not self.streams


class ListChangeNotifier:
    """Notifies clients of a changed list of skills.

    Args:
        find_listing: Identity of the list visible to an access; blocking. Never called
            with `EVERYTHING`: each announcement changes that list.
    """

    def __init__(self, find_listing: Callable[[Access], Hashable]) -> None:
        self._find_listing = find_listing
        self._announcements = 0
        self._audiences: dict[Access, _Audience] = {}
        self._wake_callbacks: list[Callable[[], object]] = []

    def announce(self) -> None:
        """Announce a change. Thread-safe and non-blocking."""
        self._announcements += 1
        for wake in tuple(self._wake_callbacks):
            try:
                wake()
            except RuntimeError:  # its loop has ended, and with it its clients
                logger.debug("No client is left to notify of new skills")

    @asynccontextmanager
    async def run_notifier(self, _: Server[Any]) -> AsyncIterator[None]:
        """Notify clients of announced changes until the block ends."""
        changed = asyncio.Event()
        # Not anyio's own way into a loop: that waits until the loop has time.
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(changed.set)

        self._wake_callbacks.append(wake)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._notify_forever, changed)
                yield
                tasks.cancel_scope.cancel()
        finally:
            self._wake_callbacks.remove(wake)

    async def remember(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Store the session of an initialised client: it is notified unasked."""
        is_new = ctx.method == "notifications/initialized"
        if is_new and ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            access = caller_of(ctx).access
            audience = await self._find(access)
            # Each message has a session of its own, and a client may initialise twice.
            client = ctx.session.client_params
            others = (s for s in audience.sessions if s.client_params is not client)
            audience.sessions = [*others, ctx.session]
            # The SDK offers this for clean-up, but no public way to it from a message.
            connection = ctx.session._connection  # noqa: SLF001
            connection.exit_stack.callback(self._forget, access, ctx.session)
        return await call_next(ctx)

    async def listen(
        self, ctx: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Answer `subscriptions/listen` (2026-07-28)."""
        access = caller_of(ctx).access
        audience = await self._find(access)
        audience.streams += 1
        try:
            return await audience.listen(ctx, params)
        finally:
            audience.streams -= 1
            self._drop_if_empty(access)

    def end_streams(self) -> None:
        """Close all subscription streams; each ends with its result."""
        for audience in self._audiences.values():
            audience.listen.close()

    async def _find(self, access: Access) -> _Audience:
        if access not in self._audiences:
            listing = await self._identify(access)
            self._audiences.setdefault(access, _Audience(listing))
        return self._audiences[access]

    async def _identify(self, access: Access) -> Hashable:
        if access == EVERYTHING:
            return self._announcements
        return await anyio.to_thread.run_sync(self._find_listing, access)

    def _forget(self, access: Access, session: ServerSession) -> None:
        if audience := self._audiences.get(access):
            audience.sessions = [s for s in audience.sessions if s is not session]
            self._drop_if_empty(access)

    def _drop_if_empty(self, access: Access) -> None:
        audience = self._audiences.get(access)
        if audience and audience.is_empty:
            del self._audiences[access]

    async def _notify_forever(self, changed: asyncio.Event) -> None:
        while True:
            await changed.wait()
            changed.clear()
            async with anyio.create_task_group() as tasks:
                for access, audience in tuple(self._audiences.items()):
                    tasks.start_soon(self._notify_if_changed, access, audience)

    async def _notify_if_changed(self, access: Access, audience: _Audience) -> None:
        listing = await self._identify(access)
        if listing == audience.listing:
            return
        audience.listing = listing
        # The tools stay the same, but their answers do not. Some hosts listen to
        # nothing else.
        await audience.bus.publish(ResourcesListChanged())
        await audience.bus.publish(ToolsListChanged())
        async with anyio.create_task_group() as tasks:
            for session in tuple(audience.sessions):
                tasks.start_soon(self._tell, access, session)

    async def _tell(self, access: Access, session: ServerSession) -> None:
        try:
            with anyio.move_on_after(_NOTIFY_TIMEOUT_SECONDS):
                await session.send_notification(ResourceListChangedNotification())
                await session.send_notification(ToolListChangedNotification())
        except Exception:
            logger.exception("A client cannot be notified of new skills")
            self._forget(access, session)
