"""What a guard answers instead of the application, in the words of MCP.

Clients show the message of a JSON-RPC error to the agent, also beside a status; of
another body they say only that the server answered with an error.
"""

import random
from collections.abc import Mapping

from mcp_types import INTERNAL_ERROR, INVALID_REQUEST
from starlette.responses import JSONResponse

# Clients that were refused together do not come back together.
_RETRY_AFTER_SECONDS = (1, 5)

_SERVER_ERROR = 500  # from here on, the request was not at fault


def refuse(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return a JSON-RPC error with a status; `code` is stable and in capitals."""
    number = INTERNAL_ERROR if status >= _SERVER_ERROR else INVALID_REQUEST
    error = {"code": number, "message": message, "data": {"code": code}}
    return JSONResponse(
        {"jsonrpc": "2.0", "id": None, "error": error},
        status_code=status,
        headers=headers,
    )


def busy() -> JSONResponse:
    """Response to a client that has to come again."""
    seconds = draw_retry_seconds()
    return refuse(
        503,
        "SERVER_BUSY",
        f"The server is busy. Try again in {seconds} s.",
        # A client that is refused at once, and asks again at once, waits in line for
        # the next connection.
        {"Retry-After": str(seconds), "Connection": "close"},
    )


def draw_retry_seconds() -> int:
    """Value of `Retry-After`, with jitter."""
    return random.randint(*_RETRY_AFTER_SECONDS)  # noqa: S311 - spreads load
