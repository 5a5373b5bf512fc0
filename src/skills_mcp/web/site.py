"""The pages and REST as one application, which another one lets callers into."""

from pathlib import Path
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from skills_mcp.analytics.collector.event_store import EventStore
from skills_mcp.errors import SkillsError
from skills_mcp.library import SkillLibrary
from skills_mcp.web.catalogue_page import show_catalogue
from skills_mcp.web.page import NavigationLink, SiteState
from skills_mcp.web.refused_page import (
    refuse_address,
    refuse_after_failure,
    refuse_skills_error,
)
from skills_mcp.web.rest import rest_routes
from skills_mcp.web.security_headers import SecurityHeaders
from skills_mcp.web.skill_page import show_skill
from skills_mcp.web.usage_page import show_report, show_report_style

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


def create_site(library: SkillLibrary, events: EventStore | None = None) -> ASGIApp:
    """Return the pages.

    Each request has to bring its caller in the scope of ASGI, under `PRINCIPAL_KEY`.

    Args:
        library: What is shown, and to each caller only what that caller may see.
        events: What the report is made of; None if none are kept.
    """
    routes = _routes(has_report=events is not None)
    site = Starlette(
        routes=routes,
        middleware=[Middleware(SecurityHeaders)],
        exception_handlers={
            HTTPException: refuse_address,
            SkillsError: refuse_skills_error,
            Exception: refuse_after_failure,
        },
    )
    prefix = urlsplit(library.config.http.base_url).path.rstrip("/")
    site.state.site = SiteState(library, _find_navigation(routes), prefix, events)
    return site


def _routes(*, has_report: bool) -> list[BaseRoute]:
    report = [
        Route("/report", show_report, name="report"),
        Route("/report.css", show_report_style),
    ]
    return [
        Route("/", show_catalogue, name="catalogue"),
        Route("/skills/{path:path}", show_skill, name="skill"),
        *rest_routes(),
        *(report if has_report else ()),
        Mount("/static", StaticFiles(directory=_STATIC), name="static"),
    ]


def _find_navigation(routes: list[BaseRoute]) -> tuple[NavigationLink, ...]:
    paths = {route.name: route.path for route in routes if isinstance(route, Route)}
    titles = _NAVIGATION.items()
    return tuple(NavigationLink(title, paths[n]) for n, title in titles if n in paths)
