"""Pages on which people look for a skill: the catalogue, and *Try a task*."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skills_mcp.errors import SkillNotFoundError
from skills_mcp.features.web.browsing import (
    FACETS,
    TOP,
    UNOWNED,
    BrowseRequest,
    SkillListReply,
    browse,
)
from skills_mcp.features.web.page import (
    describe_for_person,
    find_used,
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

_MAX_VALUES = 12
"""Per facet; further values are found by search."""

_TITLES: Mapping[str, str] = {
    "source": "Source",
    "area": "Area",
    "format": "Format",
    "owner": "Owner",
    "origin": "Origin",
    "problems": "Problems",
    "used": "Used",
}

_LABELS: Mapping[tuple[str, str], str] = {
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
    state = {"q": query, **chosen}
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
        following={**state, "cursor": page.next or ""},
    )


def _derive_groups(
    page: SkillListReply, query: str, chosen: Mapping[str, str]
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


def _toggle(query: str, chosen: Mapping[str, str], name: str, value: str) -> dict[str, str]:
    """Query parameters after a click on a value."""
    state = {"q": query, **chosen}
    state[name] = "" if chosen.get(name) == value else value
    return state


# Of a pasted ticket; an address of more would be refused on the way.
_MAX_TASK = 6_000

_SENTENCE_STARTS = ("no ", "ambiguous because ")
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
            return TrialVerdict(
                "match",
                f"The agent gets {best.skill.path}",
                "get_skill answers with its text and all that it inherits.",
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
