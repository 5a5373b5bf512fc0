"""What each prompt gets, why it fails, and the scores of all prompts together."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from skills_mcp.config import Matching
from skills_mcp.errors import SkillNotFoundError
from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.features.authoring.evaluation.prompts import Prompt, find_missing
from skills_mcp.library import Snapshot
from skills_mcp.routing.decision import (
    Ambiguous,
    Decision,
    NoMatch,
    choose,
    exact,
    list_answers,
    name_decision,
)
from skills_mcp.routing.matcher import Candidate, Evidence, Mask, Matcher
from skills_mcp.routing.remedies import describe_number, is_weak
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.scoping import Scoping, narrow

DEPTH = 10
"""How many skills of the ranking are looked at; more would not move the MRR."""

_DIGITS = 4  # of a share: a tenth of a prompt in a thousand
_MILLISECONDS_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a prompt, and the ranking behind it."""

    prompt: Prompt
    decision: Decision
    """The answer of `get_skill`."""
    ranked: tuple[Candidate, ...]
    """The first `DEPTH` skills, however low they score."""
    seconds: float
    """How long the answer took, without the ranking."""

    @property
    def answers(self) -> tuple[str, ...]:
        """The paths of the skill, or of the candidates, that the answer names."""
        return tuple(each.skill.path for each in list_answers(self.decision))

    @property
    def place(self) -> int | None:
        """The rank of the first right skill, from 1; None beyond `DEPTH`."""
        expected = set(self.prompt.expect)
        paths = enumerate((each.skill.path for each in self.ranked), 1)
        return next((place for place, path in paths if path in expected), None)

    @property
    def is_kept(self) -> bool:
        """Whether a right skill is the answer, or among the candidates."""
        return not set(self.prompt.expect).isdisjoint(self.answers)

    @property
    def shown(self) -> tuple[str, ...]:
        """The paths that the agent reads: the answers, or the near misses of none."""
        if isinstance(self.decision, NoMatch):
            return tuple(each.skill.path for each in self.decision.near)
        return self.answers

    @property
    def is_shown(self) -> bool:
        """Whether the agent reads of a right skill, and so can choose it."""
        return not set(self.prompt.expect).isdisjoint(self.shown)

    def is_right(self, *, is_strict: bool = False) -> bool:
        """Whether the prompt got a right answer.

        Args:
            is_strict: An ambiguous answer is wrong, unless the prompt allows it.
        """
        if self._is_avoided_skill_found(is_strict=is_strict):
            return False
        if not self.prompt.expect:
            return bool(self.prompt.avoid) or not self.answers
        is_open = is_strict and not self.prompt.is_ambiguous
        return self.is_kept and not (is_open and isinstance(self.decision, Ambiguous))

    def _is_avoided_skill_found(self, *, is_strict: bool) -> bool:
        """Whether the answer is a skill that it must not be.

        An agent that is given several skills picks another one of them.
        """
        counts = is_strict or not isinstance(self.decision, Ambiguous)
        return counts and not set(self.prompt.avoid).isdisjoint(self.answers)


def measure(
    prompts: Sequence[Prompt],
    matcher: Matcher,
    matching: Matching,
    index: SkillIndex,
    on_progress: OnProgress = ignore_progress,
) -> tuple[Outcome, ...]:
    """Route every prompt as `get_skill` does, and look at the ranking behind it.

    Args:
        prompts: The prompts to route.
        matcher: Of the same snapshot as `index`.
        matching: The settings in force.
        index: The skills, in the order of the matcher.
        on_progress: Called after each prompt.
    """
    if prompts:  # indexes are built at first use: no prompt shall be timed with that
        choose(matcher, prompts[0].query, matching)
    look_up = cache(lambda scoping: _narrow(index, scoping))
    outcomes = []
    for done, prompt in enumerate(prompts, 1):
        within = look_up(prompt.scoping)
        started = time.perf_counter()
        decision = choose(matcher, prompt.query, matching, within=within)
        seconds = time.perf_counter() - started
        ranked = matcher.score(prompt.query, most=DEPTH, within=within)
        outcomes.append(Outcome(prompt, decision, ranked, seconds))
        on_progress(done, len(prompts))
    return tuple(outcomes)


def measure_snapshot(
    prompts: Sequence[Prompt],
    snapshot: Snapshot,
    on_progress: OnProgress = ignore_progress,
) -> tuple[Outcome, ...]:
    """Route every prompt among the skills of a snapshot, by its settings."""
    matching = snapshot.config.matching
    return measure(prompts, snapshot.matcher, matching, snapshot.index, on_progress)


def _narrow(index: SkillIndex, scoping: Scoping) -> Mask:
    """Return the skills of a part; an empty mask if the part does not exist.

    An older commit of the content may lack a folder that a prompt is about.
    """
    try:
        return narrow(index, scoping)
    except SkillNotFoundError:
        import numpy as np  # late: the first answer first

        return np.zeros(len(index), np.bool_)


@dataclass(frozen=True, slots=True)
class Change:
    """A prompt whose skills differ between two commits; none is an empty tuple."""

    query: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    was_right: bool
    is_right: bool


def compare(before: Sequence[Outcome], after: Sequence[Outcome]) -> Iterator[Change]:
    """Iterate over the prompts whose skills differ.

    Scores and the order of candidates do not count: the agent picks one anyway.

    Args:
        before: The outcomes of the older commit.
        after: The outcomes of the same prompts now, in the same order.
    """
    for old, new in zip(before, after, strict=True):
        if set(old.answers) != set(new.answers):
            right = old.is_right(), new.is_right()
            yield Change(new.prompt.query, old.answers, new.answers, *right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Numbers over all prompts.  Shares are 0 to 1; None if there is no prompt."""

    queries: int
    """All prompts."""
    served: int
    """Prompts that expect a skill; all shares but `abstained_right` are of these."""
    unserved: int
    """Prompts that no skill should answer; others may only avoid some skills."""
    accuracy_at_1: float | None
    """Where a right skill is the first of the ranking, however low it scores."""
    hit_at_3: float | None
    hit_at_5: float | None
    mrr: float | None
    """The mean of 1 / place of the first right skill; 0 beyond the tenth place."""
    abstained_right: float | None
    """The share of `unserved` that got no skill."""
    kept: float | None
    """Where a right skill is the answer, or among the candidates."""
    in_answer: float | None
    """The same, or among the near misses: where the agent reads of a right skill."""
    shown: float | None
    """The mean number of skills in an answer: one, the candidates, or near misses."""
    single: int
    ambiguous: int
    no_match: int
    single_right: int
    """Single answers that are right."""
    p50_ms: float | None
    p99_ms: float | None
    """Milliseconds of routing alone."""


def score_outcomes(outcomes: Sequence[Outcome]) -> Scores:
    """Return the numbers over all outcomes."""
    served = [outcome for outcome in outcomes if outcome.prompt.expect]
    unserved = [
        outcome
        for outcome in outcomes
        if not outcome.prompt.expect and not outcome.prompt.avoid
    ]
    places = [outcome.place for outcome in served]
    kinds = Counter(name_decision(outcome.decision) for outcome in outcomes)
    singles = [o for o in served if name_decision(o.decision) == "single"]
    return Scores(
        queries=len(outcomes),
        served=len(served),
        unserved=len(unserved),
        accuracy_at_1=_mean([place == 1 for place in places]),
        hit_at_3=_mean([place is not None and place <= 3 for place in places]),  # noqa: PLR2004 - its name
        hit_at_5=_mean([place is not None and place <= 5 for place in places]),  # noqa: PLR2004 - its name
        mrr=_mean([1 / place if place else 0.0 for place in places]),
        abstained_right=_mean([not outcome.answers for outcome in unserved]),
        kept=_mean([outcome.is_kept for outcome in served]),
        in_answer=_mean([outcome.is_shown for outcome in served]),
        shown=_mean([len(outcome.shown) for outcome in served]),
        single=kinds["single"],
        ambiguous=kinds["ambiguous"],
        no_match=kinds["no_match"],
        single_right=sum(outcome.is_kept for outcome in singles),
        p50_ms=_percentile(outcomes, 50),
        p99_ms=_percentile(outcomes, 99),
    )


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), _DIGITS) if values else None


def _percentile(outcomes: Sequence[Outcome], percent: int) -> float | None:
    """Return the milliseconds that so many per cent of the answers do not exceed."""
    if not outcomes:
        return None
    seconds = sorted(outcome.seconds for outcome in outcomes)
    at = -(-len(seconds) * percent // 100) - 1  # the nearest rank, rounded up
    return round(1000 * seconds[at], _MILLISECONDS_DIGITS)


def give_reason(
    outcome: Outcome, matcher: Matcher, matching: Matching, index: SkillIndex
) -> str:
    """Say in half a line, for the author, why a prompt failed.

    Args:
        outcome: A wrong outcome.
        matcher: The one that routed the prompt.
        matching: The settings that decided.
        index: The skills of the same snapshot.
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
    """Return the expected skill with the best rank."""
    if outcome.place:
        return outcome.ranked[outcome.place - 1].skill.path
    return next(path for path in outcome.prompt.expect if index.get(path))


def _find_unfindable(outcome: Outcome, within: Mask, index: SkillIndex) -> str:
    """Say why no wording could find the skill; empty if it can be found."""
    missing = find_missing(outcome.prompt, index)
    if missing or within is None:
        return missing
    wanted = _choose_wanted(outcome, index)
    rows = zip(index.listed, within, strict=True)
    is_inside = any(is_in and row.path == wanted for row, is_in in rows)
    return "" if is_inside else f"{wanted} is outside of the part that the prompt names"


def _find_score(outcome: Outcome, evidence: Sequence[Evidence]) -> Fraction:
    """Return the score of the expected skill; beyond `DEPTH`, from its evidence."""
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
    """Say which word is worth most, and in which part of the skill it is."""
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
