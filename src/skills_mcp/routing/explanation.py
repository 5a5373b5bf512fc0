"""Why a task got its answer, and what would have changed it.  Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from skills_mcp.config import Matching
from skills_mcp.routing.decision import Decision, choose, count_compared
from skills_mcp.routing.excerpt import focus
from skills_mcp.routing.matcher import Candidate, Evidence, Mask, Matcher, WordEvidence
from skills_mcp.routing.remedies import Answered, Contender, find_remedies
from skills_mcp.skills.model import Skill

_SHOWN = 3
"""Candidates that are looked into: the answer, its rival and the one behind."""

# Of a pasted ticket; more would hide the explanation.
_MOST_WORDS = 30
_MOST_REASONS = 10
_MOST_IGNORED = 50

_MOST_SHOWN = 80  # of a word, a keyword or a task; more of them would be a long reply

_TYPED = re.compile(r"[^\W_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}][^\W_]+)*")

_DIGITS = 4  # of a weight or worth in JSON; more says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """An answer with its reasons."""

    algorithm: str
    decision: Decision
    words: tuple[WordEvidence, ...]
    """The words of the task that count, in its order."""
    ignored: tuple[str, ...]
    """Those that say nothing to this algorithm."""
    contenders: tuple[Contender, ...]
    """The best skills in their order, then the one that was asked about."""
    notes: tuple[str, ...]
    """What would have changed the answer, in words for a person."""


def explain(
    matcher: Matcher,
    context: str,
    matching: Matching,
    *,
    skill: Skill | None = None,
    within: Mask = None,
) -> Explanation:
    """Say why a task gets its answer.

    Args:
        matcher: Knows the skills.
        context: The task, in free text of any length.
        matching: The settings in force.
        skill: One to look into although it may be far behind: why not this one?
        within: The skills that may be found; None for all.
    """
    whole, context = context, focus(matcher, context, within=within)
    decision = choose(matcher, context, matching, within=within)
    words = matcher.weigh(context)
    compared = matcher.score(context, most=count_compared(matching), within=within)
    best = compared[:_SHOWN]
    contenders = tuple(
        _look_into(matcher, context, candidate, place, within)
        for place, candidate in enumerate(best, 1)
    )
    asked, notes = skill, []
    if skill and all(candidate.skill.path != skill.path for candidate in best):
        far = _look_for(matcher, context, skill, within)
        if far:
            contenders += (far,)
        else:
            asked = None
            notes.append(f"{skill.path} is outside of the part that was chosen from")
    if context != whole:
        notes.append(
            f"of this long text a part was taken for the task: {_cut(context)}"
        )
    notes += find_remedies(
        Answered(decision, compared, matcher.algorithm),
        contenders,
        words,
        matching,
        asked=asked,
    )
    return Explanation(
        algorithm=matcher.algorithm,
        decision=decision,
        words=words,
        ignored=_find_ignored(matcher, context),
        contenders=contenders,
        notes=tuple(notes),
    )


def render_explanation(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as JSON has it, without the decision."""
    return {
        "algorithm": explanation.algorithm,
        "words": [_render_word(word) for word in pick_words(explanation)],
        "ignored": list(explanation.ignored),
        "candidates": [_render_contender(each) for each in explanation.contenders],
        "notes": list(explanation.notes),
    }


def pick_words(explanation: Explanation) -> tuple[WordEvidence, ...]:
    """Return the words that weigh most, in the order of the task."""
    heaviest = sorted(explanation.words, key=lambda word: -word.weight)[:_MOST_WORDS]
    return tuple(word for word in explanation.words if word in heaviest)


def condense(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Return what counts most, and the rest together; the sum stays the same."""
    ordered = sorted(evidence, key=lambda each: -abs(each.worth))
    kept, rest = ordered[:_MOST_REASONS], ordered[_MOST_REASONS:]
    if not rest:
        return tuple(kept)
    worth = sum(each.worth for each in rest)
    others = Evidence(word="", where="rest", found=f"{len(rest)} more", worth=worth)
    return (*kept, others)


def _look_into(
    matcher: Matcher, context: str, candidate: Candidate, place: int, within: Mask
) -> Contender:
    evidence = matcher.explain(context, candidate.skill, within=within)
    return Contender(candidate.skill, candidate.score, place, evidence)


def _look_for(
    matcher: Matcher, context: str, skill: Skill, within: Mask
) -> Contender | None:
    """Look into a skill at any place of the ranking; None if `within` leaves it out."""
    for place, candidate in enumerate(matcher.score(context, within=within), 1):
        if candidate.skill.path == skill.path:
            return _look_into(matcher, context, candidate, place, within)
    everywhere = matcher.score(context) if within is not None else ()
    if any(candidate.skill.path == skill.path for candidate in everywhere):
        return None
    return Contender(skill, Fraction(0), None, ())


def _cut(text: str) -> str:
    """Return a text in one line that is short enough to be shown."""
    line = " ".join(text[: _MOST_SHOWN + 1].split())
    return line if len(line) <= _MOST_SHOWN else f"{line[: _MOST_SHOWN - 1]}…"


def _find_ignored(matcher: Matcher, context: str) -> tuple[str, ...]:
    """Return the words that the matcher takes for nothing, each alone."""
    typed = dict.fromkeys(word.casefold() for word in _TYPED.findall(context))
    ignored = (word for word in typed if not matcher.weigh(word))
    few = zip(ignored, range(_MOST_IGNORED), strict=False)
    return tuple(_cut(word) for word, _ in few)


def _render_word(word: WordEvidence) -> dict[str, Any]:
    return {
        "word": _cut(word.typed),
        "term": _cut(word.term),
        "weight": round(word.weight, _DIGITS),
        "skills": word.skills,
    }


def _render_contender(contender: Contender) -> dict[str, Any]:
    return {
        "skill_path": contender.skill.path,
        "place": contender.place,
        "score": round(float(contender.score), _DIGITS),
        "evidence": [_render_evidence(each) for each in condense(contender.evidence)],
    }


def _render_evidence(evidence: Evidence) -> dict[str, Any]:
    return {
        "word": _cut(evidence.word),
        "where": evidence.where,
        "found": _cut(evidence.found),
        "worth": round(evidence.worth, _DIGITS),
    }
