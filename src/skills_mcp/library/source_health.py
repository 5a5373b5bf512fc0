"""Health of the sources: problems of their content, and reachability.

Rule: only callers with access to every skill see problems, because they name files
hidden from others. Reachability is checked without fetching.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from skills_mcp.config import Limits
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.source import ContentPart, Mode, Mount, SourceState
from skills_mcp.errors import LimitExceededError, SyncError, UnreadableContentError
from skills_mcp.files.paths import is_inside
from skills_mcp.skills.model import Level, Problem
from skills_mcp.skills.skill_discovery import SourceWalk, count_outside_packages
from skills_mcp.skills.source_layout import FolderTree

# A person waits for it, and a host that drops packets never answers.
_ANSWER_SECONDS = 30.0

MountedSources: TypeAlias = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class SourceProblem:
    problem: Problem
    mount: str
    """Empty for the top."""
    source: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemPage:
    """A page of problems with counts by level and source."""

    listed: tuple[SourceProblem, ...]
    total: int
    """All matches; only the first are listed."""
    by_level: Mapping[Level, int]
    by_mount: Mapping[str, int]


def filter_problems(
    problems: Sequence[Problem],
    mounted: MountedSources,
    *,
    mount: str | None = None,
    level: Level | None = None,
    limit: int,
) -> ProblemPage:
    assigned = [_assign_source(problem, mounted) for problem in problems]
    of_mount = [problem for problem in assigned if mount is None or problem.mount == mount]
    of_level = [problem for problem in assigned if level is None or problem.problem.level == level]
    fitting = [problem for problem in of_mount if level is None or problem.problem.level == level]
    return ProblemPage(
        listed=tuple(fitting[:limit]),
        total=len(fitting),
        by_level=Counter(problem.problem.level for problem in of_mount),
        by_mount=Counter(problem.mount for problem in of_level),
    )


def _assign_source(problem: Problem, mounted: MountedSources) -> SourceProblem:
    containing = [
        source_mount for source_mount in mounted if is_inside(problem.file, source_mount[0])
    ]
    mount, source = max(containing, key=lambda source_mount: len(source_mount[0]), default=("", ""))
    file = problem.file[len(mount) + 1 :] if mount else problem.file
    return SourceProblem(problem, mount, source, file or ".")


def redact_state(state: SourceState) -> SourceState:
    """Remove names and counts of other callers' skills from a state."""
    error = state.error
    if isinstance(error, UnreadableContentError | LimitExceededError):
        error = type(error)(
            f"{state.name}: the newest content cannot be served, so what was served "
            "before stays. The operator's log has the reason",
            is_recalled=error.is_recalled,
        )
    return replace(state, error=error, not_served=0, loss=None, pins=())


def find_not_served(part: ContentPart, limits: Limits) -> int:
    """Count the packages outside of the served folders.  Blocking."""
    selection = part.mount.selection
    surveyed = part.checkout.surveyed.get(selection)
    if surveyed:
        return count_outside_packages(surveyed.problems)
    tree = FolderTree(part.checkout.directory)
    return count_outside_packages(SourceWalk(tree, selection, limits).outside())


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCheck:
    name: str
    mode: Mode
    git_version: str = ""
    git_error: SyncError | None = None
    was_contacted: bool = True
    """False for a remote in offline mode."""
    error: SyncError | None = None
    commit: str | None = None
    sent_at: datetime | None = None
    """The remote's clock (HTTP `Date`), for clock skew."""
    answered_at: datetime | None = None
    """Our clock at the same moment."""
    sends_token: bool = False


def check_source(mount: Mount, *, is_offline: bool) -> SourceCheck:
    source = mount.source
    check = SourceCheck(name=source.name, mode=source.mode)
    if isinstance(source, RemoteBranch):
        return _check_remote(source, check, is_offline=is_offline)
    try:
        source.open()
    except SyncError as error:
        return replace(check, error=error)
    return check


def _check_remote(source: RemoteBranch, check: SourceCheck, *, is_offline: bool) -> SourceCheck:
    try:
        check = replace(check, git_version=source.read_git_version())
    except SyncError as error:
        return replace(check, git_error=error, was_contacted=False)
    if is_offline:
        return replace(check, was_contacted=False)
    check = replace(check, sends_token=source.sends_token)
    try:
        answer = source.ask_remote(_ANSWER_SECONDS)
    except SyncError as error:
        return replace(check, error=error)
    answered_at = datetime.now(answer.sent_at.tzinfo) if answer.sent_at else None
    return replace(check, commit=answer.object, sent_at=answer.sent_at, answered_at=answered_at)
