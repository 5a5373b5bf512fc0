"""Error responses: pages for people, JSON for programs."""

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
from skills_mcp.features.web.page import render_template
from skills_mcp.library.answers import render_error

logger = logging.getLogger(__name__)

API = "/api"
"""Path prefix of JSON responses."""

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
    """HTTP status code of an error."""
    found = (status for kind, status in _STATUSES if isinstance(error, kind))
    return next(found, 500)


def describe_for_person(error: SkillsError) -> str:
    """Message of an error, with the next step for a person instead of an agent."""
    message = render_error(error)["message"]
    return message.replace(_AGENTS_HINT, "The catalogue shows what there is.")


def show_notice(request: Request, notice: Notice) -> Response:
    return render_template(request, "notice.html", status=notice.status, notice=notice)


def handle_skills_error(request: Request, error: Exception) -> Response:
    """Exception handler for library errors, with the tools' messages."""
    if not isinstance(error, SkillsError):
        raise error
    status = derive_status(error)
    if isinstance(error, EventStoreError):
        answer = _answer_event_store_error(request, error, status)
    elif _is_for_programs(request):
        rendered = render_error(error)
        answer = _send_json_error(status, rendered["code"], rendered["message"])
    else:
        answer = _show_error_page(request, status, describe_for_person(error))
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        seconds = random.randint(*_RETRY_AFTER_SECONDS)  # noqa: S311 - spreads load
        answer.headers["Retry-After"] = str(seconds)
    return answer


def _answer_event_store_error(request: Request, error: EventStoreError, status: int) -> Response:
    """Hide the message: it names the host and the database."""
    logger.error("No events can be shown: %s", error)
    if _is_for_programs(request):
        return _send_json_error(status, EventStoreError.code, _NO_EVENTS)
    return _show_error_page(request, status, _NO_EVENTS, _NO_EVENTS_TITLE)


def handle_http_error(request: Request, error: Exception) -> Response:
    """Exception handler for HTTP errors, such as an unknown path or method."""
    if not isinstance(error, HTTPException):
        raise error
    status = error.status_code
    code = _CODES.get(status, "INVALID_REQUEST")
    message = _NOT_FOUND if status == HTTPStatus.NOT_FOUND else f"{error.detail}."
    if _is_for_programs(request):
        answer = _send_json_error(status, code, message)
    else:
        title = _TITLES_OF_ADDRESSES.get(status, "")
        answer = _show_error_page(request, status, message, title)
    answer.headers.update(error.headers or {})
    return answer


def handle_internal_error(request: Request, _: Exception) -> Response:
    """Exception handler for internal errors; the log has the traceback."""
    if _is_for_programs(request):
        return _send_json_error(500, "INTERNAL_ERROR", _FAILED)
    return _show_error_page(request, 500, _FAILED)


def _is_for_programs(request: Request) -> bool:
    path = request.url.path
    return path == API or path.startswith(f"{API}/")


def _send_json_error(status: int, code: str, message: str) -> Response:
    return JSONResponse({"error": {"code": code, "message": message}}, status)


def _show_error_page(request: Request, status: int, message: str, title: str = "") -> Response:
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
