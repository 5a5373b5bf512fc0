"""*Try a task*: the answer of `get_skill`, its explanation, and remedies."""

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skills_mcp.errors import SkillNotFoundError
from skills_mcp.features.web.page import describe_for_person, get_visible_library, render_template
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
            "score": format_rounded_down(candidate.score),
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
