"""Catalogue page: search and faceted navigation."""

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from skills_mcp.features.web.browsing import (
    FACETS,
    TOP,
    UNOWNED,
    BrowsedPage,
    BrowseRequest,
    FacetName,
    browse,
)
from skills_mcp.features.web.page import (
    find_used,
    get_visible_library,
    is_use_unknown,
    render_template,
)

_PAGE = 50

_MAX_VALUES = 12
"""Per facet; further values are found by search."""

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
    """A facet value, with the link to toggle it."""

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
    """Number of omitted values."""


def show_catalogue(request: Request) -> Response:
    """Show the catalogue, filtered by the query string."""
    library = get_visible_library(request)
    query = request.query_params.get("q", "").strip()
    parameters = {name: request.query_params.get(name, "") for name in FACETS}
    chosen = {name: value for name, value in parameters.items() if value}
    cursor = request.query_params.get("cursor")
    page = browse(
        library.snapshot,
        BrowseRequest(
            query=query,
            chosen=chosen,
            cursor=cursor,
            limit=_PAGE,
            used_paths=find_used(request),
        ),
    )
    state: dict[str, str] = {"q": query, **_plain(chosen)}
    return render_template(
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
    """Facets with more than one value, or a chosen one."""
    groups = []
    for name, values in page.facets.items():
        if len(values) < 2 and name not in chosen:  # noqa: PLR2004 - one is no choice
            continue
        links = tuple(
            FacetLink(
                _LABELS.get((name, facet.value), facet.value),
                facet.count,
                chosen.get(name) == facet.value,
                _toggle(query, chosen, name, facet.value),
            )
            for facet in values
        )
        displayed = tuple(link for n, link in enumerate(links) if n < _MAX_VALUES or link.is_chosen)
        groups.append(FacetGroup(_TITLES[name], displayed, len(links) - len(displayed)))
    return tuple(groups)


def _toggle(
    query: str, chosen: Mapping[FacetName, str], name: FacetName, value: str
) -> dict[str, str]:
    """Query parameters after a click on a value."""
    state = {"q": query, **_plain(chosen)}
    state[name] = "" if chosen.get(name) == value else value
    return state


def _plain(chosen: Mapping[FacetName, str]) -> dict[str, str]:
    """Widen the keys to any text, for URLs."""
    return dict(chosen.items())
