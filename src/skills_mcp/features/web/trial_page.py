"""*Try a task*: what `get_skill` answers, why, and what would change it."""

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skills_mcp.errors import SkillNotFoundError
from skills_mcp.features.web.page import library_of, render_page
from skills_mcp.features.web.refused_page import tell_person
from skills_mcp.routing.decision import Ambiguous, Decision, NoMatch, list_answers
from skills_mcp.routing.explanation import Explanation, condense, pick_words
from skills_mcp.routing.matcher import Candidate, Evidence
from skills_mcp.routing.remedies import Contender, describe_number

# Of a pasted ticket; an address of more would be refused on the way.
_MAX_TASK = 6_000

_PLAIN = ("no ", "ambiguous because ")
"""How a sentence of `explain` begins that does not begin with a path."""


@dataclass(frozen=True, slots=True)
class TrialVerdict:
    """The answer in words."""

    kind: str
    """`match`, `ambiguous` or `no_match`, as the tool calls it."""
    title: str
    meaning: str


def show_trial(request: Request) -> Response:
    """Return the form, and the answer for the task in the address."""
    task = request.query_params.get("task", "").strip()[:_MAX_TASK]
    asked = request.query_params.get("skill", "").strip()
    explanation, refusal = None, ""
    if task:
        library = library_of(request)
        try:
            explanation = library.explain(task, asked or None)
        except SkillNotFoundError as error:
            refusal = tell_person(error)
            explanation = library.explain(task) if asked else None
    return render_page(
        request,
        "trial.html",
        task=task,
        asked=asked,
        refusal=refusal,
        **(_render(explanation) if explanation else {"verdict": None}),
    )


def _render(explanation: Explanation) -> dict[str, Any]:
    return {
        "verdict": _describe(explanation.decision),
        "answers": _find_answers(explanation.decision),
        "contenders": [_render_contender(each) for each in explanation.contenders],
        "words": pick_words(explanation),
        "ignored": explanation.ignored,
        "notes": [_begin(note) for note in explanation.notes],
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
                "get_skill answers no_match, and names the nearest skills if there "
                "are any.",
            )


def _find_answers(decision: Decision) -> list[dict[str, Any]]:
    """Return the skills that the answer names: the best, or the nearest."""
    near = decision.near if isinstance(decision, NoMatch) else ()
    return [
        {
            "path": each.skill.path,
            "description": each.skill.description,
            "score": describe_number(each.score),
        }
        for each in list_answers(decision) or near
    ]


def _begin(note: str) -> str:
    """Return a sentence with a capital, unless it begins with the path of a skill."""
    return note[:1].upper() + note[1:] if note.startswith(_PLAIN) else note


def _render_contender(contender: Contender) -> dict[str, Any]:
    return {
        "path": contender.skill.path,
        "place": contender.place,
        "score": describe_number(contender.score),
        "evidence": [_render_evidence(each) for each in condense(contender.evidence)],
    }


def _render_evidence(evidence: Evidence) -> dict[str, str]:
    return {
        "word": evidence.word,
        "where": evidence.where,
        "found": evidence.found,
        "worth": f"{evidence.worth:+.3f}",
    }
