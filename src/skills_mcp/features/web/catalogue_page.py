"""Pages on which people look for a skill: the catalogue, and *Try a task*."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skills_mcp.errors import SkillNotFoundError
from skills_mcp.features.effect.evidence import find_evidence
from skills_mcp.features.web.browsing import (
    FACETS,
    SORTS,
    TOP,
    UNOWNED,
    AreaNode,
    BrowseRequest,
    SkillListReply,
    browse,
    capitalise_words,
    derive_title,
    list_areas,
    name_path,
)
from skills_mcp.features.web.page import (
    describe_for_person,
    find_logs,
    find_uses,
    get_visible_library,
    is_use_unknown,
    render_template,
)
from skills_mcp.routing.answer_explanation import (
    ExplainedCandidate,
    Explanation,
    format_rounded_down,
    heaviest_words,
    summarize_evidence,
)
from skills_mcp.routing.decision import (
    Ambiguous,
    Decision,
    NoMatch,
    answered_candidates,
)
from skills_mcp.routing.matcher import Candidate, Evidence

_PAGE = 50

_MAX_AREAS = 40
"""Folders of a level of the tree; further ones are found by search."""

_MAX_VALUES = 12
"""Per facet; further values are found by search."""

_TITLES: Mapping[str, str] = {
    "source": "Source",
    "format": "Format",
    "owner": "Owner",
    "origin": "Origin",
    "problems": "Problems",
    "used": "Used",
}

_LABELS: Mapping[tuple[str, str], str] = {
    ("source", TOP): "Top of the tree",
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
    """A value of a facet or filter, with the link to toggle it."""

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


@dataclass(frozen=True, slots=True)
class Crumb:
    """A folder above, in the breadcrumbs."""

    title: str
    query: Mapping[str, str]


def list_crumbs(path: str) -> tuple[Crumb, ...]:
    """Folders of a path, from the top down, as links to the catalogue."""
    folders = path.split("/") if path else []
    return tuple(
        Crumb(capitalise_words(name), {"area": "/".join(folders[: depth + 1])})
        for depth, name in enumerate(folders)
    )


def show_catalogue(request: Request) -> Response:
    """Show the catalogue, filtered and ordered by the query string."""
    library = get_visible_library(request)
    parameters = {name: request.query_params.get(name, "").strip() for name in ("q", "sort")}
    chosen = {n: value for n in FACETS if (value := request.query_params.get(n, "").strip("/"))}
    cursor = request.query_params.get("cursor")
    query, sort = parameters["q"], parameters["sort"]
    wanted = BrowseRequest(
        query=query,
        chosen=chosen,
        cursor=cursor,
        limit=_PAGE,
        sort=sort if sort in SORTS else "",
        uses=find_uses(request),
        logs=find_logs(request),
    )
    page = browse(library.snapshot, wanted)
    state = {**parameters, **chosen}
    area = chosen.get("area", "")
    return render_template(
        request,
        "catalogue.html",
        page=page,
        query=query,
        chosen=chosen,
        sort=wanted.sort,
        sorts=_derive_sorts(wanted, state),
        title=name_path(area) if area and area != TOP else "",
        crumbs=list_crumbs(area.rpartition("/")[0]) if area != TOP else (),
        areas=_link_areas(list_areas(library.snapshot, wanted), state),
        groups=_derive_groups(page, state, chosen),
        is_narrowed=bool(query or chosen),
        is_first=not cursor,
        is_use_unknown=is_use_unknown(request),
        effects=find_evidence(library.snapshot),
        begin=state,
        following={**state, "cursor": page.next or ""},
    )


_SORT_LABELS: Mapping[str, str] = {
    "name": "Name",
    "used": "Most used",
    "changed": "Last changed",
    "owner": "Owner",
}


def _derive_sorts(
    wanted: BrowseRequest, state: Mapping[str, str]
) -> list[tuple[str, bool, Mapping[str, str]]]:
    """Label, whether it is the order, and query; by use only where that is known."""
    labels = {"": "Best fit" if wanted.query else "Path", **_SORT_LABELS}
    if wanted.uses is None:
        del labels["used"]
    return [(label, name == wanted.sort, {**state, "sort": name}) for name, label in labels.items()]


@dataclass(frozen=True, slots=True)
class AreaLink:
    """A folder of the tree, with the link to choose it."""

    node: AreaNode
    query: Mapping[str, str]
    children: "tuple[AreaLink, ...]"
    hidden: int
    """Number of omitted children."""


def _link_areas(nodes: Sequence[AreaNode], state: Mapping[str, str]) -> tuple[AreaLink, ...]:
    """Links to the first folders of a level, and to those that are open."""
    shown = (*nodes[:_MAX_AREAS], *(n for n in nodes[_MAX_AREAS:] if n.is_chosen or n.children))
    return tuple(
        AreaLink(
            node,
            {**state, "area": node.path.rpartition("/")[0] if node.is_chosen else node.path},
            _link_areas(node.children, state),
            max(0, len(node.children) - _MAX_AREAS),
        )
        for node in shown
    )


def _derive_groups(
    page: SkillListReply, state: Mapping[str, str], chosen: Mapping[str, str]
) -> tuple[FacetGroup, ...]:
    """Facets with more than one value, or a chosen one; the areas are a tree."""
    groups = []
    for name, values in page.facets.items():
        if name == "area" or (len(values) < 2 and name not in chosen):  # noqa: PLR2004 - one is no choice
            continue
        links = tuple(
            FacetLink(
                _LABELS.get((name, facet.value), facet.value),
                facet.count,
                chosen.get(name) == facet.value,
                {**state, name: "" if chosen.get(name) == facet.value else facet.value},
            )
            for facet in values
        )
        displayed = tuple(link for n, link in enumerate(links) if n < _MAX_VALUES or link.is_chosen)
        groups.append(FacetGroup(_TITLES[name], displayed, len(links) - len(displayed)))
    return tuple(groups)


# Of a pasted ticket; an address of more would be refused on the way.
_MAX_TASK = 6_000

_SENTENCE_STARTS = ("no ", "ambiguous because ", "agents ", "if ", "left out", "of ", "the ")
"""Beginnings of sentences by `explain` that do not start with a path."""


@dataclass(frozen=True, slots=True)
class TrialVerdict:
    """The decision in words."""

    kind: str
    """`match`, `ambiguous` or `no_match`, as in the tool."""
    title: str
    meaning: str


def show_trial(request: Request) -> Response:
    """Show the form, and the decision for the task in the query string."""
    task = request.query_params.get("task", "").strip()[:_MAX_TASK]
    requested = request.query_params.get("skill", "").strip()
    explanation, refusal = None, ""
    if task:
        library = get_visible_library(request)
        try:
            explanation = library.explain(task, requested or None)
        except SkillNotFoundError as error:
            refusal = describe_for_person(error)
            explanation = library.explain(task) if requested else None
    return render_template(
        request,
        "trial.html",
        task=task,
        asked=requested,
        refusal=refusal,
        **(_render(explanation) if explanation else {"verdict": None}),
    )


def _render(explanation: Explanation) -> dict[str, Any]:
    return {
        "verdict": _describe(explanation.decision),
        "answers": _find_answers(explanation.decision),
        "contenders": [_render_contender(contender) for contender in explanation.contenders],
        "words": heaviest_words(explanation),
        "ignored": explanation.ignored,
        "notes": [_capitalise(note) for note in explanation.notes],
        "algorithm": explanation.algorithm,
    }


def _describe(decision: Decision) -> TrialVerdict:
    match decision:
        case Candidate() as best:
            titles = [derive_title(c.skill.path, c.skill.body) for c in answered_candidates(best)]
            return TrialVerdict(
                "match",
                f"The agent gets {' and '.join(titles)}",
                "get_skill answers with its text and all that it inherits.",
            )
        case Ambiguous((only,)):
            return TrialVerdict(
                "ambiguous",
                f"{derive_title(only.skill.path, only.skill.body)} may fit",
                "Nothing else is near, but too little of the task speaks for it: get_skill "
                "names it, and the agent takes it or goes on without.",
            )
        case Ambiguous(candidates):
            return TrialVerdict(
                "ambiguous",
                f"The agent has to choose from {len(candidates)} skills",
                "They score so alike that get_skill names them, and the agent picks "
                "one by its description.",
            )
        case NoMatch():
            return TrialVerdict(
                "no_match",
                "No skill fits",
                "get_skill answers no_match, and names the nearest skills if there are any.",
            )


def _find_answers(decision: Decision) -> list[dict[str, Any]]:
    """Matched skills, else the nearest ones."""
    near = decision.near if isinstance(decision, NoMatch) else ()
    return [
        {
            "path": candidate.skill.path,
            "title": derive_title(candidate.skill.path, candidate.skill.body),
            "description": candidate.skill.description,
            "score": format_rounded_down(candidate.exact_score),
        }
        for candidate in answered_candidates(decision) or near
    ]


def _capitalise(note: str) -> str:
    """Capitalise a sentence, unless it starts with a path."""
    return note[:1].upper() + note[1:] if note.startswith(_SENTENCE_STARTS) else note


def _render_contender(contender: ExplainedCandidate) -> dict[str, Any]:
    return {
        "path": contender.skill.path,
        "title": derive_title(contender.skill.path, contender.skill.body),
        "place": contender.rank,
        "score": format_rounded_down(contender.score),
        "evidence": [_render_evidence(item) for item in summarize_evidence(contender.evidence)],
    }


def _render_evidence(evidence: Evidence) -> dict[str, str]:
    return {
        "word": evidence.word,
        "where": evidence.where,
        "found": evidence.found,
        "worth": f"{evidence.worth:+.3f}",
    }
