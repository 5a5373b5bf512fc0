"""Error responses of middleware, as JSON-RPC errors.

Clients show the message of a JSON-RPC error to the agent, even with an error status. Of
any other body they only report an unspecific server error.
"""

import random
from collections.abc import Mapping

from mcp_types import INTERNAL_ERROR, INVALID_REQUEST
from starlette.responses import JSONResponse

# Clients that were refused together do not come back together.
_RETRY_AFTER_SECONDS = (1, 5)

_SERVER_ERROR = 500  # from here on, the request was not at fault


def error_response(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """JSON-RPC error with an HTTP status; `code` is stable and in capitals."""
    number = INTERNAL_ERROR if status >= _SERVER_ERROR else INVALID_REQUEST
    error = {"code": number, "message": message, "data": {"code": code}}
    return JSONResponse(
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
