"""ASGI application of the pages and the REST API, with its thread pool and headers.

Rule: a page is not rendered for a disconnected client, and takes no thread from others.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
from anyio.from_thread import check_cancelled
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skills_mcp.errors import SkillNotFoundError, SkillsError
from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.events.spool import LocalEvents
from skills_mcp.features.authoring.uploads import Uploads, open_uploads
from skills_mcp.features.export.layout import (
    WELL_KNOWN_FOLDER,
    WELL_KNOWN_INDEX,
    ExportedLocations,
    LockedSettings,
    WellKnownSkill,
    assign_names,
    build_well_known_skill,
    package_skill,
    render_well_known,
)
from skills_mcp.features.history.source_history import read_source_logs
from skills_mcp.features.report.database_report import (
    CatalogueCounts,
    count_skills,
)
from skills_mcp.features.web.browser import BrowserMiddleware, notice_route
from skills_mcp.features.web.browser_sign_in import OpenIdSignIn, choose_sign_in
from skills_mcp.features.web.catalogue_page import show_catalogue, show_trial
from skills_mcp.features.web.content_pages import load_gaps, show_home, show_problems, show_sources
from skills_mcp.features.web.page import (
    BackgroundCache,
    ByteCache,
    NavigationLink,
    SiteState,
    get_visible_library,
    handle_http_error,
    handle_internal_error,
    handle_skills_error,
    show_notice,
    wait_for_disconnect,
)
from skills_mcp.features.web.rest import rest_routes
from skills_mcp.features.web.skill_page import show_skill
from skills_mcp.features.web.upload_page import (
    ADD_PATH,
    PROPOSE_PATH,
    UploadQueue,
    add_routes,
    propose_routes,
    upload_routes,
)
from skills_mcp.features.web.usage_page import show_report, show_report_style
from skills_mcp.http.authentication import find_required_scopes
from skills_mcp.http.error_responses import draw_retry_seconds
from skills_mcp.http.http_server import WebPart
from skills_mcp.http.routes import tagged_response
from skills_mcp.library import LibraryView, SkillLibrary
from skills_mcp.library.skill_folder import PublishedSkills, publish_skills
from skills_mcp.skills.access import EVERYTHING, READ, REPORT, UPLOAD
from skills_mcp.skills.model import SkillPath
from skills_mcp.skills.skill_index import SkillIndex

_SETTINGS = LockedSettings(format="well-known", raw=False, select=())

WELL_KNOWN_PATHS = (f"/{WELL_KNOWN_INDEX}", f"/{WELL_KNOWN_FOLDER}/{{name}}/{{file}}")
"""Route of the index, and of the skills' files."""

_MAX_ENTRY_BYTES = 64 * 1024 * 1024  # about 100,000 skills, or ten sets of 10,000

_MAX_FILE_BYTES = 32 * 1024 * 1024  # a tool that installs skills asks for each of them


def well_known_routes() -> list[Route]:
    skills = _WellKnownSkills()
    return [
        Route(WELL_KNOWN_PATHS[0], skills.send_index),
        Route(WELL_KNOWN_PATHS[1], skills.send_file),
    ]


_SHORT_NAMES: WeakKeyDictionary[SkillIndex, Mapping[SkillPath, str]] = WeakKeyDictionary()


class _Key(NamedTuple):
    """A skill as seen with equal grants."""

    revision: bytes
    path: SkillPath


class _WellKnownSkills:
    """Well-known index of Agent Skills (discovery, version 0.2.0), for installers.

    Rule: a skill is packaged once for all callers with equal grants. The scope of a
    request only filters these skills; their addresses stay.
    """

    def __init__(self) -> None:
        self._entries: ByteCache[_Key, str] = ByteCache(_MAX_ENTRY_BYTES, len, check_cancelled)
        self._files: ByteCache[_Key, WellKnownSkill] = ByteCache(
            _MAX_FILE_BYTES, lambda skill: len(skill.data), check_cancelled
        )

    def send_index(self, request: Request) -> Response:
        library, published = _publish(request)
        entries = [
            self._find_entry(published, path)
            for path in published.names.published
            if _is_requested(library, published, path)
        ]
        return tagged_response(request.scope, render_well_known(entries), "application/json")

    def send_file(self, request: Request) -> Response:
        library, published = _publish(request)
        paths = {name: path for path, name in _name_skills(published).items()}
        path = paths.get(request.path_params["name"])
        if path is None or not _is_requested(library, published, path):
            raise SkillNotFoundError("There is no such skill.")
        skill = self._find_skill(published, path)
        if skill.file != request.path_params["file"]:
            raise SkillNotFoundError("There is no such file.")
        is_text = skill.file.endswith(".md")
        kind = "text/markdown; charset=utf-8" if is_text else "application/gzip"
        return tagged_response(request.scope, skill.data, kind)

    def _find_entry(self, published: PublishedSkills, path: SkillPath) -> str:
        check_cancelled()
        key = _Key(published.snapshot.indexes.content_key, path)
        return self._entries.get(key, lambda: _lay_out(published, path).entry)

    def _find_skill(self, published: PublishedSkills, path: SkillPath) -> WellKnownSkill:
        key = _Key(published.snapshot.indexes.content_key, path)
        return self._files.get(key, partial(_lay_out, published, path))


def _lay_out(published: PublishedSkills, path: SkillPath) -> WellKnownSkill:
    names = _name_skills(published)
    locations = ExportedLocations(published.snapshot.index, names.get, lambda _: "")
    return build_well_known_skill(package_skill(published, path, names[path], _SETTINGS, locations))


def _name_skills(published: PublishedSkills) -> Mapping[SkillPath, str]:
    """Short names, the same on every replica; without a lock, a namesake changes them."""
    index = published.snapshot.index
    if index not in _SHORT_NAMES:
        _SHORT_NAMES[index] = assign_names(published.names.published, {})
    return _SHORT_NAMES[index]


def _publish(request: Request) -> tuple[LibraryView, PublishedSkills]:
    """The caller's library, and its skills without the scope of the request."""
    library = get_visible_library(request)
    return library, publish_skills(replace(library, access=library.access.unscoped).snapshot)


def _is_requested(library: LibraryView, published: PublishedSkills, path: SkillPath) -> bool:
    """Whether the requested scope includes a skill, or one of its copies."""
    visible = library.snapshot.index
    paths = (path, *published.snapshot.index.other_places(path))
    return any(visible.find(location) is not None for location in paths)


# The threads share one interpreter: more of them make no page sooner, and each takes
# turns from the event loop, which every call of a tool needs.
MAX_PAGE_THREADS = 4

MAX_EXPENSIVE_THREADS = 2
"""Threads for expensive routes; the others stay free."""

# As long as a call of MCP waits to be admitted.
_MAX_WAIT_SECONDS = 10.0

# Clients that were refused together do not come back together.
_RETRY_AFTER_SECONDS = (5, 15)

# No client reads it; nginx counts such requests with the same number.
_CLIENT_GONE = 499

_Handler = Callable[[Request], Response]


class PageThreads:
    """Runs blocking route handlers in threads.

    Args:
        expensive: Paths of routes that may read every skill.
        max_wait_seconds: How long a request waits for a thread.
    """

    def __init__(
        self,
        expensive: frozenset[str] = frozenset(),
        max_wait_seconds: float = _MAX_WAIT_SECONDS,
    ) -> None:
        self._expensive_paths = expensive
        self._max_wait_seconds = max_wait_seconds
        self._threads = anyio.CapacityLimiter(MAX_PAGE_THREADS)
        self._turns = anyio.Semaphore(MAX_PAGE_THREADS)
        self._expensive_turns = anyio.Semaphore(MAX_EXPENSIVE_THREADS)

    def bind(self, route: BaseRoute) -> BaseRoute:
        """Wrap a blocking handler; async ones are left alone."""
        if not isinstance(route, Route) or iscoroutinefunction(route.endpoint):
            return route
        is_expensive = route.path in self._expensive_paths
        return Route(
            route.path,
            self._wrap(route.endpoint, is_expensive=is_expensive),
            methods=[*(route.methods or ())],
            name=route.name,
        )

    def _wrap(
        self, handler: _Handler, *, is_expensive: bool
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            make = partial(self._run, handler, request, is_expensive=is_expensive)
            return await _while_connected(request.receive, make)

        return answer

    async def _run(self, handler: _Handler, request: Request, *, is_expensive: bool) -> Response:
        """Run a handler in a thread.

        Raises:
            HTTPException: The wait for a thread timed out.
        """
        semaphores = (self._expensive_turns, self._turns) if is_expensive else (self._turns,)
        async with AsyncExitStack() as acquired:
            with anyio.move_on_after(self._max_wait_seconds) as patience:
                for semaphore in semaphores:
                    await acquired.enter_async_context(semaphore)
            if patience.cancelled_caught:
                raise _refuse()
            return await anyio.to_thread.run_sync(handler, request, limiter=self._threads)


async def _while_connected(receive: Receive, make: Callable[[], Awaitable[Response]]) -> Response:
    """Run a handler; cancel it on disconnect."""
    response, failure = Response(status_code=_CLIENT_GONE), None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when_gone, receive, tasks.cancel_scope)
        try:
            response = await make()
        except Exception as error:  # noqa: BLE001 - raised again, but in no group
            failure = error
        tasks.cancel_scope.cancel()
    if failure:
        raise failure
    return response


async def _cancel_when_gone(receive: Receive, making: anyio.CancelScope) -> None:
    await wait_for_disconnect(receive)  # the handlers here read no body
    making.cancel()


def _refuse() -> HTTPException:
    seconds = draw_retry_seconds(*_RETRY_AFTER_SECONDS)
    detail = f"The server is busy. Try again in {seconds} s"
    return HTTPException(503, detail, {"Retry-After": str(seconds)})


CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
"""No inline scripts or styles, and nothing from other origins."""

_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # without any, forms would be sent by `null`
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class SecurityHeaders:
    """ASGI middleware; headers already set are preserved."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, add if scope["type"] == "http" else send)


# A count reads the events of a quarter.
_COUNTED_SECONDS = 5 * 60.0

# Of the first who looks; a page without figures comes sooner than that of a slow database.
_COUNTING_SECONDS = 1.0

# A new commit is read at once; this is for a history that could not be.
_LOGGED_SECONDS = 10 * 60.0

_STATIC = Path(__file__).parent / "static"

# In this order, and each only if there is a route of its name.
_NAVIGATION = {
    "home": "Home",
    "catalogue": "Catalogue",
    "try": "Try a task",
    "problems": "Problems",
    "sources": "Sources",
    "report": "Report",
    "add": "Add",
}

_NEEDED = {"report": REPORT}

# They read every skill, or the events of a year.
_EXPENSIVE = frozenset({*WELL_KNOWN_PATHS, "/", "/report", "/api/report"})


def create_site(
    library: SkillLibrary,
    events: EventStore | None = None,
    sign_in: Sequence[BaseRoute] = (),
    uploads: Uploads | None = None,
    local_events: LocalEvents | None = None,
) -> ASGIApp:
    """Build the application.

    The ASGI scope of each request needs its caller under `PRINCIPAL_KEY`.

    Args:
        library: The unrestricted library; requests are limited to the caller's
        visibility.
        events: Data of the report; None if none are kept.
        sign_in: Routes for sign-in and sign-out.
        uploads: Accepts new skills; None if uploads are off.
        local_events: Data of the report without `events`, for the user of this machine.
    """
    added = [*add_routes(), *propose_routes(), *upload_routes()] if uploads else []
    routes = [*sign_in, *added, *_routes(has_report=bool(events or local_events))]
    threads = PageThreads(_EXPENSIVE)
    site = Starlette(
        routes=[threads.bind(route) for route in routes],
        middleware=[Middleware(SecurityHeaders)],
        exception_handlers={
            HTTPException: handle_http_error,
            SkillsError: handle_skills_error,
            Exception: handle_internal_error,
        },
    )
    prefix = urlsplit(library.config.http.base_url).path.rstrip("/")
    site.state.site = state = SiteState(
        library,
        _find_navigation(routes),
        prefix,
        events,
        _remember_counts(events),
        BackgroundCache(
            lambda: read_source_logs(library.view(EVERYTHING).snapshot), _LOGGED_SECONDS
        ),
        local_events,
    )
    site.state.gaps = BackgroundCache(
        lambda: load_gaps(state),
        _COUNTED_SECONDS,
        is_empty=lambda gaps: not gaps.tasks,
        wait_seconds=_COUNTING_SECONDS,
    )
    if uploads:
        site.state.upload_queue = UploadQueue(uploads, events)
    return site


def _remember_counts(
    events: EventStore | None,
) -> BackgroundCache[CatalogueCounts] | None:
    if events is None:
        return None
    return BackgroundCache(
        lambda: count_skills(events, datetime.now(UTC).date()),
        _COUNTED_SECONDS,
        is_empty=lambda counts: counts.since is None,
        wait_seconds=_COUNTING_SECONDS,
    )


def _routes(*, has_report: bool) -> list[BaseRoute]:
    report = [
        Route("/report", show_report, name="report"),
        Route("/report.css", show_report_style),
    ]
    return [
        Route("/", show_home, name="home"),
        Route("/catalogue", show_catalogue, name="catalogue"),
        Route("/skills/{path:path}", show_skill, name="skill"),
        *rest_routes(),
        *well_known_routes(),
        Route("/try", show_trial, name="try"),
        Route("/problems", show_problems, name="problems"),
        Route("/sources", show_sources, name="sources"),
        *(report if has_report else ()),
        notice_route(show_notice),
        Mount("/static", StaticFiles(directory=_STATIC), name="static"),
    ]


def find_page_scopes(scope: Scope) -> tuple[str, ...]:
    """Scopes that a request needs; those of the server where it is for no page."""
    match scope["path"]:
        case "/api/skills/upload-install":
            return (UPLOAD,)
        case "/report" | "/api/report":
            return READ, REPORT
        # The form itself says what a person lacks.
        case path if scope["method"] == "POST" and path.startswith((ADD_PATH, PROPOSE_PATH)):
            return READ, UPLOAD
        case _:
            return find_required_scopes(scope)


def _find_navigation(routes: list[BaseRoute]) -> tuple[NavigationLink, ...]:
    paths = {route.name: route.path for route in routes if isinstance(route, Route)}
    return tuple(
        NavigationLink(title, paths[name], _NEEDED.get(name, ""))
        for name, title in _NAVIGATION.items()
        if name in paths
    )


def build_web(
    library: SkillLibrary,
    events: EventStore | None,
    key_file: Path,
    local_events: LocalEvents | None = None,
) -> WebPart | None:
    """Build the pages as configured; None if disabled.

    Args:
        library: The unrestricted library.
        events: Data of the report; None if none are kept.
        key_file: Default file of the cookie key.
        local_events: Data of the report without `events`, for the user of this machine.

    Raises:
        ConfigError: The settings of the pages, or of uploads, cannot be used.
    """
    if not library.config.web.enabled:
        return None
    sign_in = choose_sign_in(library.config, key_file, show_notice)
    routes = sign_in.routes if isinstance(sign_in, OpenIdSignIn) else []
    site = create_site(library, events, routes, open_uploads(library), local_events)
    if sign_in is None:
        return WebPart(site, None, find_page_scopes)
    takes_tokens = bool(library.config.http.auth.issuer)
    visitors = partial(BrowserMiddleware, sign_in=sign_in, takes_tokens=takes_tokens)
    return WebPart(site, visitors, find_page_scopes)
