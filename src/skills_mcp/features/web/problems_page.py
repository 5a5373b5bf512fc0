"""What is wrong with the content, and what to write instead."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.features.web.page import library_of, render_page
from skills_mcp.library.content_problems import FoundProblems
from skills_mcp.skills.model import Level

MOST_PROBLEMS = 500
"""On one page; `skills-mcp tree --problems` lists all."""

_TOP = "."
"""Stands for the top of the tree, where a mount is empty."""

_LEVELS: Mapping[str, Level] = {each: each for each in get_args(Level)}

_LEVEL_TITLES: Mapping[Level, str] = {
    "error": "Errors: not served",
    "warning": "Warnings: a part is ignored",
}


@dataclass(frozen=True, slots=True)
class ProblemFilter:
    """A link that leaves only some of the problems, or takes that back."""

    label: str
    count: int
    is_chosen: bool
    query: Mapping[str, str]


def show_problems(request: Request) -> Response:
    """Return the problems that the address asks for.

    Raises:
        InvalidArgumentsError: There is no such level.
    """
    library = library_of(request)
    source = request.query_params.get("source", "")
    given = request.query_params.get("level", "")
    if given and given not in _LEVELS:
        raise InvalidArgumentsError(f"level: is {given!r}. Use error or warning.")
    level = _LEVELS.get(given)
    found = library.find_problems(
        mount=source.removeprefix(_TOP) if source else None,
        level=level,
        most=MOST_PROBLEMS,
    )
    return render_page(
        request,
        "problems.html",
        found=found,
        groups=_derive_filters(found, source, given),
        is_narrowed=bool(source or level),
        is_told=library.sees_everything,
    )


def _derive_filters(
    found: FoundProblems, source: str, level: str
) -> list[tuple[str, list[ProblemFilter]]]:
    """Return the filters; each keeps what the other has chosen."""
    levels = [
        ProblemFilter(
            title,
            found.by_level.get(each, 0),
            level == each,
            {"source": source, "level": "" if level == each else each},
        )
        for each, title in _LEVEL_TITLES.items()
        if found.by_level.get(each) or level == each
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
