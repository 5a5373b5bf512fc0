"""State of the content: problems with their remedies, and sources."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.features.web.page import get_visible_library, render_template
from skills_mcp.library.content_problems import ProblemPage
from skills_mcp.skills.model import Level

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
        is_told=library.sees_everything,
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
