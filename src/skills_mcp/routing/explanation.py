"""Explain a decision: its evidence, and the changes for another one. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from skills_mcp.config import Matching
from skills_mcp.routing.decision import (
    Decision,
    count_compared_candidates,
    score_and_decide,
)
from skills_mcp.routing.excerpt import select_relevant_part
from skills_mcp.routing.matcher import Candidate, Evidence, Mask, Matcher, TermWeight
from skills_mcp.routing.remedies import (
    ExplainedCandidate,
    ScoredDecision,
    suggest_changes,
)
from skills_mcp.skills.model import Skill

_EXPLAINED_CANDIDATES = 3
"""The answer, its rival and the one behind."""

# Of a pasted ticket; more would hide the explanation.
_MAX_WORDS = 30
_MAX_REASONS = 10
_MAX_IGNORED = 50

_MAX_TEXT_CHARACTERS = 80  # of a word, a keyword or a task; more of them would be a long reply

_TYPED_WORD = re.compile(r"[^\W_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}][^\W_]+)*")

_DIGITS = 4  # of a weight or worth in JSON; more says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A decision with its evidence."""

    algorithm: str
    decision: Decision
    words: tuple[TermWeight, ...]
    """The weighted terms of the task, in its order."""
    ignored: tuple[str, ...]
    """Words without weight for this algorithm."""
    contenders: tuple[ExplainedCandidate, ...]
    """The best skills in their order, then the requested one."""
    notes: tuple[str, ...]


def explain_decision(
    matcher: Matcher,
    context: str,
    matching: Matching,
    *,
    skill: Skill | None = None,
    within: Mask = None,
) -> Explanation:
    """Explain a decision, and the rank of `skill`: why not this one?"""
    full_text, context = context, select_relevant_part(matcher, context, within=within)
    decision = score_and_decide(matcher, context, matching, within=within)
    words = matcher.weigh_terms(context)
    compared = matcher.score(context, limit=count_compared_candidates(matching), within=within)
    best = compared[:_EXPLAINED_CANDIDATES]
    contenders = tuple(
        _explain_candidate(matcher, context, candidate, rank, within)
        for rank, candidate in enumerate(best, 1)
    )
    requested, notes = skill, []
    if skill and all(candidate.skill.path != skill.path for candidate in best):
        explained = _explain_skill(matcher, context, skill, within)
        if explained:
            contenders += (explained,)
        else:
            requested = None
            notes.append(f"{skill.path} is outside of the part that was chosen from")
    if context != full_text:
        notes.append(f"of this long text a part was taken for the task: {_to_short_line(context)}")
    notes += suggest_changes(
        ScoredDecision(decision, compared, matcher.algorithm),
        contenders,
        words,
        matching,
        requested=requested,
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
    return {
        "algorithm": explanation.algorithm,
        "words": [_render_word(word) for word in heaviest_words(explanation)],
        "ignored": list(explanation.ignored),
        "candidates": [_render_contender(contender) for contender in explanation.contenders],
        "notes": list(explanation.notes),
    }


def heaviest_words(explanation: Explanation) -> tuple[TermWeight, ...]:
    heaviest = sorted(explanation.words, key=lambda word: -word.weight)[:_MAX_WORDS]
    return tuple(word for word in explanation.words if word in heaviest)


def summarize_evidence(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Keep the largest contributions and sum up the rest; the total is unchanged."""
    ordered = sorted(evidence, key=lambda item: -abs(item.worth))
    heaviest, rest = ordered[:_MAX_REASONS], ordered[_MAX_REASONS:]
    if not rest:
        return tuple(heaviest)
    worth = sum(item.worth for item in rest)
    others = Evidence(word="", where="rest", found=f"{len(rest)} more", worth=worth)
    return (*heaviest, others)


def _explain_candidate(
    matcher: Matcher, context: str, candidate: Candidate, rank: int, within: Mask
) -> ExplainedCandidate:
    evidence = matcher.explain(context, candidate.skill, within=within)
    return ExplainedCandidate(candidate.skill, candidate.score, rank, evidence)


def _explain_skill(
    matcher: Matcher, context: str, skill: Skill, within: Mask
) -> ExplainedCandidate | None:
    for rank, candidate in enumerate(matcher.score(context, within=within), 1):
        if candidate.skill.path == skill.path:
            return _explain_candidate(matcher, context, candidate, rank, within)
    unfiltered = matcher.score(context) if within is not None else ()
    if any(candidate.skill.path == skill.path for candidate in unfiltered):
        return None
    return ExplainedCandidate(skill, Fraction(0), None, ())


def _to_short_line(text: str) -> str:
    line = " ".join(text[: _MAX_TEXT_CHARACTERS + 1].split())
    return line if len(line) <= _MAX_TEXT_CHARACTERS else f"{line[: _MAX_TEXT_CHARACTERS - 1]}…"


def _find_ignored(matcher: Matcher, context: str) -> tuple[str, ...]:
    typed = dict.fromkeys(word.casefold() for word in _TYPED_WORD.findall(context))
    ignored = (word for word in typed if not matcher.weigh_terms(word))
    few = zip(ignored, range(_MAX_IGNORED), strict=False)
    return tuple(_to_short_line(word) for word, _ in few)


def _render_word(word: TermWeight) -> dict[str, Any]:
    return {
        "word": _to_short_line(word.typed),
        "term": _to_short_line(word.term),
        "weight": round(word.weight, _DIGITS),
        "skills": word.skills,
    }


def _render_contender(contender: ExplainedCandidate) -> dict[str, Any]:
    return {
        "skill_path": contender.skill.path,
        "place": contender.rank,
        "score": round(float(contender.score), _DIGITS),
        "evidence": [_render_evidence(item) for item in summarize_evidence(contender.evidence)],
    }


def _render_evidence(evidence: Evidence) -> dict[str, Any]:
    return {
        "word": _to_short_line(evidence.word),
        "where": evidence.where,
        "found": _to_short_line(evidence.found),
        "worth": round(evidence.worth, _DIGITS),
    }
