"""What becomes of streams and connections when a server over HTTP ends."""

import anyio
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Closing:
    """Ends the connection with each answer that is given after the signal to end.

    The next request then opens another one, and a load balancer has taken this server
    out by then. A connection that was kept would be closed under a request.

    Args:
        app: What answers.
        ending: Is set by the signal.
    """

    def __init__(self, app: ASGIApp, *, ending: anyio.Event) -> None:
        self._app = app
        self._ending = ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def close(message: Message) -> None:
            if message["type"] == "http.response.start" and self._ending.is_set():
                MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        await self._app(scope, receive, close if scope["type"] == "http" else send)


class Streams:
    """Ends each open stream when the server ends, in the way that HTTP ends a body.

    A client sees the end of the stream, and not a broken connection.

    Args:
        app: What answers.
        ending: Is set when the server ends.
    """

    def __init__(self, app: ASGIApp, *, ending: anyio.Event) -> None:
        self._app = app
        self._ending = ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; one that is no stream passes as it is."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        await run_until(self._ending, self._app, scope, receive, send)


async def run_until(
    ending: anyio.Event, app: ASGIApp, scope: Scope, receive: Receive, send: Send
) -> None:
    """Let an application answer until an event is set, then end the body regularly."""
    is_open = False

    async def note(message: Message) -> None:
        nonlocal is_open
        is_body = message["type"] == "http.response.body"
        is_open = not is_body or message.get("more_body", False)
        await send(message)

    async def cancel(answering: anyio.CancelScope) -> None:
        await ending.wait()
        answering.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel, tasks.cancel_scope)
        await app(scope, receive, note)
        tasks.cancel_scope.cancel()
    if is_open:
        await send({"type": "http.response.body", "body": b""})
