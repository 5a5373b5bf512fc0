"""The report: what agents asked for, what they got, and what servers serve."""

from datetime import UTC, datetime, timedelta

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from skills_mcp.identity.access import EVERYTHING
from skills_mcp.identity.principal import PRINCIPAL_KEY, Principal
from skills_mcp.usage import Span, UsageReport, derive_current_skills, derive_notes
from skills_mcp.usage.report_page import render_figures, render_style
from skills_mcp.usage.report_text import narrow_report, pick_area
from skills_mcp.web.page import library_of, render_page, state_of

SPANS = (7, 30, 90, 365)
"""Days that the page offers."""

_DAYS = 30

_MOST_AREAS = 20


def show_report(request: Request) -> Response:
    """Return the report of the days and the area that the address asks for.

    A caller from whom skills are hidden gets the numbers, and names of the others.
    """
    days = _parse_days(request.query_params.get("days", ""))
    area = request.query_params.get("area", "")
    around = request.query_params.get("around", "").strip()
    principal: Principal = request.scope[PRINCIPAL_KEY]
    is_whole = principal.access == EVERYTHING
    report, fault = _load(request, days, around if is_whole else "")
    if not is_whole:
        seen = {skill.path for skill in library_of(request).snapshot.index}
        report = narrow_report(report, seen)
    areas = sorted({each.skill.partition("/")[0] for each in report.skills})
    notes = derive_notes(report, without_skills="") if is_whole else ()
    if area:
        report = pick_area(report, area)
    return render_page(
        request,
        "report.html",
        figures=render_figures(report, notes),
        report=report,
        days=days,
        spans=SPANS,
        area=area,
        areas=areas[:_MOST_AREAS],
        around=around,
        fault=fault,
        is_whole=is_whole,
    )


def show_report_style(_: Request) -> Response:
    """Return the stylesheet of the figures."""
    return Response(render_style(), media_type="text/css")


def _parse_days(text: str) -> int:
    return int(text) if text in {str(each) for each in SPANS} else _DAYS


def _load(request: Request, days: int, around: str) -> tuple[UsageReport, str]:
    """Return the report, and why it is without the effect of a commit, if it is."""
    from skills_mcp.usage.database_report import UnknownCommitError, load_report

    store = state_of(request).events
    if store is None:
        raise HTTPException(404, "Events are off: set events.enabled to true.")
    last = datetime.now(UTC).date()
    span = Span(last - timedelta(days=days - 1), last)
    current = derive_current_skills(library_of(request).snapshot)
    try:
        return load_report(store, span, current, around), ""
    except UnknownCommitError as error:
        return load_report(store, span, current), str(error)
