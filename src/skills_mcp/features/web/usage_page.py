"""The report, as a page and for programs.

Rule: it tells what people asked for, so it is for callers with a scope of its own.
"""

from datetime import UTC, datetime, timedelta
from functools import partial

from anyio.from_thread import check_cancelled
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.features.report import (
    Span,
    UsageReport,
    derive_current_skills,
    derive_notes,
    render_report,
)
from skills_mcp.features.report.report_page import (
    MOST_ROWS,
    render_figures,
    render_style,
)
from skills_mcp.features.report.report_text import narrow_report, pick_area
from skills_mcp.features.web.page import library_of, render_page, state_of
from skills_mcp.processes.memory import garbage_collector_paused
from skills_mcp.skills.access import EVERYTHING, Access
from skills_mcp.skills.principal import PRINCIPAL_KEY, REPORT, Principal

SPANS = (7, 30, 90, 365)
"""Days that the page offers."""

MOST_DAYS = 400
"""Days that a program can ask for."""

_PARAMETERS = frozenset({"days", "area", "around"})

_NOT_PERMITTED = (
    f"The report is for those who sign in with the scope {REPORT}. Ask the operator of "
    "this server for it, and sign in again"
)
_NO_EVENTS = "No events are kept here: the operator has set events.enabled to false"

_DAYS = 30

_MOST_AREAS = 20

_MOST_COUNTED = 20_000  # about half a second


def show_report(request: Request) -> Response:
    """Return the report of the days and the area that the address asks for.

    A caller from whom skills are hidden gets the numbers, and names of the others.

    Raises:
        HTTPException: The caller may not see it, or no events are kept.
    """
    with garbage_collector_paused():  # the rows of a report are many, and go at once
        return _render(request)


def _render(request: Request) -> Response:
    days = _parse_days(request.query_params.get("days", ""))
    area = request.query_params.get("area", "")
    around = request.query_params.get("around", "").strip()
    most_gaps = None if area else MOST_ROWS + 1  # the page says that there are more
    is_whole = _find_access(request) == EVERYTHING
    try:
        report, fault = _load(request, days, around, most_gaps), ""
    except InvalidArgumentsError as error:
        report, fault = _load(request, days, "", most_gaps), str(error)
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
        is_empty=not report.counts.events,
        begin=_tell_how_to_begin(request, report, days),
    )


def _tell_how_to_begin(
    request: Request, report: UsageReport, days: int
) -> dict[str, object]:
    """Return what a page without an event says of how to get one."""
    config = library_of(request).config
    newest = report.counts.newest or report.until
    reach = (report.until - newest).days
    base = config.http.base_url or str(request.base_url)
    return {
        "endpoint": f"{base.rstrip('/')}/events",
        "needs_token": bool(config.events.ingest_token_file or config.http.auth.issuer),
        "counts_own": config.analytics.enabled,
        "longer": next((each for each in SPANS if days <= reach < each), 0),
    }


def send_report(request: Request) -> Response:
    """Return the same for programs.

    Raises:
        HTTPException: The caller may not see it, or no events are kept.
        InvalidArgumentsError: A parameter cannot be read.
    """
    given = request.query_params
    if unknown := sorted(given.keys() - _PARAMETERS):
        raise InvalidArgumentsError(
            f"{unknown[0][:50]!r} is no parameter. There are: "
            f"{', '.join(sorted(_PARAMETERS))}."
        )
    days, area = given.get("days", str(_DAYS)), given.get("area", "")
    if not (days.isascii() and days.isdecimal() and 0 < int(days[:9]) <= MOST_DAYS):
        raise InvalidArgumentsError(f"days: must be a number from 1 to {MOST_DAYS}.")
    with garbage_collector_paused():
        report = _load(request, int(days[:9]), given.get("around", "").strip())
        picked = pick_area(report, area) if area else report
        notes = derive_notes(report, without_skills="")
        return JSONResponse({**render_report(picked), "notes": list(notes)})


def show_report_style(_: Request) -> Response:
    """Return the stylesheet of the figures."""
    return Response(render_style(), media_type="text/css")


def _parse_days(text: str) -> int:
    return int(text) if text in {str(each) for each in SPANS} else _DAYS


def _find_access(request: Request) -> Access:
    principal: Principal = request.scope[PRINCIPAL_KEY]
    if not principal.may(REPORT):
        raise HTTPException(403, _NOT_PERMITTED)
    return principal.access


def _load(
    request: Request, days: int, around: str, most_gaps: int | None = None
) -> UsageReport:
    """Return the report as the caller may see it.

    Raises:
        HTTPException: The caller may not see it, or no events are kept.
        InvalidArgumentsError: `around` is no commit that an event names.
    """
    from skills_mcp.features.report.database_report import (
        PageLimits,
        UnknownCommitError,
        load_report,
    )

    access, store = _find_access(request), state_of(request).events
    if store is None:
        raise HTTPException(404, _NO_EVENTS)
    last = datetime.now(UTC).date()
    span = Span(last - timedelta(days=days - 1), last)
    snapshot = library_of(request).snapshot
    current = derive_current_skills(snapshot)
    limits = PageLimits(_MOST_COUNTED, most_gaps, check_cancelled)
    load = partial(load_report, store, span, current, limits=limits)
    if access != EVERYTHING:
        return narrow_report(load(), {skill.path for skill in snapshot.index})
    try:
        return load(around)
    except UnknownCommitError as error:
        raise InvalidArgumentsError(str(error)) from error
