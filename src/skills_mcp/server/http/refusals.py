"""What a guard answers instead of the application: a status, a code and a hint."""

from collections.abc import Mapping

from starlette.responses import JSONResponse


def refuse(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return an answer in the shape that the errors of tools have, too."""
    return JSONResponse(
        {"error": {"code": code, "message": message}},
        status_code=status,
        headers=headers,
    )
