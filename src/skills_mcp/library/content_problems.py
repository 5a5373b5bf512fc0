"""The problems of the content, for a person who repairs them.  Pure.

Rule: only who may see every skill is told of problems, because they name files that
others may not know of.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from skills_mcp.skills.model import Level, Problem

Mounted: TypeAlias = Sequence[tuple[str, str]]
"""The sources: where each stands in the tree, and its name."""


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """A problem, and the source that has it."""

    problem: Problem
    mount: str
    """Where the source stands; empty for the top."""
    source: str
    """The name of the source."""
    file: str
    """The file, relative to the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundProblems:
    """Some problems, and how many there are of each kind."""

    shown: tuple[SourceProblem, ...]
    total: int
    """How many fit; more than are shown if there are very many."""
    by_level: Mapping[Level, int]
    """Of the source that was asked for."""
    by_mount: Mapping[str, int]
    """Of the level that was asked for."""


def list_problems(
    problems: Sequence[Problem],
    mounted: Mounted,
    *,
    mount: str | None = None,
    level: Level | None = None,
    most: int,
) -> FoundProblems:
    """Return the problems that fit, in the order of the content.

    Args:
        problems: All of them.
        mounted: The sources.
        mount: Only those of the source that stands there.
        level: Only those of this level.
        most: How many are shown.
    """
    every = [_find_source(each, mounted) for each in problems]
    of_mount = [each for each in every if mount is None or each.mount == mount]
    of_level = [each for each in every if level is None or each.problem.level == level]
    fitting = [
        each for each in of_mount if level is None or each.problem.level == level
    ]
    return FoundProblems(
        shown=tuple(fitting[:most]),
        total=len(fitting),
        by_level=Counter(each.problem.level for each in of_mount),
        by_mount=Counter(each.mount for each in of_level),
    )


def _find_source(problem: Problem, mounted: Mounted) -> SourceProblem:
    """Return a problem with the source that stands deepest around its file."""
    around = [each for each in mounted if _is_below(problem.file, each[0])]
    mount, source = max(around, key=lambda each: len(each[0]), default=("", ""))
    file = problem.file[len(mount) + 1 :] if mount else problem.file
    return SourceProblem(problem, mount, source, file or ".")


def _is_below(file: str, mount: str) -> bool:
    return not mount or file == mount or file.startswith(f"{mount}/")
