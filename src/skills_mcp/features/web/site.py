"""ASGI application of the pages and the REST API, with its thread pool and headers.

Rule: a page is not rendered for a disconnected client, and takes no thread from others.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from skills_mcp.errors import SkillsError
from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.events.collector.skill_counts import (
    CatalogueCounts,
    count_skills,
)
from skills_mcp.features.authoring.intake.uploads import Uploads
from skills_mcp.features.web.add_page import add_routes
from skills_mcp.features.web.catalogue_page import show_catalogue
from skills_mcp.features.web.notice_page import notice_route
from skills_mcp.features.web.page import NavigationLink, SiteState
from skills_mcp.features.web.page_threads import PageThreads
from skills_mcp.features.web.problems_page import show_problems
from skills_mcp.features.web.refused_page import (
    handle_http_error,
    handle_internal_error,
    handle_skills_error,
    show_notice,
)
from skills_mcp.features.web.rest import rest_routes
from skills_mcp.features.web.security_headers import SecurityHeaders
from skills_mcp.features.web.skill_page import show_skill
from skills_mcp.features.web.sources_page import show_sources
from skills_mcp.features.web.trial_page import show_trial
from skills_mcp.features.web.upload_desk import UploadQueue
from skills_mcp.features.web.upload_install import upload_routes
from skills_mcp.features.web.usage_page import show_report, show_report_style
from skills_mcp.features.web.well_known import WELL_KNOWN_PATHS, well_known_routes
from skills_mcp.library import SkillLibrary
from skills_mcp.processes.remembered import BackgroundCache
from skills_mcp.skills.principal import REPORT

# A count reads the events of a quarter.
_COUNTED_SECONDS = 5 * 60.0

_STATIC = Path(__file__).parent / "static"

# In this order, and each only if there is a route of its name.
_NAVIGATION = {
    "catalogue": "Catalogue",
    "try": "Try a task",
    "problems": "Problems",
    "sources": "Sources",
    "report": "Report",
    "add": "Add",
}

_NEEDED = {"report": REPORT}

# They read every skill, or the events of a year.
_EXPENSIVE = frozenset({*WELL_KNOWN_PATHS, "/report", "/api/report"})


def create_site(
    library: SkillLibrary,
    events: EventStore | None = None,
    sign_in: Sequence[BaseRoute] = (),
    uploads: Uploads | None = None,
) -> ASGIApp:
    """Build the application.

    The ASGI scope of each request needs its caller under `PRINCIPAL_KEY`.

    Args:
        library: The unrestricted library; requests are limited to the caller's
        visibility.
        events: Data of the report; None if none are kept.
        sign_in: Routes for sign-in and sign-out.
        uploads: Accepts new skills; None if uploads are off.
    """
    added = [*add_routes(), *upload_routes()] if uploads else []
    routes = [*sign_in, *added, *_routes(has_report=events is not None)]
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
    site.state.site = SiteState(
        library,
        _find_navigation(routes),
        prefix,
        events,
        _remember_counts(events),
        UploadQueue(uploads) if uploads else None,
    )
    return site


def _remember_counts(
    events: EventStore | None,
) -> BackgroundCache[CatalogueCounts] | None:
    if events is None:
        return None
    return BackgroundCache(lambda: count_skills(events, datetime.now(UTC).date()), _COUNTED_SECONDS)


def _routes(*, has_report: bool) -> list[BaseRoute]:
    report = [
        Route("/report", show_report, name="report"),
        Route("/report.css", show_report_style),
    ]
    return [
        Route("/", show_catalogue, name="catalogue"),
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


def _find_navigation(routes: list[BaseRoute]) -> tuple[NavigationLink, ...]:
    paths = {route.name: route.path for route in routes if isinstance(route, Route)}
    titles = _NAVIGATION.items()
    return tuple(
        NavigationLink(title, paths[name], _NEEDED.get(name, ""))
        for name, title in titles
        if name in paths
    )
