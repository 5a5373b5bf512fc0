"""The catalogue: all skills, found by words and narrowed by facets."""

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from skills_mcp.features.web.page import (
    find_used,
    is_use_unknown,
    library_of,
    render_page,
)
from skills_mcp.library.browsing import (
    FACETS,
    TOP,
    UNOWNED,
    BrowsedPage,
    BrowseRequest,
    FacetName,
)

_PAGE = 50

_MAX_VALUES = 12
"""Of one facet; further values are found with words."""

_TITLES: Mapping[FacetName, str] = {
    "source": "Source",
    "area": "Area",
    "format": "Format",
    "owner": "Owner",
    "origin": "Origin",
    "problems": "Problems",
    "used": "Used",
}

_LABELS: Mapping[tuple[FacetName, str], str] = {
    ("source", TOP): "Top of the tree",
    ("area", TOP): "In no folder",
    ("format", "package"): "Package",
    ("format", "rule"): "Rule",
    ("owner", UNOWNED): "Not named",
    ("origin", "org"): "Organisation",
    ("origin", "repo"): "Project",
    ("origin", "user"): "Person",
    ("problems", "yes"): "With problems",
    ("problems", "no"): "Without problems",
    ("used", "yes"): "By agents",
    ("used", "no"): "Not yet",
}


@dataclass(frozen=True, slots=True)
class FacetLink:
    """A value of a facet, and the page that it leads to."""

    label: str
    count: int
    is_chosen: bool
    query: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FacetGroup:
    """A facet with its values."""

    title: str
    links: tuple[FacetLink, ...]
    hidden: int
    """How many values are not shown."""


def show_catalogue(request: Request) -> Response:
    """Return the catalogue, or the part of it that the address asks for."""
    library = library_of(request)
    query = request.query_params.get("q", "").strip()
    given = {name: request.query_params.get(name, "") for name in FACETS}
    chosen = {name: value for name, value in given.items() if value}
    cursor = request.query_params.get("cursor")
    page = library.browse(
        BrowseRequest(
            query=query,
            chosen=chosen,
            cursor=cursor,
            limit=_PAGE,
            used_paths=find_used(request),
        )
    )
    state: dict[str, str] = {"q": query, **_plain(chosen)}
    return render_page(
        request,
        "catalogue.html",
        page=page,
        query=query,
        chosen=chosen,
        groups=_derive_groups(page, query, chosen),
        is_narrowed=bool(query or chosen),
        is_first=not cursor,
        is_use_unknown=is_use_unknown(request),
        begin=state,
        following={**state, "cursor": page.next_cursor or ""},
    )


def _derive_groups(
    page: BrowsedPage, query: str, chosen: Mapping[FacetName, str]
) -> tuple[FacetGroup, ...]:
    """Return the facets that narrow anything."""
    groups = []
    for name, values in page.facets.items():
        if len(values) < 2 and name not in chosen:  # noqa: PLR2004 - one is no choice
            continue
        links = tuple(
            FacetLink(
                _LABELS.get((name, each.value), each.value),
                each.count,
                chosen.get(name) == each.value,
                _toggle(query, chosen, name, each.value),
            )
            for each in values
        )
        shown = tuple(
            link for n, link in enumerate(links) if n < _MAX_VALUES or link.is_chosen
        )
        groups.append(FacetGroup(_TITLES[name], shown, len(links) - len(shown)))
    return tuple(groups)


def _toggle(
    query: str, chosen: Mapping[FacetName, str], name: FacetName, value: str
) -> dict[str, str]:
    """Return the state of the page after a click on a value."""
    state = {"q": query, **_plain(chosen)}
    state[name] = "" if chosen.get(name) == value else value
    return state


def _plain(chosen: Mapping[FacetName, str]) -> dict[str, str]:
    """Return the same for a URL, whose names are any text."""
    return dict(chosen.items())
