"""What a person or a program is told when a request cannot be answered."""

import logging
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skills_mcp.errors import (
    AmbiguousNameError,
    ContentUnavailableError,
    FileTooLargeError,
    InvalidArgumentsError,
    InvalidPathError,
    MissingFileError,
    SkillDisabledError,
    SkillNotFoundError,
    SkillsError,
    UndeclaredFileError,
)
from skills_mcp.library.answers import render_error
from skills_mcp.web.notice_page import Notice
from skills_mcp.web.page import render_page

logger = logging.getLogger(__name__)

API = "/api"
"""Below it, programs are answered: in JSON, and an error with its code."""

_STATUSES: tuple[tuple[type[SkillsError], int], ...] = (
    (InvalidArgumentsError, 400),
    (InvalidPathError, 400),
    (SkillDisabledError, 403),
    (SkillNotFoundError, 404),
    (UndeclaredFileError, 404),
    (MissingFileError, 404),
    (AmbiguousNameError, 409),
    (FileTooLargeError, 413),
    (ContentUnavailableError, 503),
)

_CODES = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}

_TITLES = {
    400: "This address cannot be read",
    403: "You may not see this",
    404: "There is no such page",
    405: "This page is only for looking at",
    503: "The skills are not loaded yet",
}

_NOT_FOUND = "Nothing is at this address. Look for the skill in the catalogue."
_FAILED = (
    "The server has failed to make this page. Try again; if it stays so, tell the "
    "operator, who finds the reason in the log of the server."
)


def derive_status(error: SkillsError) -> int:
    """Return the status of HTTP for an error."""
    found = (status for kind, status in _STATUSES if isinstance(error, kind))
    return next(found, 500)


def show_notice(request: Request, notice: Notice) -> Response:
    """Return a page with one message and one link."""
    return render_page(request, "notice.html", status=notice.status, notice=notice)


def refuse_skills_error(request: Request, error: Exception) -> Response:
    """Answer with an error of the library, in the words of the tools."""
    if not isinstance(error, SkillsError):
        raise error
    told = render_error(error)
    return _refuse(request, derive_status(error), told["code"], told["message"])


def refuse_address(request: Request, error: Exception) -> Response:
    """Answer a request whose address or method is none of ours."""
    if not isinstance(error, HTTPException):
        raise error
    status = error.status_code
    code = _CODES.get(status, "INVALID_REQUEST")
    said = _NOT_FOUND if status == HTTPStatus.NOT_FOUND else f"{error.detail}."
    return _refuse(request, status, code, said)


def refuse_after_failure(request: Request, _: Exception) -> Response:
    """Answer where this program has failed; the log has the reason."""
    return _refuse(request, 500, "INTERNAL_ERROR", _FAILED)


def _refuse(request: Request, status: int, code: str, message: str) -> Response:
    path = request.url.path
    if path == API or path.startswith(f"{API}/"):
        error = {"code": code, "message": message}
        return JSONResponse({"error": error}, status)
    title = _TITLES.get(status, "This did not work")
    return show_notice(
        request,
        Notice(
            title=title,
            message=message,
            link="/",
            link_text="To the catalogue",
            status=status,
        ),
    )
