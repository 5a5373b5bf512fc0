"""What would have changed an answer: a setting, or a word in a skill.  Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from skills_mcp.config import Matching
from skills_mcp.routing.decision import (
    NEAR_SHARE,
    PRIORITY_UNIT,
    Ambiguous,
    Decision,
    NoMatch,
    derive_chances,
    exact,
)
from skills_mcp.routing.matcher import Candidate, Evidence, WordEvidence
from skills_mcp.skills.model import Skill
from skills_mcp.text.rendering import shorten

_MOST_NEW_KEYWORDS = 3
"""Who needs more of them is right to lose."""


_FEW = 3
_WORTH_SAYING = 0.1
"""What words say together, as a share of the task; less would change nothing."""

_WEAK = frozenset({"body", "headings", "opening"})
"""Where a word counts little, because most of a text is about something else."""

# Three digits tell scores apart; rounded down, a limit that is named is a safe one.
_ROUNDED_DOWN = Context(prec=3, rounding=ROUND_FLOOR)


@dataclass(frozen=True, slots=True)
class Contender:
    """A skill, what it scores for a task, and why."""

    skill: Skill
    score: Fraction
    place: int | None
    """From 1, among all that score; None if nothing speaks for the skill."""
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, and what it was chosen from."""

    decision: Decision
    compared: Sequence[Candidate]
    """The best skills and their scores, in their order."""
    algorithm: str
    """Which one has scored."""


def find_remedies(
    answered: Answered,
    contenders: Sequence[Contender],
    words: Sequence[WordEvidence],
    matching: Matching,
    *,
    asked: Skill | None = None,
) -> Iterator[str]:
    """Iterate over what would have changed an answer, one sentence each.

    Args:
        answered: The answer.
        contenders: The best skills in their order, and the one asked about.
        words: The words of the task.
        matching: The settings that decided.
        asked: The skill that the caller would like to win; else it is the one that
            came nearest to it.
    """
    decision, algorithm = answered.decision, answered.algorithm
    if not words:
        yield "no word of the task says anything: describe it in more words"
        return
    if not any(each.place for each in contenders):
        yield f"no skill has any of these words: {_quote(words)}"
    elif isinstance(decision, NoMatch):
        yield from _by_least_score(contenders[0], matching)
    elif algorithm == "keyword":
        yield from _by_gap(decision, contenders, matching)
    else:
        yield from _by_chance(answered, matching)
    wanted = _choose_wanted(decision, contenders, asked)
    if wanted and algorithm == "keyword":
        yield from _by_keyword(wanted, contenders, words, matching)
    elif wanted:
        yield from _by_word(wanted, words)


def describe_number(number: Fraction) -> str:
    """Return a number with three digits that count, never rounded up.

    >>> [describe_number(Fraction(*n)) for n in ((2, 3), (1, 5), (1, 1), (0, 1))]
    ['0.666', '0.2', '1', '0']
    """
    rounded = _ROUNDED_DOWN.divide(number.numerator, number.denominator)
    return f"{rounded.normalize() if rounded else Decimal(0):f}"


def is_weak(evidence: Sequence[Evidence], word: str) -> bool:
    """Whether a word stands only where it counts little."""
    places = {each.where for each in evidence if each.word == word}
    return bool(places) and places <= _WEAK


def _by_least_score(best: Contender, matching: Matching) -> Iterator[str]:
    """Say what keeps the best skill out of an answer that names none."""
    score = describe_number(best.score)
    if best.score < exact(matching.min_score):
        yield (
            f"{best.skill.path} is the best with {score}, below min_score "
            f"{matching.min_score:g}: with min_score {score} or less it would be "
            "in the answer"
        )
    else:
        yield (
            f"{best.skill.path} is the best with {score}, but too little of the "
            "task speaks for it"
        )


def _by_gap(
    decision: Decision, contenders: Sequence[Contender], matching: Matching
) -> Iterator[str]:
    """Say how the gap of the two best skills has decided (keyword)."""
    best, second = contenders[0], contenders[1] if len(contenders) > 1 else None
    least, closest = exact(matching.min_score), exact(matching.ambiguity_threshold)
    gap = describe_number(best.score - second.score) if second else ""
    match decision:
        case Ambiguous() if second and best.score > second.score:
            yield (
                f"ambiguous because {second.skill.path} is only {gap} behind "
                f"{best.skill.path}, less than ambiguity_threshold "
                f"{matching.ambiguity_threshold:g}: with {gap} or less "
                f"{best.skill.path} would be the answer"
            )
        case Ambiguous() if second:
            yield _describe_tie(best, second)
        case Candidate() if second and second.place and second.score >= least:
            yield (
                f"{second.skill.path} is the runner-up, {gap} behind: below "
                f"{describe_number(closest)} (ambiguity_threshold) the answer would be "
                "ambiguous"
            )


def _by_chance(answered: Answered, matching: Matching) -> Iterator[str]:
    """Say how the chance that the best skill is not meant has decided (ranked)."""
    least = exact(matching.min_score) * NEAR_SHARE
    likely = [each for each in answered.compared if each.score >= least]
    if len(likely) <= 1:
        return
    best, second = likely[0], likely[1]
    wrong = 1 - derive_chances([each.score for each in likely])[0]
    # Rounded up, a limit that is named is a safe one.
    needed = f"{math.ceil(wrong * 1000) / 1000:g}"
    threshold = f"{matching.ambiguity_threshold:g}"
    if isinstance(answered.decision, Candidate):
        yield (
            f"{second.skill.path} is the runner-up; the chance that {best.skill.path} "
            f"is not meant is {needed}, and ambiguity_threshold allows {threshold}: "
            f"below {needed} the answer would be ambiguous"
        )
    elif best.score == second.score:
        yield _describe_tie(best, second)
    else:
        yield (
            f"ambiguous because the chance that {best.skill.path} is not meant is "
            f"{needed}, more than ambiguity_threshold {threshold}: with {needed} or "
            f"more {best.skill.path} would be the answer"
        )


def _describe_tie(best: Contender | Candidate, second: Contender | Candidate) -> str:
    return (
        f"ambiguous because {best.skill.path} and {second.skill.path} score "
        "the same: only a word that one of them lacks can decide"
    )


def _choose_wanted(
    decision: Decision, contenders: Sequence[Contender], asked: Skill | None
) -> Contender | None:
    """Return the skill whose author would like another answer."""
    if asked:
        return next(each for each in contenders if each.skill.path == asked.path)
    lost = 1 if isinstance(decision, Candidate) else 0
    return contenders[lost] if len(contenders) > lost else None


def _by_keyword(
    wanted: Contender,
    contenders: Sequence[Contender],
    words: Sequence[WordEvidence],
    matching: Matching,
) -> Iterator[str]:
    """Say which keywords would make a skill the answer."""
    path = wanted.skill.path
    rivals = (e.score for e in contenders if e is not wanted and e.place)
    rival = max(rivals, default=Fraction(0))
    gap = exact(matching.ambiguity_threshold)
    if wanted.score - rival >= gap and wanted.score >= exact(matching.min_score):
        return
    terms = _missing(wanted, words)[:_MOST_NEW_KEYWORDS]
    for number in range(1, len(terms) + 1):
        score = _with_more(wanted, number)
        is_clear = score > rival and score - rival >= gap
        if is_clear and score >= exact(matching.min_score):
            noun = "keyword" if number == 1 else "keywords"
            added = " and ".join(shorten(word.term) for word in terms[:number])
            yield f"{path} would win with the {noun} {added}"
            return
    total = len(wanted.skill.keywords)
    matched = _count_matched(wanted)
    yield (
        f"{path} has {matched} of its {total} keywords in the task: fewer keywords, or "
        "more of them from the task, would make each count more"
    )


def _with_more(wanted: Contender, number: int) -> Fraction:
    """Return the score with so many keywords more, all of which match."""
    matched = _count_matched(wanted) + number
    total = len(wanted.skill.keywords) + number
    return Fraction(matched, total) + wanted.skill.priority * PRIORITY_UNIT


def _count_matched(wanted: Contender) -> int:
    """Return how many keywords match; a score without any is none at all."""
    if wanted.place is None:
        return 0
    own = wanted.score - wanted.skill.priority * PRIORITY_UNIT
    return round(own * len(wanted.skill.keywords))


def _by_word(wanted: Contender, words: Sequence[WordEvidence]) -> Iterator[str]:
    """Say which words of the task a skill lacks, or has where they count little."""
    path = wanted.skill.path
    missing = _pick_heaviest(_missing(wanted, words))
    if missing:
        share = round(100 * sum(word.weight for word in missing))
        yield (
            f"{path} lacks {_quote(missing)}, {share} % of the task: its description "
            "or keywords are the place for what it is about"
        )
    weak = [word for word in words if is_weak(wanted.evidence, word.typed)]
    heaviest = _pick_heaviest(weak)
    if heaviest:
        yield (
            f"{path} has {_quote(heaviest)} only in its text, where it counts little: "
            "its description or keywords are the place for what it is about"
        )


def _pick_heaviest(words: Sequence[WordEvidence]) -> list[WordEvidence]:
    """Return a few words, or none if they are too small a part of the task."""
    heaviest = sorted(words, key=lambda word: -word.weight)[:_FEW]
    share = sum(word.weight for word in heaviest)
    return heaviest if share >= _WORTH_SAYING else []


def _missing(wanted: Contender, words: Sequence[WordEvidence]) -> list[WordEvidence]:
    """Return the words that do not speak for a skill, the rarest first.

    Of those that are as rare the last is first: tasks begin with what is to be done,
    which may be done to anything.
    """
    spoken = " ".join(each.word for each in wanted.evidence).split()
    missing = [word for word in reversed(words) if word.typed not in spoken]
    return sorted(missing, key=lambda word: word.skills)


def _quote(words: Sequence[WordEvidence]) -> str:
    shown = ", ".join(shorten(word.typed) for word in words[:_FEW])
    return f"{shown} and {len(words) - _FEW} more" if len(words) > _FEW else shown
