"""Why a prompt did not get its skill, in half a line for its author.  Pure."""

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

from skills_mcp.authoring.evaluation.measuring import DEPTH, Outcome
from skills_mcp.authoring.evaluation.prompts import find_missing
from skills_mcp.config import Matching
from skills_mcp.routing.decision import NoMatch, exact
from skills_mcp.routing.evidence import Evidence
from skills_mcp.routing.explanation import list_answers
from skills_mcp.routing.matcher import Mask, Matcher
from skills_mcp.routing.remedies import describe_number, is_weak
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.scoping import narrow


def give_reason(
    outcome: Outcome, matcher: Matcher, matching: Matching, index: SkillIndex
) -> str:
    """Say why a prompt went wrong.

    Args:
        outcome: A wrong one.
        matcher: What it was routed with.
        matching: The settings that decided.
        index: Has the skills that were expected.
    """
    query, answers = outcome.prompt.query, list_answers(outcome.decision)
    within = narrow(index, outcome.prompt.scoping)
    if not outcome.prompt.expect:
        best = answers[0]
        said = _describe_best(matcher.explain(query, best.skill, within=within))
        return f"{describe_number(best.score)} is enough (min_score); {said}"
    if unfindable := _find_unfindable(outcome, within, index):
        return unfindable
    wanted = _choose_wanted(outcome, index)
    evidence = matcher.explain(query, index.require(wanted), within=within)
    if not any(each.word for each in evidence):
        return f"no word of the prompt speaks for {wanted}"
    said = _describe_best(evidence)
    if outcome.is_kept:
        return f"ambiguous, which --strict does not allow; {said}"
    score = _find_score(outcome, evidence)
    if isinstance(outcome.decision, NoMatch):
        return f"{_describe_miss(score, matching)}; {said}"
    behind = describe_number(max(answers[0].score - score, Fraction(0)))
    return f"{_describe_place(outcome)}, {behind} behind; {said}"


def _choose_wanted(outcome: Outcome, index: SkillIndex) -> str:
    """Return the expected skill that came nearest."""
    if outcome.place:
        return outcome.ranked[outcome.place - 1].skill.path
    return next(path for path in outcome.prompt.expect if index.get(path))


def _find_unfindable(outcome: Outcome, within: Mask, index: SkillIndex) -> str:
    """Say why the skill cannot be found, whatever it says; nothing if it can be."""
    missing = find_missing(outcome.prompt, index)
    if missing or within is None:
        return missing
    wanted = _choose_wanted(outcome, index)
    rows = zip(index.listed, within, strict=True)
    is_inside = any(is_in and row.path == wanted for row, is_in in rows)
    return "" if is_inside else f"{wanted} is outside of the part that the prompt names"


def _find_score(outcome: Outcome, evidence: Sequence[Evidence]) -> Fraction:
    """Return what the expected skill scores; far behind, as its evidence has it."""
    if outcome.place:
        return outcome.ranked[outcome.place - 1].score
    return sum((Fraction(str(each.worth)) for each in evidence), Fraction(0))


def _describe_miss(score: Fraction, matching: Matching) -> str:
    said = f"it scores {describe_number(score)}"
    if score < exact(matching.min_score):
        return f"{said}, below min_score {matching.min_score:g}"
    return f"{said}, but too little of the prompt speaks for it"


def _describe_place(outcome: Outcome) -> str:
    place = outcome.place
    return f"in place {place}" if place else f"not among the first {DEPTH}"


def _describe_best(evidence: Sequence[Evidence]) -> str:
    """Say what the word that is worth most is, and where it stands."""
    worths: defaultdict[str, float] = defaultdict(float)
    for each in evidence:
        if each.word:
            worths[each.word] += each.worth
    if not worths:
        return "by none of its words"
    word = max(worths, key=lambda word: worths[word])
    if is_weak(evidence, word):
        return f"its best word {word!r} is only in the body"
    strongest = max((e for e in evidence if e.word == word), key=lambda e: e.worth)
    match strongest.where:
        case "keyword" | "synonym" as kind:
            return f"its best word is {word!r}, by the {kind} {strongest.found!r}"
        case "pair":
            return f"its best words {word!r} stand {strongest.found}"
        case place:
            return f"its best word {word!r} is in its {place}"
