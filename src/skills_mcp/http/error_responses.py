"""Error responses of middleware, as JSON-RPC errors.

Clients show the message of a JSON-RPC error to the agent, even with an error status. Of
any other body they only report an unspecific server error.
"""

import json
import random
from collections.abc import Mapping
from html import escape
from http import HTTPStatus

from mcp_types import INTERNAL_ERROR, INVALID_REQUEST
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

# Clients that were refused together do not come back together.
_RETRY_AFTER_SECONDS = (1, 5)


class _ErrorResponse(JSONResponse):
    """JSON-RPC error; in a browser, a page with its message."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if "text/html" in Headers(scope=scope).get("accept", ""):
            message = escape(json.loads(bytes(self.body))["error"]["message"])
            title = HTTPStatus(self.status_code).phrase
            self.body = _PAGE.format(title=title, message=message).encode()
            self.headers["Content-Type"] = "text/html; charset=utf-8"
            self.headers["Content-Length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


_PAGE = (
    '<!doctype html><html lang="en"><meta name="viewport" content="width=device-width">'
    "<title>{title}</title><h1>{title}</h1><p>{message}</p></html>"
)


def error_response(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """JSON-RPC error with an HTTP status; `code` is stable and in capitals."""
    is_ours = status >= HTTPStatus.INTERNAL_SERVER_ERROR  # the request was not at fault
    number = INTERNAL_ERROR if is_ours else INVALID_REQUEST
    error = {"code": number, "message": message, "data": {"code": code}}
    return _ErrorResponse(
        {"jsonrpc": "2.0", "id": None, "error": error},
        status_code=status,
        headers=headers,
    )


def retry_response(
    status: int,
    code: str,
    message: str,
    wait_seconds: tuple[int, int] = _RETRY_AFTER_SECONDS,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """Error with `Retry-After`, drawn from a range; `message` names it as `{seconds}`."""
    seconds = str(draw_retry_seconds(*wait_seconds))
    text = message.replace("{seconds}", seconds)
    return error_response(status, code, text, {"Retry-After": seconds, **(headers or {})})


def busy_response() -> JSONResponse:
    """503 with `Retry-After`."""
    # A client that is refused at once, and asks again at once, waits in line for the
    # next connection.
    message = "The server is busy. Try again in {seconds} s."
    return retry_response(503, "SERVER_BUSY", message, headers={"Connection": "close"})


def draw_retry_seconds(
    lower: int = _RETRY_AFTER_SECONDS[0], upper: int = _RETRY_AFTER_SECONDS[1]
) -> int:
    """Value of `Retry-After`, with jitter."""
    return random.randint(lower, upper)  # noqa: S311 - spreads load
