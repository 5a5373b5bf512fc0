"""Home page: counts with trend, changes, use and gaps.

Rule: what is not known is called so, and is no zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response

from skills_mcp.features.history.source_history import (
    RECENT_DAYS,
    SkillChange,
    SourceLogs,
    may_see_history,
)
from skills_mcp.features.report.database_report import WEEKS, ReportLimits
from skills_mcp.features.web import browsing
from skills_mcp.features.web.catalogue_page import show_catalogue
from skills_mcp.features.web.page import (
    BackgroundCache,
    SiteState,
    find_counts,
    find_logs,
    find_uses,
    get_visible_library,
    render_template,
)
from skills_mcp.features.web.skill_page import describe_analytics_off, describe_missing_use
from skills_mcp.features.web.usage_page import load_whole_report
from skills_mcp.library import LibraryView, derive_commit_url
from skills_mcp.skills.access import PRINCIPAL_KEY, REPORT, Principal
from skills_mcp.skills.model import SkillPath

_MAX_ROWS = 8

_UNHEARD = "Not known: no event has arrived in 30 days."
_GAP_DAYS = 30

_OLD_DAYS = 180
"""Without a change, after which a skill should be read again."""


@dataclass(frozen=True, slots=True)
class HomeFigure:
    """A count with its trend; a value of None is not known."""

    label: str
    value: int | None
    note: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class OldSkill:
    path: str
    title: str
    reason: str
    """Why it should be read again."""
    owner: str
    """Empty without an owner."""
    author: str
    """Of the last change; empty if unknown."""


@dataclass(frozen=True, slots=True)
class TaskGaps:
    """Tasks that found nothing, or why none are shown."""

    tasks: Sequence[tuple[str, int]] = ()
    reason: str = ""


def show_home(request: Request) -> Response:
    """Show the home page; with a query, the catalogue, whose address this was."""
    if request.query_params:
        return show_catalogue(request)
    library, logs = get_visible_library(request), find_logs(request)
    wanted = browsing.BrowseRequest(limit=_MAX_ROWS, uses=find_uses(request), logs=logs)
    by_change = browsing.browse(library.snapshot, replace(wanted, sort="changed")).skills
    since = datetime.now(UTC).date() - timedelta(days=RECENT_DAYS)
    used = browsing.browse(library.snapshot, replace(wanted, sort="used")).skills
    return render_template(
        request,
        "home.html",
        figures=_list_figures(request, library, logs),
        changes=_list_changes(library, logs),
        changed=[skill for skill in by_change if skill.changed and skill.changed >= since],
        reasons=sorted({log.reason for log in (logs or {}).values() if log.reason}),
        is_reading=logs is None,
        used=[skill for skill in used if skill.used],
        missing_use="" if wanted.uses is not None else describe_missing_use(request),
        gaps=_find_gaps(request),
        old=_list_old(library, logs, wanted.uses),
        old_days=_OLD_DAYS,
    )


def _list_figures(
    request: Request, library: LibraryView, logs: SourceLogs | None
) -> list[HomeFigure]:
    facets = browsing.open_facets(library.snapshot)
    changed = [moment for moment in facets.maintenance(logs).changed if moment]
    week_ago = datetime.now(UTC) - timedelta(days=RECENT_DAYS)
    lately = sum(moment >= week_ago for moment in changed)
    known = f"of {len(changed):,} whose last change is known"
    owned = sum(bool(owner) for owner in facets.maintenance(logs).owners)
    return [
        HomeFigure("Skills", len(facets.paths), f"{owned:,} with an owner", "/catalogue"),
        HomeFigure(
            "Changed in 7 days",
            lately if changed else None,
            known if changed else "",
            "/catalogue?sort=changed",
        ),
        _count_uses(request, facets.paths),
    ]


def _count_uses(request: Request, paths: Sequence[str]) -> HomeFigure:
    """Uses of the visible skills in the last week, against the week before."""
    label, counts = "Given to agents in 7 days", find_counts(request)
    if counts is None:
        return HomeFigure(label, None, "see below")
    weeks = [counts.skills[path].weeks for path in paths if path in counts.skills]
    now, before = (sum(week[-nth] for week in weeks) for nth in (1, 2))
    is_comparable = counts.since is not None and counts.since <= counts.week(WEEKS - 2)
    trend = f"{now - before:+,} against the 7 days before" if is_comparable else ""
    return HomeFigure(label, now, trend or f"counted since {counts.since}")


def _list_changes(library: LibraryView, logs: SourceLogs | None) -> list[SkillChange]:
    """Commits of the week with differences, where no skill is hidden from the caller."""
    if not may_see_history(library):
        return []
    forges = library.config.web.forges
    found = [
        SkillChange(past, derive_commit_url(log.url, past.commit, forges))
        for log in (logs or {}).values()
        for past in log.recent
        if past.lines
    ]
    return sorted(found, key=lambda change: change.past.at, reverse=True)[:_MAX_ROWS]


def _list_old(
    library: LibraryView, logs: SourceLogs | None, uses: Mapping[str, int] | None
) -> list[OldSkill]:
    """Skills past their review, then those whose last change is known and long ago."""
    snapshot, today = library.snapshot, datetime.now(UTC).date()
    found = browsing.open_facets(snapshot).maintenance(logs)
    rows = zip(snapshot.index.listed, found.changed, found.owners, found.authors, strict=True)
    overdue: list[tuple[str, SkillPath, str, str, str]] = []
    old: list[tuple[str, SkillPath, str, str, str]] = []
    for row, at, owner, author in rows:
        review_by = row.lifecycle.review_by
        if review_by and review_by < today.isoformat():
            overdue.append((review_by, row.path, f"was due {review_by}", owner, author))
        elif at and not review_by and at.date() < today - timedelta(days=_OLD_DAYS):
            is_unused = uses is not None and not uses.get(row.path)
            reason = f"{at.date()}{', not used in 30 days' if is_unused else ''}"
            old.append((at.isoformat(), row.path, reason, owner, author))
    ordered = (*sorted(overdue), *sorted(old))[:_MAX_ROWS]
    bodies = (snapshot.index.require(path).body for _, path, *_ in ordered)
    return [
        OldSkill(path, browsing.derive_title(path, body), reason, owner, author)
        for (_, path, reason, owner, author), body in zip(ordered, bodies, strict=True)
    ]


def load_gaps(site: SiteState) -> TaskGaps:
    """Load the unmatched tasks of all callers.  Blocking."""
    if site.events is None and site.local_events is None:
        return TaskGaps(reason="Not known: this server keeps no events.")
    limits = ReportLimits(max_gaps=_MAX_ROWS)
    report = load_whole_report(site, site.library.view().snapshot, _GAP_DAYS, limits)
    if not report.counts.events:
        return TaskGaps(reason=_UNHEARD)
    tasks = [(gap.task or "A task whose words were not recorded", gap.count) for gap in report.gaps]
    return TaskGaps(tasks[:_MAX_ROWS])


def _find_gaps(request: Request) -> TaskGaps:
    """Unmatched tasks, for those who may read the report."""
    principal: Principal = request.scope[PRINCIPAL_KEY]
    if not principal.may(REPORT):
        return TaskGaps(reason=f"Tasks are shown to those who have the scope {REPORT}.")
    cache: BackgroundCache[TaskGaps] = request.app.state.gaps
    found = cache.get_stale()
    if cache.failure:
        return TaskGaps(reason="Not known: the database of events does not answer.")
    if found is None:
        return TaskGaps(reason="Being counted; reload the page in a moment.")
    reason = describe_analytics_off(request) if found.reason == _UNHEARD else ""
    return replace(found, reason=reason or found.reason)
