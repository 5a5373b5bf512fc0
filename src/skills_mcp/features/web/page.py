"""Page rendering: templates, layout, shared state, and error responses."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from threading import Event, Lock
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from anyio.from_thread import check_cancelled
from jinja2 import Environment
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import Receive

from skills_mcp.about import __version__
from skills_mcp.errors import (
    AGENTS_STEP,
    FILES_STEP,
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
from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.events.spool import LocalEvents
from skills_mcp.features.history.source_history import SourceLogs, derive_word_differences
from skills_mcp.features.report.database_report import CatalogueCounts
from skills_mcp.features.report.report_page import open_templates
from skills_mcp.features.web.browser import VISITOR_KEY, Notice, Visitor
from skills_mcp.features.web.browsing import name_path
from skills_mcp.library import LibraryView, SkillLibrary
from skills_mcp.library.answers import render_error
from skills_mcp.skills.access import PRINCIPAL_KEY, Principal
from skills_mcp.text.rendering import describe_age

# An entry of the table and the objects of a key and a value.
_OVERHEAD_BYTES = 300

# How long a thread goes on waiting for another one after it was cancelled.
_CHECK_SECONDS = 0.1

CacheKey = TypeVar("CacheKey", bound=Hashable)
CacheValue = TypeVar("CacheValue")


class ByteCache(Generic[CacheKey, CacheValue]):
    """Thread-safe LRU cache of expensive values.

    Concurrent requests for a value share one computation; after a failure or
    cancellation (`check_cancelled` raises) the next one retries. A value larger than
    `max_bytes` is not stored.
    """

    def __init__(
        self,
        max_bytes: int,
        measure: Callable[[CacheValue], int],
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> None:
        self._max_bytes = max_bytes
        self._measure = measure
        self._check_cancelled = check_cancelled
        self._lock = Lock()
        self._values: OrderedDict[CacheKey, CacheValue] = OrderedDict()
        self._making: dict[CacheKey, Event] = {}
        self.size_bytes = 0
        """Of all that is kept."""

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: CacheKey, make: Callable[[], CacheValue]) -> CacheValue:
        while True:
            with self._lock:
                if key in self._values:
                    self._values.move_to_end(key)
                    return self._values[key]
                made = self._making.get(key)
                if made is None:
                    self._making[key] = Event()
            if made is None:
                return self._make(key, make)
            while not made.wait(_CHECK_SECONDS):
                self._check_cancelled()

    def _make(self, key: CacheKey, make: Callable[[], CacheValue]) -> CacheValue:
        try:
            value = make()
            self._keep(key, value)
        finally:
            with self._lock:
                self._making.pop(key).set()
        return value

    def _keep(self, key: CacheKey, value: CacheValue) -> None:
        size = self._size_of(value)
        with self._lock:
            if size > self._max_bytes:
                return
            self._values[key] = value
            self.size_bytes += size
            while self.size_bytes > self._max_bytes:
                _, oldest = self._values.popitem(last=False)
                self.size_bytes -= self._size_of(oldest)

    def _size_of(self, value: CacheValue) -> int:
        return self._measure(value) + _OVERHEAD_BYTES


logger = logging.getLogger(__name__)

CachedValue = TypeVar("CachedValue")


# As long as nothing is known, or the last attempt failed; to find nothing costs little.
_RETRY_SECONDS = 5.0


class BackgroundCache(Generic[CachedValue]):
    """Stale-while-revalidate cache of one value; who sees a value never waits.

    Args:
        make: Makes the value, in a thread.
        seconds: Age of a stale value.
        clock: Monotonic clock, in seconds.
        is_empty: Whether a value says nothing, and may say something in a moment: it is
            made again soon, and who asks for that waits for it.
        wait_seconds: At most that long.
    """

    def __init__(
        self,
        make: Callable[[], CachedValue],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        is_empty: Callable[[CachedValue], bool] | None = None,
        wait_seconds: float = 0.0,
    ) -> None:
        self._make = make
        self._seconds = seconds
        self._clock = clock
        self._is_empty = is_empty
        self._wait_seconds = wait_seconds
        self._gate = threading.Condition(threading.Lock())
        self._value: CachedValue | None = None
        self._failure = ""
        self._made_at: float | None = None
        self._key: Hashable = None
        self._is_making = False

    @property
    def failure(self) -> str:
        """Why the last attempt failed; empty if it did not."""
        return self._failure

    def get_stale(self, key: Hashable = None) -> CachedValue | None:
        """Newest value, None before the first; starts a refresh if stale.

        Another `key` than that of the last refresh makes the value stale.
        """
        with self._gate:
            if not self._is_making and (self._is_old() or key != self._key):
                self._is_making, self._key = True, key
                threading.Thread(target=self._run, daemon=True).start()
                if self._wait_seconds and not self._says_something():
                    self._gate.wait(self._wait_seconds)
            return self._value

    def _is_old(self) -> bool:
        made_at = self._made_at
        is_settled = self._is_empty is None or (self._says_something() and not self._failure)
        seconds = self._seconds if is_settled else _RETRY_SECONDS
        return made_at is None or self._clock() - made_at >= seconds

    def _says_something(self) -> bool:
        value = self._value
        return value is not None and not (self._is_empty and self._is_empty(value))

    def _run(self) -> None:
        value, failure = None, ""
        try:
            value = self._make()
        except SkillsError as error:
            failure = str(error)
            logger.warning("A value for the pages could not be made: %s", error)
        except Exception:
            logger.exception("A value for the pages could not be made")
            failure = "It failed for a reason that is in the server's log."
        with self._gate:
            self._value = self._value if failure else value
            self._failure = failure
            self._made_at = self._clock()
            self._is_making = False
            self._gate.notify_all()


# Of HTML: some thousand texts, or forty of the slowest to render.
_MAX_RENDERED_BYTES = 32 * 1024 * 1024

_ANONYMOUS = Visitor(principal=None)


@dataclass(frozen=True, slots=True)
class NavigationLink:
    """A link in the page header."""

    title: str
    path: str
    needed: str = ""
    """Scope required by the page; empty for none."""


@dataclass(frozen=True, slots=True)
class SiteState:
    """Shared state of all requests."""

    library: SkillLibrary
    navigation: tuple[NavigationLink, ...]
    prefix: str
    """Path prefix behind a proxy with other services."""
    events: EventStore | None
    """Events of all machines; None if none are kept."""
    counts: BackgroundCache[CatalogueCounts] | None
    """Use of each skill; None if no events are kept."""
    logs: BackgroundCache[SourceLogs]
    """Histories of the sources."""
    local_events: LocalEvents | None = None
    """Events of this machine, for its user; None at a server for others."""
    rendered: ByteCache[tuple[str, bytes], Markup] = field(
        default_factory=lambda: ByteCache(_MAX_RENDERED_BYTES, len, check_cancelled),
        repr=False,
    )
    """Rendered skill texts, by address of the skill and digest of the text."""


def get_site_state(request: Request) -> SiteState:
    state: SiteState = request.app.state.site
    return state


def get_visible_library(request: Request) -> LibraryView:
    """Library limited to the caller's visibility.

    Raises:
        KeyError: The request bypassed authentication, a defect of this program.
    """
    principal: Principal = request.scope[PRINCIPAL_KEY]
    return get_site_state(request).library.serving(principal).view(principal.access)


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait for the disconnect, after the body was read."""
    while (await receive())["type"] != "http.disconnect":
        pass


def find_counts(request: Request) -> CatalogueCounts | None:
    """Cached use of each skill; None while unknown, and where no event has arrived."""
    counts = get_site_state(request).counts
    known = counts.get_stale() if counts else None
    return known if known and known.since else None


def is_use_unknown(request: Request) -> bool:
    """Whether events are kept, but could not be counted."""
    counts = get_site_state(request).counts
    return counts is not None and counts.get_stale() is None and bool(counts.failure)


def find_uses(request: Request) -> Mapping[str, int] | None:
    """How often agents got each skill; None while unknown."""
    counts = find_counts(request)
    return {path: each.served for path, each in counts.skills.items()} if counts else None


def find_logs(request: Request) -> SourceLogs | None:
    """Histories of the sources as they are served; None while unknown."""
    content = get_visible_library(request).snapshot.content
    key = tuple((part.checkout.directory, part.checkout.revision) for part in content.parts)
    return get_site_state(request).logs.get_stale(key)


def render_template(
    request: Request, template: str, *, status: int = 200, **content: Any
) -> HTMLResponse:
    """Render a template with the layout.

    Args:
        request: The request to answer.
        template: Name of a template based on `layout.html`.
        status: Status code.
        content: Template variables; autoescaped.
    """
    html = (
        _open_templates().get_template(template).render(_build_layout_variables(request) | content)
    )
    return HTMLResponse(html, status)


def _build_layout_variables(request: Request) -> dict[str, Any]:
    """Variables of `layout.html`."""
    state = get_site_state(request)
    visitor: Visitor = request.scope.get(VISITOR_KEY, _ANONYMOUS)
    principal: Principal | None = request.scope.get(PRINCIPAL_KEY)
    scopes = principal.scopes if principal else frozenset()
    return {
        "navigation": [link for link in state.navigation if link.needed in {"", *scopes}],
        "here": request.url.path,
        "root": state.prefix,
        "visitor": visitor,
        "version": __version__,
    }


@cache
def _open_templates() -> Environment:
    templates = open_templates("skills_mcp.features.web")
    templates.filters |= {
        "query": _render_query,
        "age": describe_age,
        "in_words": name_path,
        "stopped": end_sentence,
        "word_differences": derive_word_differences,
    }
    return templates


def end_sentence(text: str) -> str:
    """Add a full stop, unless the text ends with punctuation.

    >>> end_sentence("save it as UTF-8"), end_sentence("write description: …")
    ('save it as UTF-8.', 'write description: …')
    """
    return text if text.endswith((".", "…", "!", "?")) else f"{text}."


def _render_query(parameters: Mapping[str, str | None]) -> str:
    """Build a query string from the non-empty values."""
    encoded = urlencode({name: value for name, value in parameters.items() if value})
    return f"?{encoded}" if encoded else ""


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
_PERSONS_STEP = "The catalogue shows what there is."
_FAILED = (
    "The server has failed to make this page. Try again; if it stays so, tell the "
    "operator, who finds the reason in the log of the server."
)


def derive_status(error: SkillsError) -> int:
    """HTTP status code of an error."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def describe_for_person(error: SkillsError) -> str:
    """Message of an error, with the next step for a person instead of an agent."""
    message = render_error(error)["message"].replace(AGENTS_STEP, _PERSONS_STEP)
    return message.replace(FILES_STEP, "Its page lists them.")


def show_notice(request: Request, notice: Notice) -> Response:
    return render_template(request, "notice.html", status=notice.status, notice=notice)


def handle_skills_error(request: Request, error: Exception) -> Response:
    """Exception handler for library errors, with the tools' messages."""
    if not isinstance(error, SkillsError):
        raise error
    status = derive_status(error)
    if isinstance(error, EventStoreError):
        # Its message is for the log: it names the host and the database.
        logger.error("No events can be shown: %s", error)
        return _answer_error(request, status, error.code, _NO_EVENTS, _NO_EVENTS_TITLE)
    if _is_for_programs(request):
        return _answer_error(request, status, **render_error(error))
    return _show_error_page(request, status, describe_for_person(error))


def handle_http_error(request: Request, error: Exception) -> Response:
    """Exception handler for HTTP errors, such as an unknown path or method."""
    if not isinstance(error, HTTPException):
        raise error
    status = error.status_code
    code = _CODES.get(status, "INVALID_REQUEST")
    message = _NOT_FOUND if status == HTTPStatus.NOT_FOUND else f"{error.detail}."
    answer = _answer_error(request, status, code, message, _TITLES_OF_ADDRESSES.get(status, ""))
    answer.headers.update(error.headers or {})
    return answer


def handle_internal_error(request: Request, _: Exception) -> Response:
    """Exception handler for internal errors; the log has the traceback."""
    return _answer_error(request, 500, "INTERNAL_ERROR", _FAILED)


def _answer_error(
    request: Request, status: int, code: str, message: str, title: str = ""
) -> Response:
    if _is_for_programs(request):
        return JSONResponse({"error": {"code": code, "message": message}}, status)
    return _show_error_page(request, status, message, title)


def _is_for_programs(request: Request) -> bool:
    path = request.url.path
    return path == API or path.startswith(f"{API}/")


def _show_error_page(request: Request, status: int, message: str, title: str = "") -> Response:
    link, link_text = "/catalogue", "To the catalogue"
    path = request.url.path
    if status == HTTPStatus.NOT_FOUND and path.startswith(_SKILLS):
        # A skill that has moved often keeps its name.
        words = path.rstrip("/").rpartition("/")[2][:_MAX_WORDS]
        link = f"/catalogue?{urlencode({'q': words})}"
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
