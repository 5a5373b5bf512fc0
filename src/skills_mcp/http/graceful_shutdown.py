"""Graceful shutdown of connections and streams."""

import anyio
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class ConnectionCloseMiddleware:
    """Middleware: `Connection: close` on each response after the shutdown signal.

    Clients then reconnect, and the load balancer has already removed this server.
    Otherwise
    a kept-alive connection would be closed in the middle of a request.
    """

    def __init__(self, app: ASGIApp, *, shutdown: anyio.Event) -> None:
        self._app = app
        self._shutdown = shutdown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def close(message: Message) -> None:
            if message["type"] == "http.response.start" and self._shutdown.is_set():
                MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        await self._app(scope, receive, close if scope["type"] == "http" else send)


class StreamShutdownMiddleware:
    """Middleware: regular end of open streams at shutdown.

    Clients see the end of the body, not a broken connection.
    """

    def __init__(self, app: ASGIApp, *, shutdown: anyio.Event) -> None:
        self._app = app
        self._shutdown = shutdown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        await run_until(self._shutdown, self._app, scope, receive, send)


async def run_until(
    stop: anyio.Event, app: ASGIApp, scope: Scope, receive: Receive, send: Send
) -> None:
    """Run an application until an event, then end the response body regularly."""
    is_open = False

    async def note(message: Message) -> None:
        nonlocal is_open
        is_body = message["type"] == "http.response.body"
        is_open = not is_body or message.get("more_body", False)
        await send(message)

    async def cancel(answering: anyio.CancelScope) -> None:
        await stop.wait()
        answering.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel, tasks.cancel_scope)
        await app(scope, receive, note)
        tasks.cancel_scope.cancel()
    if is_open:
        await send({"type": "http.response.body", "body": b""})
