"""What a person or a program is told when a request cannot be answered."""

import logging
import random
from http import HTTPStatus
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skills_mcp.errors import (
    AmbiguousNameError,
    ContentUnavailableError,
    EventStoreError,
    FileTooLargeError,
    InvalidArgumentsError,
    InvalidPathError,
    MissingFileError,
    PackageNotAddedError,
    PackageRefusedError,
    SkillDisabledError,
    SkillNotFoundError,
    SkillsError,
    UndeclaredFileError,
    UploadStoppedError,
)
from skills_mcp.features.web.notice_page import Notice
from skills_mcp.features.web.page import render_page
from skills_mcp.library.answers import render_error

logger = logging.getLogger(__name__)

API = "/api"
"""Below it, programs are answered: in JSON, and an error with its code."""

_SKILLS = "/skills/"

_MAX_WORDS = 100

_STATUSES: tuple[tuple[type[SkillsError], int], ...] = (
    (InvalidArgumentsError, 400),
    (InvalidPathError, 400),
    (SkillDisabledError, 403),
    (SkillNotFoundError, 404),
    (UndeclaredFileError, 404),
    (MissingFileError, 404),
    (AmbiguousNameError, 409),
    (PackageNotAddedError, 409),
    (FileTooLargeError, 413),
    (PackageRefusedError, 422),
    (ContentUnavailableError, 503),
    (EventStoreError, 503),
    (UploadStoppedError, 503),
)

# Readers that were refused together do not come back together.
_RETRY_AFTER_SECONDS = (5, 30)

_CODES = {
    403: "INSUFFICIENT_SCOPE",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    503: "SERVER_BUSY",
}

_TITLES = {
    400: "This address cannot be read",
    403: "You may not see this",
    404: "There is no such page",
    405: "This page is only for looking at",
    503: "The skills are not loaded yet",
}

_TITLES_OF_ADDRESSES = {503: "The server is busy"}

_NO_EVENTS_TITLE = "The events cannot be read just now"
_NO_EVENTS = (
    "The database of events does not answer as it should. Try again in a moment; if it "
    "stays so, tell the operator, who finds the reason in the log of the server."
)

_NOT_FOUND = "Nothing is at this address. Look for the skill in the catalogue."
_AGENTS_HINT = "list_skills or search_skills shows what there is."
_FAILED = (
    "The server has failed to make this page. Try again; if it stays so, tell the "
    "operator, who finds the reason in the log of the server."
)


def derive_status(error: SkillsError) -> int:
    """Return the status of HTTP for an error."""
    found = (status for kind, status in _STATUSES if isinstance(error, kind))
    return next(found, 500)


def tell_person(error: SkillsError) -> str:
    """Return the message of an error with what a person does next, not an agent."""
    told = render_error(error)["message"]
    return told.replace(_AGENTS_HINT, "The catalogue shows what there is.")


def show_notice(request: Request, notice: Notice) -> Response:
    """Return a page with one message and one link."""
    return render_page(request, "notice.html", status=notice.status, notice=notice)


def refuse_skills_error(request: Request, error: Exception) -> Response:
    """Answer with an error of the library, in the words of the tools."""
    if not isinstance(error, SkillsError):
        raise error
    status = derive_status(error)
    if isinstance(error, EventStoreError):
        answer = _refuse_without_events(request, error, status)
    elif _is_for_programs(request):
        told = render_error(error)
        answer = _answer_program(status, told["code"], told["message"])
    else:
        answer = _show_refusal(request, status, tell_person(error))
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        seconds = random.randint(*_RETRY_AFTER_SECONDS)  # noqa: S311 - spreads load
        answer.headers["Retry-After"] = str(seconds)
    return answer


def _refuse_without_events(
    request: Request, error: EventStoreError, status: int
) -> Response:
    """Answer without the message, which names the host and the database."""
    logger.error("No events can be shown: %s", error)
    if _is_for_programs(request):
        return _answer_program(status, EventStoreError.code, _NO_EVENTS)
    return _show_refusal(request, status, _NO_EVENTS, _NO_EVENTS_TITLE)


def refuse_address(request: Request, error: Exception) -> Response:
    """Answer a request whose address or method is none of ours."""
    if not isinstance(error, HTTPException):
        raise error
    status = error.status_code
    code = _CODES.get(status, "INVALID_REQUEST")
    said = _NOT_FOUND if status == HTTPStatus.NOT_FOUND else f"{error.detail}."
    if _is_for_programs(request):
        answer = _answer_program(status, code, said)
    else:
        title = _TITLES_OF_ADDRESSES.get(status, "")
        answer = _show_refusal(request, status, said, title)
    answer.headers.update(error.headers or {})
    return answer


def refuse_after_failure(request: Request, _: Exception) -> Response:
    """Answer where this program has failed; the log has the reason."""
    if _is_for_programs(request):
        return _answer_program(500, "INTERNAL_ERROR", _FAILED)
    return _show_refusal(request, 500, _FAILED)


def _is_for_programs(request: Request) -> bool:
    path = request.url.path
    return path == API or path.startswith(f"{API}/")


def _answer_program(status: int, code: str, message: str) -> Response:
    return JSONResponse({"error": {"code": code, "message": message}}, status)


def _show_refusal(
    request: Request, status: int, message: str, title: str = ""
) -> Response:
    link, link_text = "/", "To the catalogue"
    path = request.url.path
    if status == HTTPStatus.NOT_FOUND and path.startswith(_SKILLS):
        # A skill that has moved often keeps its name.
        words = path.rstrip("/").rpartition("/")[2][:_MAX_WORDS]
        link = f"/?{urlencode({'q': words})}"
        link_text = "Look for it in the catalogue"
    return show_notice(
        request,
        Notice(
            title=title or _TITLES.get(status, "This did not work"),
            message=message,
            link=link,
            link_text=link_text,
            status=status,
        ),
    )
