"""Usage report, as a page.

Rule: it contains people's tasks, so it needs a scope of its own.
"""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from anyio.from_thread import check_cancelled
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.features.effect.evidence import find_evidence
from skills_mcp.features.report.figure_queries import Aggregation, derive_current_skills
from skills_mcp.features.report.report_page import (
    MAX_ROWS,
    SkillLinks,
    render_figures,
    render_style,
)
from skills_mcp.features.report.report_text import (
    derive_report_notes,
    describe_effects,
    restrict_report,
    select_area,
)
from skills_mcp.features.report.usage_report import Span, UsageReport
from skills_mcp.features.web.browsing import derive_title
from skills_mcp.features.web.page import (
    SiteState,
    get_site_state,
    get_visible_library,
    render_template,
)
from skills_mcp.library import Snapshot
from skills_mcp.processes.memory import gc_paused
from skills_mcp.skills.access import PRINCIPAL_KEY, REPORT, Access, Principal

if TYPE_CHECKING:
    from skills_mcp.features.report.database_report import ReportLimits

REPORT_SPANS = (7, 30, 90, 365)
"""Selectable days on the page."""

_NOT_PERMITTED = (
    f"The report is for those who sign in with the scope {REPORT}. Ask the operator of "
    "this server for it, and sign in again"
)
_NO_EVENTS = "No events are kept here: the operator has set events.enabled to false"

_DAYS = 30

_MAX_AREAS = 20

_MAX_COUNTED = 20_000  # about half a second


def show_report(request: Request) -> Response:
    """Show the report for the days and area in the query string.

    A caller with restricted visibility gets the totals, and no event of a hidden skill.

    Raises:
        HTTPException: The caller may not see it, or no events are kept.
    """
    with gc_paused():  # the rows of a report are many, and go at once
        return _render(request)


def _render(request: Request) -> Response:
    spans = {str(days): days for days in REPORT_SPANS}
    days = spans.get(request.query_params.get("days", ""), _DAYS)
    area = request.query_params.get("area", "")
    around = request.query_params.get("around", "").strip()
    max_gaps = None if area else MAX_ROWS + 1  # the page says that there are more
    try:
        report, fault = load_visible_report(request, days, around, max_gaps), ""
    except InvalidArgumentsError as error:
        report, fault = load_visible_report(request, days, "", max_gaps), str(error)
    areas = sorted({area_entry.skill.partition("/")[0] for area_entry in report.skills})
    notes = derive_report_notes(report, without_skills="")
    notes += describe_effects(report, find_evidence(get_visible_library(request).snapshot))
    if area:
        report = select_area(report, area)
    return render_template(
        request,
        "report.html",
        figures=render_figures(report, notes, _find_links(request)),
        report=report,
        days=days,
        spans=REPORT_SPANS,
        area=area,
        areas=areas[:_MAX_AREAS],
        around=around,
        fault=fault,
        is_whole=_sees_everything(request),
        is_empty=not report.counts.events,
        begin=_compose_setup_help(request, report, days),
    )


def _find_links(request: Request) -> SkillLinks:
    index = get_visible_library(request).snapshot.index

    def find_title(path: str) -> str:
        skill = index.get(path)
        return derive_title(skill.path, skill.body) if skill else ""

    return SkillLinks(find_title, f"{get_site_state(request).prefix}/skills/")


def _compose_setup_help(request: Request, report: UsageReport, days: int) -> dict[str, object]:
    """Setup instructions for a report without events."""
    config = get_visible_library(request).config
    newest = report.counts.newest or report.until
    reach = (report.until - newest).days
    base = config.http.base_url or str(request.base_url)
    local = get_site_state(request).local_events
    return {
        "endpoint": "" if local else f"{base.rstrip('/')}/events",
        "settings": local.settings if local else None,
        "needs_token": bool(config.events.ingest_token_file or config.http.auth.issuer),
        "counts_own": config.analytics.enabled,
        "longer": next((span_days for span_days in REPORT_SPANS if days <= reach < span_days), 0),
    }


def show_report_style(_: Request) -> Response:
    return Response(render_style(), media_type="text/css")


def _sees_everything(request: Request) -> bool:
    is_scoped = _find_access(request).is_scoped
    return get_visible_library(request).sees_everything and not is_scoped


def _find_access(request: Request) -> Access:
    principal: Principal = request.scope[PRINCIPAL_KEY]
    if not principal.may(REPORT):
        raise HTTPException(403, _NOT_PERMITTED)
    return principal.access


def load_visible_report(
    request: Request, days: int, around: str, max_gaps: int | None = None
) -> UsageReport:
    """Load the report, narrowed to the caller's visibility.

    Raises:
        HTTPException: The caller may not see it, or no events are kept.
        InvalidArgumentsError: `around` is no commit of any event.
    """
    from skills_mcp.features.report.database_report import ReportLimits

    is_whole, site = _sees_everything(request), get_site_state(request)
    snapshot = get_visible_library(request).snapshot
    if site.events is None and site.local_events is None:
        raise HTTPException(404, _NO_EVENTS)
    if site.events is None and around:
        raise InvalidArgumentsError("around: needs a database of events.")
    limits = ReportLimits(_MAX_COUNTED, max_gaps, check_cancelled)
    load = partial(load_whole_report, site, snapshot, days, limits)
    if not is_whole and site.events is not None:
        return restrict_report(load(), {skill.path for skill in snapshot.index})
    return load(around)


def load_whole_report(
    site: SiteState, snapshot: Snapshot, days: int, limits: "ReportLimits", around: str = ""
) -> UsageReport:
    """Load the report of all callers, from the database or else from this machine.  Blocking."""
    from skills_mcp.features.report.database_report import load_report

    last = datetime.now(UTC).date()
    span = Span(last - timedelta(days=days - 1), last)
    current = derive_current_skills(snapshot)
    if site.events is not None:
        return load_report(site.events, span, current, around, limits=limits)
    aggregation = Aggregation(span)
    for event in site.local_events.events() if site.local_events else ():
        limits.check_cancelled()
        aggregation.add(event)
    return aggregation.derive(current)
