"""State of the content: problems with their remedies, and sources."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response

from skills_mcp.errors import EventStoreError, InvalidArgumentsError
from skills_mcp.features.report.usage_report import Fleet
from skills_mcp.features.web.page import (
    get_site_state,
    get_visible_library,
    render_template,
)
from skills_mcp.library import SourceState
from skills_mcp.library.answers import render_error
from skills_mcp.library.source_health import ProblemPage
from skills_mcp.skills.model import Level
from skills_mcp.text.rendering import describe_age

MAX_LISTED_PROBLEMS = 500
"""Per page; `skills-mcp tree --problems` lists all."""

_TOP = "."
"""Query value for an empty mount, the top of the tree."""

_LEVELS: Mapping[str, Level] = {choice: choice for choice in get_args(Level)}

_LEVEL_TITLES: Mapping[Level, str] = {
    "error": "Errors: not served",
    "warning": "Warnings: a part is ignored",
}


@dataclass(frozen=True, slots=True)
class ProblemFilter:
    """A link to toggle a filter."""

    label: str
    count: int
    is_chosen: bool
    query: Mapping[str, str]


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
    level = _LEVELS.get(level_name)
    found = library.find_problems(
        mount=source.removeprefix(_TOP) if source else None,
        level=level,
        limit=MAX_LISTED_PROBLEMS,
    )
    return render_template(
        request,
        "problems.html",
        found=found,
        groups=_derive_filters(found, source, level_name),
        is_narrowed=bool(source or level),
        is_told=library.access.is_unlimited,
    )


def _derive_filters(
    found: ProblemPage, source: str, level: str
) -> list[tuple[str, list[ProblemFilter]]]:
    """Filter links; each preserves the other filter."""
    levels = [
        ProblemFilter(
            title,
            found.by_level.get(name, 0),
            level == name,
            {"source": source, "level": "" if level == name else name},
        )
        for name, title in _LEVEL_TITLES.items()
        if found.by_level.get(name) or level == name
    ]
    mounts = {mount or _TOP: count for mount, count in found.by_mount.items()}
    if source:
        mounts.setdefault(source, 0)
    sources = [
        ProblemFilter(
            "Top of the tree" if mount == _TOP else mount,
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
