"""What tells clients and proxies to leave, while a server that ends still answers."""

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
