"""Home page, problems with their remedies, and sources.

Rule: what is not known is called so, and is no zero.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response

from skills_mcp.errors import EventStoreError, InvalidArgumentsError
from skills_mcp.features.history.source_history import (
    SkillChange,
    SourceLogs,
    find_first_recent_day,
    may_see_history,
)
from skills_mcp.features.report.database_report import (
    WEEKS,
    CatalogueCounts,
    ReportLimits,
    SkillCounts,
)
from skills_mcp.features.report.report_page import MAX_ROWS
from skills_mcp.features.report.report_text import describe_share, select_gaps
from skills_mcp.features.report.usage_report import Fleet
from skills_mcp.features.web import browsing
from skills_mcp.features.web.catalogue_page import FacetLink, show_catalogue
from skills_mcp.features.web.page import (
    BackgroundCache,
    SiteState,
    find_counts,
    find_logs,
    find_uses,
    get_site_state,
    get_visible_library,
    render_template,
)
from skills_mcp.features.web.skill_page import describe_analytics_off, describe_missing_use
from skills_mcp.features.web.usage_page import load_whole_report
from skills_mcp.library import LibraryView, SourceState, derive_commit_url
from skills_mcp.library.answers import render_error
from skills_mcp.skills.access import PRINCIPAL_KEY, REPORT, Principal
from skills_mcp.skills.model import Level, Problem, SkillPath
from skills_mcp.text.rendering import describe_age

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
    """Tasks that found nothing, or why none are shown; the words are empty if not recorded."""

    tasks: Sequence[tuple[str, int]] = ()
    reason: str = ""


def show_home(request: Request) -> Response:
    """Show the home page; with a query, the catalogue, whose address this was."""
    if request.query_params:
        return show_catalogue(request)
    library, logs = get_visible_library(request), find_logs(request)
    facets = browsing.open_facets(library.snapshot)
    wanted = browsing.BrowseRequest(limit=_MAX_ROWS, uses=find_uses(request), logs=logs)
    by_change = browsing.browse(library.snapshot, replace(wanted, sort="changed")).skills
    since = find_first_recent_day()
    # Of other sources, this person is not even told that there are any.
    shown = (facets.find_log(n, logs) for n in range(len(facets.paths)))
    used = browsing.browse(library.snapshot, replace(wanted, sort="used")).skills
    return render_template(
        request,
        "home.html",
        figures=_list_figures(request, library, logs),
        changes=_list_changes(library, logs),
        changed=[skill for skill in by_change if skill.changed and skill.changed >= since],
        reasons=sorted({log.reason for log in shown if log and log.reason}),
        is_reading=logs is None,
        used=[skill for skill in used if skill.used],
        missing_use="" if wanted.uses is not None else describe_missing_use(request),
        gaps=_find_gaps(request),
        old=_list_old(library, logs, find_counts(request)),
        old_days=_OLD_DAYS,
    )


def _list_figures(
    request: Request, library: LibraryView, logs: SourceLogs | None
) -> list[HomeFigure]:
    facets = browsing.open_facets(library.snapshot)
    changed = [moment for moment in facets.maintenance(logs).changed if moment]
    lately = sum(moment.date() >= find_first_recent_day() for moment in changed)
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
        *_count_uses(request, facets.paths),
    ]


def _count_uses(request: Request, paths: Sequence[str]) -> Iterator[HomeFigure]:
    """Uses of the visible skills in the last week, against the week before, and ratings."""
    label, counts = "Given to agents in 7 days", find_counts(request)
    if counts is None:
        yield HomeFigure(label, None, "see below")
        return
    skills = [counts.skills[path] for path in paths if path in counts.skills]
    now, before = (sum(skill.weeks[-nth] for skill in skills) for nth in (1, 2))
    is_comparable = counts.since is not None and counts.since <= counts.week(WEEKS - 2)
    trend = f"{now - before:+,} against the 7 days before" if is_comparable else ""
    yield HomeFigure(label, now, trend or f"counted since {counts.since}")
    useful = sum(skill.useful for skill in skills)
    judged = useful + sum(skill.not_useful for skill in skills)
    share = f"{describe_share(useful, judged)} useful" if judged else ""
    yield HomeFigure(f"Ratings in {WEEKS} weeks", judged, share)


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
    library: LibraryView, logs: SourceLogs | None, counts: CatalogueCounts | None
) -> list[OldSkill]:
    """Skills past their review, then those whose last change is known and long ago."""
    snapshot, today = library.snapshot, datetime.now(UTC).date()
    found = browsing.open_facets(snapshot).maintenance(logs)
    rows = zip(snapshot.index.listed, found.changed, found.owners, found.authors, strict=True)
    dated: list[tuple[bool, str, SkillPath, str, str, str]] = []
    for row, at, owner, author in rows:
        review_by = row.lifecycle.review_by
        if review_by and review_by < today.isoformat():
            dated.append((False, review_by, row.path, f"was due {review_by}", owner, author))
        elif at and not review_by and at.date() < today - timedelta(days=_OLD_DAYS):
            is_unused = counts and not counts.skills.get(row.path, SkillCounts()).served
            unused = f", not used since {counts.since}" if counts and is_unused else ""
            dated.append((True, at.isoformat(), row.path, f"{at.date()}{unused}", owner, author))
    find = snapshot.index.require
    return [
        OldSkill(path, browsing.derive_title(path, find(path).body), reason, owner, author)
        for _, _, path, reason, owner, author in sorted(dated)[:_MAX_ROWS]
    ]


def load_gaps(site: SiteState) -> TaskGaps:
    """Load the unmatched tasks of all callers.  Blocking."""
    if site.events is None and site.local_events is None:
        return TaskGaps(reason="Not known: this server keeps no events.")
    limits = ReportLimits(max_gaps=MAX_ROWS)  # hashed ones may come first
    report = load_whole_report(site, site.library.view().snapshot, _GAP_DAYS, limits)
    if not report.counts.events:
        return TaskGaps(reason=_UNHEARD)
    tasks = [(gap.task, gap.count) for gap in select_gaps(report)[:_MAX_ROWS]]
    unrecorded = report.unrecorded.count
    return TaskGaps([*tasks, ("", unrecorded)] if unrecorded else tasks)


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


MAX_LISTED_PROBLEMS = 500
"""Per page; `skills-mcp tree --problems` lists all."""

_LEVELS: Mapping[str, Level] = {choice: choice for choice in get_args(Level)}

_LEVEL_TITLES: Mapping[Level, str] = {
    "error": "Errors: not served",
    "warning": "Warnings: a part is ignored",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemPage:
    """A page of problems with counts by level and source."""

    listed: tuple[tuple[Problem, str], ...]
    """Each with its file as its source calls it."""
    total: int
    """All matches; only the first are listed."""
    by_level: Mapping[Level, int]
    by_mount: Mapping[str, int]


def filter_problems(
    problems: Sequence[Problem],
    *,
    mount: str | None = None,
    level: Level | None = None,
    limit: int,
) -> ProblemPage:
    of_mount = [problem for problem in problems if mount is None or problem.mount == mount]
    of_level = [problem for problem in problems if level is None or problem.level == level]
    fitting = [problem for problem in of_mount if level is None or problem.level == level]
    return ProblemPage(
        listed=tuple((problem, _strip_mount(problem)) for problem in fitting[:limit]),
        total=len(fitting),
        by_level=Counter(problem.level for problem in of_mount),
        by_mount=Counter(problem.mount for problem in of_level),
    )


def _strip_mount(problem: Problem) -> str:
    return problem.file.removeprefix(problem.mount).removeprefix("/") or "."


def show_problems(request: Request) -> Response:
    """Show the problems, filtered by the query string.

    Raises:
        InvalidArgumentsError: There is no such level.
    """
    library = get_visible_library(request)
    source = request.query_params.get("source", "")
    level_name = request.query_params.get("level", "")
    if level_name and level_name not in _LEVELS:
        raise InvalidArgumentsError(f"level: is {level_name!r}. Use error or warning.")
    level, states = _LEVELS.get(level_name), library.states()
    found = filter_problems(
        library.list_problems(),
        mount=source.removeprefix(browsing.TOP) if source else None,
        level=level,
        limit=MAX_LISTED_PROBLEMS,
    )
    return render_template(
        request,
        "problems.html",
        found=found,
        groups=_derive_filters(found, source, level_name),
        is_narrowed=bool(source or level),
        lacking=[state.name for state in states if state.synced_at is None],
        is_told=library.access.is_unlimited,
    )


def _derive_filters(
    found: ProblemPage, source: str, level: str
) -> list[tuple[str, list[FacetLink]]]:
    """Filter links; each preserves the other filter."""
    levels = [
        FacetLink(
            title,
            found.by_level.get(name, 0),
            level == name,
            {"source": source, "level": "" if level == name else name},
        )
        for name, title in _LEVEL_TITLES.items()
        if found.by_level.get(name) or level == name
    ]
    mounts = {mount or browsing.TOP: count for mount, count in found.by_mount.items()}
    if source:
        mounts.setdefault(source, 0)
    sources = [
        FacetLink(
            "Top of the tree" if mount == browsing.TOP else mount,
            count,
            source == mount,
            {"source": "" if source == mount else mount, "level": level},
        )
        for mount, count in sorted(mounts.items())
    ]
    return [("Severity", levels), ("Source", sources)]


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SourceSummary:
    place: str
    name: str
    kind: str
    condition: str
    """`good`, `warn` or `bad`."""
    says: str
    facts: tuple[tuple[str, str], ...]
    error: str


def show_sources(request: Request) -> Response:
    """Show the sources with a skill visible to the caller."""
    library = get_visible_library(request)
    now = datetime.now(UTC)
    states = library.states()
    # Other servers may serve sources that the caller does not know of.
    may_see_fleet = library.access.is_unlimited
    fleet, is_unknown = _load_fleet(request, now) if may_see_fleet else (None, False)
    return render_template(
        request,
        "sources.html",
        sources=[_summarise(state, now) for state in states],
        fleet=fleet,
        is_fleet_unknown=is_unknown,
        served_here={state.commit for state in states if state.commit},
    )


def _load_fleet(request: Request, now: datetime) -> tuple[Fleet | None, bool]:
    """Latest heartbeats of all servers, and whether the query failed."""
    from skills_mcp.features.report.figure_queries import FLEET_DAYS, derive_fleet

    store = get_site_state(request).events
    if store is None:
        return None, False
    try:
        return derive_fleet(store.read_fleet(now - timedelta(days=FLEET_DAYS))), False
    except EventStoreError as error:
        logger.error("No other servers can be shown: %s", error)  # noqa: TRY400 - no trace
        return None, True


def _summarise(state: SourceState, now: datetime) -> SourceSummary:
    condition, says = _classify(state)
    is_git = state.mode == "git"
    return SourceSummary(
        place=f"at {state.mount}" if state.mount else "at the top of the tree",
        # Where a folder is on the disk of the server is not shown.
        name=state.name if is_git else PurePath(state.name).name or state.name,
        kind="Repository" if is_git else "Folder",
        condition=condition,
        says=says,
        facts=tuple(_list_facts(state, now)),
        error=render_error(state.error)["message"] if state.error else "",
    )


def _classify(state: SourceState) -> tuple[str, str]:
    """Classify a source: condition and text; the first that holds."""
    is_git = state.mode == "git"
    conditions = (
        (not is_git and state.error, "bad", "Not available"),
        (is_git and not state.commit, "bad", "Nothing is served yet"),
        (state.hold, "warn", "Held at an older commit"),
        (state.error, "warn", "The last sync failed; the previous commit is served"),
        (is_git and state.is_stale, "warn", "Not synced for a while"),
        (state.loss, "warn", "Far fewer skills than before"),
    )
    found = ((condition, says) for holds, condition, says in conditions if holds)
    return next(found, ("good", "Current"))


def _list_facts(state: SourceState, now: datetime) -> list[tuple[str, str]]:
    facts = []
    if state.mode == "git":
        facts.append(("Commit", state.commit or "none yet"))
        facts.append(("Synced", describe_age(state.age_seconds)))
    if state.loss:
        facts.append(("Lost", str(state.loss)))
    if state.default_branch:
        facts.append(("Branch", f"{state.default_branch}, the default, as there is no main"))
    if state.hold:
        since = now.timestamp() - state.hold.since
        facts.append(("Held", describe_age(since)))
        facts.append(("Instead of", state.hold.instead_of))
    if state.verified_by:
        facts.append(("Signed by", state.verified_by))
    if state.not_served:
        facts.append(("Not served", f"{state.not_served:,} packages: see Problems"))
    if state.failed_at:
        age = (now - state.failed_at).total_seconds()
        facts.append(("Failed", describe_age(age)))
    if state.next_attempt_at:
        wait = (state.next_attempt_at - now).total_seconds()
        facts.append(("Next attempt", _describe_wait(wait)))
    return facts


def _describe_wait(seconds: float) -> str:
    """Format a time span until an event.

    >>> _describe_wait(130), _describe_wait(20)
    ('in 2 minutes', 'within a minute')
    """
    minutes = int(seconds // 60)
    if minutes < 1:
        return "within a minute"
    return f"in {minutes} minute{'' if minutes == 1 else 's'}"
