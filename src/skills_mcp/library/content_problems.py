"""Health of the sources: problems of their content, and reachability.

Rule: only callers with access to every skill see problems, because they name files
hidden from others. Reachability is checked without fetching.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from skills_mcp.skills.model import Level, Problem

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
        source_mount for source_mount in mounted if _is_below(problem.file, source_mount[0])
    ]
    mount, source = max(containing, key=lambda source_mount: len(source_mount[0]), default=("", ""))
    file = problem.file[len(mount) + 1 :] if mount else problem.file
    return SourceProblem(problem, mount, source, file or ".")


def _is_below(file: str, mount: str) -> bool:
    return not mount or file == mount or file.startswith(f"{mount}/")
