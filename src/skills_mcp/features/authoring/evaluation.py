"""Routing regression tests: outcome of each prompt, reason of a failure, and scores."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

from skills_mcp.config import Matching
from skills_mcp.errors import SkillNotFoundError
from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.features.authoring.prompts import Prompt, describe_missing_skill
from skills_mcp.library import Snapshot
from skills_mcp.routing.answer_explanation import (
    FOR_USERS_ONLY,
    format_rounded_down,
    is_in_weak_fields,
)
from skills_mcp.routing.decision import (
    Ambiguous,
    Decision,
    NoMatch,
    answered_candidates,
    decision_kind,
    score_and_decide,
    score_texts,
    select_texts,
    to_exact_fraction,
)
from skills_mcp.routing.matcher import Candidate, Evidence, Mask, Matcher
from skills_mcp.skills.model import SkillPath
from skills_mcp.skills.skill_index import SkillFilter, SkillIndex, compute_filter_mask

RANK_CUTOFF = 10
"""Rank cut-off; deeper ranks would not change the MRR."""

_DIGITS = 4  # of a share: a tenth of a prompt in a thousand
_MILLISECONDS_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """The decision for a prompt, and the ranking behind the decision."""

    prompt: Prompt
    decision: Decision
    """The answer of `get_skill`."""
    ranked: tuple[Candidate, ...]
    seconds: float
    """Latency of the decision, without the ranking."""

    @property
    def answers(self) -> tuple[str, ...]:
        """Paths of the matched skill, or of the candidates."""
        return tuple(candidate.skill.path for candidate in answered_candidates(self.decision))

    @property
    def rank(self) -> int | None:
        """Rank of the first expected skill, from 1; None beyond `RANK_CUTOFF`."""
        expected = set(self.prompt.expect)
        paths = enumerate((candidate.skill.path for candidate in self.ranked), 1)
        return next((rank for rank, path in paths if path in expected), None)

    @property
    def is_found(self) -> bool:
        """Whether an expected skill is the answer or a candidate."""
        return self._is_expected(answered_candidates(self.decision))

    @property
    def listed(self) -> tuple[str, ...]:
        """Paths listed in the reply: the answers, else the near misses."""
        if isinstance(self.decision, NoMatch):
            return tuple(candidate.skill.path for candidate in self.decision.near)
        return self.answers

    @property
    def is_listed(self) -> bool:
        """Whether the reply lists an expected skill, near misses included."""
        near = self.decision.near if isinstance(self.decision, NoMatch) else ()
        return self.is_found or self._is_expected(near)

    def _is_expected(self, candidates: Sequence[Candidate]) -> bool:
        """Whether one is expected, or stands for an expected near-copy."""
        expected = set(self.prompt.expect)
        return any(not expected.isdisjoint((c.skill.path, *c.near_copies)) for c in candidates)

    def is_right(self, *, is_strict: bool = False) -> bool:
        """Whether the answer is correct.

        Args:
            is_strict: Count an ambiguous answer as wrong, unless the prompt allows it.
        """
        if self._is_avoided_skill_found(is_strict=is_strict):
            return False
        if not self.prompt.expect:
            return bool(self.prompt.avoid) or not self.answers
        is_open = is_strict and not self.prompt.is_ambiguous
        return self.is_found and not (is_open and isinstance(self.decision, Ambiguous))

    def _is_avoided_skill_found(self, *, is_strict: bool) -> bool:
        """Whether an avoided skill is the answer; agents can pick another candidate."""
        counts = is_strict or not isinstance(self.decision, Ambiguous)
        return counts and not set(self.prompt.avoid).isdisjoint(self.answers)


def evaluate_prompts(
    prompts: Sequence[Prompt],
    matcher: Matcher,
    matching: Matching,
    index: SkillIndex,
    on_progress: OnProgress = ignore_progress,
) -> tuple[Outcome, ...]:
    """Route prompts as `get_skill` does, and rank their skills."""
    if prompts:  # indexes are built at first use: no prompt shall be timed with that
        score_and_decide(matcher, prompts[0].query, matching)
    look_up = cache(lambda scoping: narrow_to_scope(index, scoping))
    outcomes = []
    for done, prompt in enumerate(_follow_successors(prompts, index), 1):
        within = look_up(prompt.scoping)
        started = time.perf_counter()
        decision = score_and_decide(matcher, prompt.query, matching, within=within)
        seconds = time.perf_counter() - started
        ranked = rank_candidates(matcher, prompt.query, decision, within)
        outcomes.append(Outcome(prompt, decision, ranked, seconds))
        on_progress(done, len(prompts))
    return tuple(outcomes)


def _follow_successors(prompts: Iterable[Prompt], index: SkillIndex) -> Iterator[Prompt]:
    """Prompts of a replaced skill expect its successor, as the server answers with that."""
    successors = index.successors
    for prompt in prompts:
        expect = tuple(
            dict.fromkeys(str(successors.get(SkillPath(path), path)) for path in prompt.expect)
        )
        yield prompt if expect == prompt.expect else replace(prompt, expect=expect)


def rank_candidates(
    matcher: Matcher, query: str, decision: Decision, within: Mask = None
) -> tuple[Candidate, ...]:
    """Rank skills as the decision has read the prompt: its answers first."""
    texts = select_texts(matcher, query, within=within)
    best = score_texts(matcher, texts, limit=RANK_CUTOFF, within=within)
    answered = answered_candidates(decision)
    paths = {candidate.skill.path for candidate in answered}
    others = (candidate for candidate in best if candidate.skill.path not in paths)
    return (*answered, *others)[:RANK_CUTOFF]


def evaluate_snapshot(
    prompts: Sequence[Prompt], snapshot: Snapshot, on_progress: OnProgress = ignore_progress
) -> tuple[Outcome, ...]:
    """Evaluate prompts with the skills and settings of a snapshot."""
    matching = snapshot.config.matching
    return evaluate_prompts(prompts, snapshot.matcher, matching, snapshot.index, on_progress)


def narrow_to_scope(index: SkillIndex, scoping: SkillFilter) -> Mask:
    """Mask of the scoped skills; empty if the scope does not exist.

    An older commit may lack the scoped folder.
    """
    try:
        return compute_filter_mask(index, scoping)
    except SkillNotFoundError:
        import numpy as np  # late: the first answer first

        return np.zeros(len(index), np.bool_)


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """A prompt with different answers in two commits; no skill is an empty tuple."""

    query: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    was_right: bool
    is_right: bool


def diff_outcomes(before: Sequence[Outcome], after: Sequence[Outcome]) -> Iterator[AnswerChange]:
    """Diff two runs of the same prompts; scores and candidates' order are ignored."""
    for old, new in zip(before, after, strict=True):
        if set(old.answers) != set(new.answers):
            right = old.is_right(), new.is_right()
            yield AnswerChange(new.prompt.query, old.answers, new.answers, *right)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingScores:
    """Aggregate metrics; shares are 0 to 1, None without prompts."""

    queries: int
    served: int
    """Prompts with an expected skill: base of all shares but `abstained_right`."""
    unserved: int
    """Prompts with neither expected nor avoided skills."""
    accuracy_at_1: float | None
    hit_at_3: float | None
    hit_at_5: float | None
    mrr: float | None
    """Mean reciprocal rank of the first expected skill; 0 beyond rank 10."""
    abstained_right: float | None
    """Share of `unserved` answered with no match."""
    kept: float | None
    """Recall of the answer, candidates included."""
    in_answer: float | None
    """Recall of the reply, near misses included."""
    shown: float | None
    """Mean number of skills in a reply: one, the candidates, or the near misses."""
    single: int
    ambiguous: int
    no_match: int
    single_right: int
    p50_ms: float | None
    p99_ms: float | None
    """Milliseconds of routing alone."""


def score_outcomes(outcomes: Sequence[Outcome]) -> RoutingScores:
    served = [outcome for outcome in outcomes if outcome.prompt.expect]
    unserved = [
        outcome for outcome in outcomes if not outcome.prompt.expect and not outcome.prompt.avoid
    ]
    ranks = [outcome.rank for outcome in served]
    kinds = Counter(decision_kind(outcome.decision) for outcome in outcomes)
    singles = [o for o in served if decision_kind(o.decision) == "single"]
    return RoutingScores(
        queries=len(outcomes),
        served=len(served),
        unserved=len(unserved),
        accuracy_at_1=_mean([rank == 1 for rank in ranks]),
        hit_at_3=_mean([rank is not None and rank <= 3 for rank in ranks]),  # noqa: PLR2004 - its name
        hit_at_5=_mean([rank is not None and rank <= 5 for rank in ranks]),  # noqa: PLR2004 - its name
        mrr=_mean([1 / rank if rank else 0.0 for rank in ranks]),
        abstained_right=_mean([not outcome.answers for outcome in unserved]),
        kept=_mean([outcome.is_found for outcome in served]),
        in_answer=_mean([outcome.is_listed for outcome in served]),
        shown=_mean([len(outcome.listed) for outcome in served]),
        single=kinds["single"],
        ambiguous=kinds["ambiguous"],
        no_match=kinds["no_match"],
        single_right=sum(outcome.is_found for outcome in singles),
        p50_ms=_percentile(outcomes, 50),
        p99_ms=_percentile(outcomes, 99),
    )


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), _DIGITS) if values else None


def _percentile(outcomes: Sequence[Outcome], percent: int) -> float | None:
    """Nearest-rank percentile of the latency, in milliseconds."""
    if not outcomes:
        return None
    seconds = sorted(outcome.seconds for outcome in outcomes)
    at = -(-len(seconds) * percent // 100) - 1  # the nearest rank, rounded up
    return round(1000 * seconds[at], _MILLISECONDS_DIGITS)


def explain_failure(
    outcome: Outcome, matcher: Matcher, matching: Matching, index: SkillIndex
) -> str:
    """Explain a failed prompt to the author, in half a line."""
    query, answers = outcome.prompt.query, answered_candidates(outcome.decision)
    within = compute_filter_mask(index, outcome.prompt.scoping)
    if not outcome.prompt.expect:
        best = answers[0]
        summary = _describe_strongest_word(matcher.explain(query, best.skill, within=within))
        return f"{format_rounded_down(best.exact_score)} is enough (min_score); {summary}"
    if unfindable := _explain_unreachable(outcome, within, index):
        return unfindable
    expected = _choose_expected(outcome, index)
    evidence = matcher.explain(query, index.require(expected), within=within)
    if not any(item.word for item in evidence):
        return f"no word of the prompt speaks for {expected}"
    summary = _describe_strongest_word(evidence)
    if outcome.is_found:
        avoided = next((path for path in outcome.answers if path in outcome.prompt.avoid), None)
        reason = "ambiguous, which --strict does not allow"
        return f"{f'the prompt avoids {avoided}' if avoided else reason}; {summary}"
    score = _find_score(outcome, evidence)
    if isinstance(outcome.decision, NoMatch):
        return f"{_describe_miss(score, matching)}; {summary}"
    behind = format_rounded_down(max(answers[0].exact_score - score, Fraction(0)))
    return f"{_describe_rank(outcome)}, {behind} behind; {summary}"


def _choose_expected(outcome: Outcome, index: SkillIndex) -> str:
    if outcome.rank:
        return outcome.ranked[outcome.rank - 1].skill.path
    return next(path for path in outcome.prompt.expect if index.get(path))


def _explain_unreachable(outcome: Outcome, within: Mask, index: SkillIndex) -> str:
    missing = describe_missing_skill(outcome.prompt, index)
    if missing or within is None:
        return missing
    expected = _choose_expected(outcome, index)
    rows = zip(index.listed, within, strict=True)
    is_inside = any(is_in and row.path == expected for row, is_in in rows)
    if is_inside:
        return ""
    outside = "is outside of the part that the prompt names"
    return f"{expected} {FOR_USERS_ONLY if index.require(expected).user_only else outside}"


def _find_score(outcome: Outcome, evidence: Sequence[Evidence]) -> Fraction:
    if outcome.rank:
        return outcome.ranked[outcome.rank - 1].exact_score
    return sum((Fraction(str(item.worth)) for item in evidence), Fraction(0))


def _describe_miss(score: Fraction, matching: Matching) -> str:
    summary = f"it scores {format_rounded_down(score)}"
    if score < to_exact_fraction(matching.min_score):
        return f"{summary}, below min_score {matching.min_score:g}"
    return f"{summary}, but too little of the prompt speaks for it"


def _describe_rank(outcome: Outcome) -> str:
    rank = outcome.rank
    return f"in place {rank}" if rank else f"not among the first {RANK_CUTOFF}"


def _describe_strongest_word(evidence: Sequence[Evidence]) -> str:
    """Describe the word with the highest weight, and its field."""
    worths: defaultdict[str, float] = defaultdict(float)
    for item in evidence:
        if item.word:
            worths[item.word] += item.worth
    if not worths:
        return "by none of its words"
    word = max(worths, key=lambda word: worths[word])
    if is_in_weak_fields(evidence, word):
        return f"its best word {word!r} is only in the body"
    strongest = max((e for e in evidence if e.word == word), key=lambda e: e.worth)
    match strongest.where:
        case "keyword" | "synonym" as kind:
            return f"its best word is {word!r}, by the {kind} {strongest.found!r}"
        case "pair":
            return f"its best words {word!r} stand {strongest.found}"
        case field:
            return f"its best word {word!r} is in its {field}"
