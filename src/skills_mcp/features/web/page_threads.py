"""Thread pool for pages, separate from the tools' threads.

Rule: a page is not rendered for a disconnected client, and takes no thread from others.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from inspect import iscoroutinefunction

import anyio
import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive

# The threads share one interpreter: more of them make no page sooner, and each takes
# turns from the event loop, which every call of a tool needs.
MAX_PAGE_THREADS = 4

MAX_EXPENSIVE_THREADS = 2
"""Threads for expensive routes; the others stay free."""

# As long as a call of MCP waits to be admitted.
_MAX_WAIT_SECONDS = 10.0

# Clients that were refused together do not come back together.
_RETRY_AFTER_SECONDS = (5, 15)

# No client reads it; nginx counts such requests with the same number.
_CLIENT_GONE = 499

_Handler = Callable[[Request], Response]


class PageThreads:
    """Runs blocking route handlers in threads.

    Args:
        expensive: Paths of routes that may read every skill.
        max_wait_seconds: How long a request waits for a thread.
    """

    def __init__(
        self,
        expensive: frozenset[str] = frozenset(),
        max_wait_seconds: float = _MAX_WAIT_SECONDS,
    ) -> None:
        self._expensive_paths = expensive
        self._max_wait_seconds = max_wait_seconds
        self._threads = anyio.CapacityLimiter(MAX_PAGE_THREADS)
        self._turns = anyio.Semaphore(MAX_PAGE_THREADS)
        self._expensive_turns = anyio.Semaphore(MAX_EXPENSIVE_THREADS)

    def bind(self, route: BaseRoute) -> BaseRoute:
        """Wrap a blocking handler; async ones are left alone."""
        if not isinstance(route, Route) or iscoroutinefunction(route.endpoint):
            return route
        is_expensive = route.path in self._expensive_paths
        return Route(
            route.path,
            self._wrap(route.endpoint, is_expensive=is_expensive),
            methods=[*(route.methods or ())],
            name=route.name,
        )

    def _wrap(
        self, handler: _Handler, *, is_expensive: bool
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            make = partial(self._run, handler, request, is_expensive=is_expensive)
            return await _while_connected(request.receive, make)

        return answer

    async def _run(self, handler: _Handler, request: Request, *, is_expensive: bool) -> Response:
        async with self._acquire_thread(is_expensive=is_expensive):
            return await anyio.to_thread.run_sync(handler, request, limiter=self._threads)

    @asynccontextmanager
    async def _acquire_thread(self, *, is_expensive: bool) -> AsyncIterator[None]:
        """Acquire a thread.

        Raises:
            HTTPException: The wait timed out.
        """
        semaphores = [self._expensive_turns] if is_expensive else []
        acquired: list[anyio.Semaphore] = []
        try:
            with anyio.move_on_after(self._max_wait_seconds) as patience:
                for semaphore in (*semaphores, self._turns):
                    await semaphore.acquire()
                    acquired.append(semaphore)
            if patience.cancelled_caught:
                raise _refuse()
            yield
        finally:
            for semaphore in acquired:
                semaphore.release()


async def _while_connected(receive: Receive, make: Callable[[], Awaitable[Response]]) -> Response:
    """Run a handler; cancel it on disconnect."""
    response, failure = Response(status_code=_CLIENT_GONE), None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when_gone, receive, tasks.cancel_scope)
        try:
            response = await make()
        except Exception as error:  # noqa: BLE001 - raised again, but in no group
            failure = error
        tasks.cancel_scope.cancel()
    if failure:
        raise failure
    return response


async def _cancel_when_gone(receive: Receive, making: anyio.CancelScope) -> None:
    # The handlers here read no body.
    while (await receive())["type"] != "http.disconnect":
        pass
    making.cancel()


def _refuse() -> HTTPException:
    seconds = random.randint(*_RETRY_AFTER_SECONDS)  # noqa: S311 - spreads load
    detail = f"The server is busy. Try again in {seconds} s"
    return HTTPException(503, detail, {"Retry-After": str(seconds)})
