"""Decision thresholds: from the scores of candidates to one skill, a choice, or none.

The keyword algorithm compares the two best scores, as its specification says. Its
scores are fractions: 0.5 against 0.4 is a gap of exactly 0.1, not less; binary floating
point would make it less. The ranked algorithm turns scores into probabilities; see
docs/explanation/routing.md. A long task is cut to its relevant part first.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache, partial
from itertools import chain, islice, zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING

from skills_mcp.config import Matching
from skills_mcp.routing.matcher import (
    Algorithm,
    Candidate,
    Mask,
    Matcher,
    MixedMatcher,
    candidate_sort_key,
    find_matcher,
)
from skills_mcp.routing.tokenizer import SILENT_WORDS, fold, split_intents
from skills_mcp.skills.model import Skill, SkillPath

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    import numpy as np
    from numpy.typing import NDArray

# A longer context is not scored as it is: most of it was pasted, and what people wrote
# themselves is found in parts, too (measured: docs/explanation/routing.md). To the
# keyword algorithm, which the specification defines, 10,000 are usual.
MAX_UNCUT_CHARACTERS: Mapping[Algorithm, int] = MappingProxyType(
    {"keyword": 10_000, "ranked": 600, "mixed": 600}
)
"""Characters of a context scored without a cut."""

_MAX_PART_CHARACTERS = 600  # characters; as much as a person writes
_MIN_PART_CHARACTERS = 20  # a greeting is shorter, and no task

# As long as a page of requirements; what is longer was pasted, and costs more to read.
_MAX_WHOLE_CHARACTERS = 10_000

# How well a skill fits (`Matcher.rate`) that is likely meant; with less for the ends, a
# prompt with headings had its task between them. Measured: docs/explanation/routing.md.
_GOOD_SCORE = 0.4
_NEAR_MISS_SCORE = 0.05  # below it a skill is no near miss, unless the settings say otherwise

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_LINE_END = re.compile(r"\n")
_WORD = re.compile(r"\w{3,64}")  # shorter words say little, longer ones are data

_MAX_PARAGRAPHS = 6  # among more, the best fits by chance
_MAX_COUNTED_WORDS = 500
_MAX_EXCERPT_WORDS = 30  # as many as a long task has; more find no better


def select_relevant_part(matcher: Matcher, context: str, *, within: Mask = None) -> str:
    """Select the part of a long text with the best score; a short text stays whole.

    Mostly the task stands before the pasted text, or behind it, and all the rest would
    be evidence against every skill. So a pasted ticket or log is read as its beginning
    and its end; if no skill fits these, and none is near the whole that is scored, too, as
    the paragraphs between, if they are few; and if none is near, as its most frequent terms.
    Linear, bounded.
    """
    if len(context) <= MAX_UNCUT_CHARACTERS[matcher.algorithm]:
        return context
    scores: dict[str, float] = {}
    is_near_as_whole = cache(partial(_is_near_as_whole, matcher, context, within))
    for split, good_score in _STRATEGIES:
        parts = [part for part in split(context) if part not in scores]
        scores |= {part: matcher.quick_score(part, within=within) for part in parts}
        if max(scores.values()) >= good_score or is_near_as_whole():
            break
    return max(scores, key=scores.__getitem__)


def select_texts(matcher: Matcher, context: str, *, within: Mask = None) -> tuple[str, ...]:
    """Select the scored texts: the relevant part, and the whole if it is not too long.

    Each skill takes the better of the two: a requirement of several pages has no sentence
    that stands for all of it, and a pasted log has nothing but that.
    """
    part = select_relevant_part(matcher, context, within=within)
    has_both = _scores_whole(matcher, context) and part != context
    return (part, context) if has_both else (part,)


def _scores_whole(matcher: Matcher, context: str) -> bool:
    return matcher.algorithm == "ranked" and len(context) <= _MAX_WHOLE_CHARACTERS


def _is_near_as_whole(matcher: Matcher, context: str, within: Mask) -> bool:
    is_scored = _scores_whole(matcher, context)
    return is_scored and matcher.quick_score(context, within=within) >= _NEAR_MISS_SCORE


def score_texts(
    matcher: Matcher,
    texts: Sequence[str],
    *,
    min_score: Fraction | None = None,
    limit: int | None = None,
    within: Mask = None,
) -> tuple[Candidate, ...]:
    """Score several texts of one task: the best score of each skill, best first."""
    best: dict[SkillPath, Candidate] = {}
    for text in texts:
        for found in matcher.score(text, min_score=min_score, limit=limit, within=within):
            known = best.get(found.skill.path)
            if known is None or known.exact_score < found.exact_score:
                best[found.skill.path] = found
    if len(texts) == 1:
        return tuple(best.values())
    # What one part says not to use is not served for another.
    for text in texts:
        for path in matcher.find_negated(text).paths:
            best.pop(path, None)
    return tuple(sorted(best.values(), key=candidate_sort_key)[:limit])


def take_ends(text: str) -> tuple[str, str]:
    text = text.strip()
    return _take_first(text), _take_last(text)


def _take_first(text: str) -> str:
    beginning = text[: _MAX_PART_CHARACTERS + 1]
    for boundary in (_BLANK_LINE, _LINE_END):
        for found in boundary.finditer(beginning, _MIN_PART_CHARACTERS):
            return beginning[: found.start()]
    return beginning[:_MAX_PART_CHARACTERS]


def _take_last(text: str) -> str:
    end = text[-_MAX_PART_CHARACTERS - 1 :]
    for boundary in (_BLANK_LINE, _LINE_END):
        for found in reversed(list(boundary.finditer(end, 0, len(end) - _MIN_PART_CHARACTERS))):
            return end[found.end() :]
    return end[-_MAX_PART_CHARACTERS:]


def find_short_paragraphs(text: str) -> Sequence[str]:
    """Find the paragraphs short enough to be typed; none if there are many."""
    found = [
        paragraph
        for paragraph in _BLANK_LINE.split(text)
        if _MIN_PART_CHARACTERS <= len(paragraph) <= _MAX_PART_CHARACTERS
    ]
    return found if len(found) <= _MAX_PARAGRAPHS else ()


def join_frequent_terms(text: str) -> tuple[str]:
    """Join the most frequent terms, with common words discounted, to one text."""
    # Late: the stemmer and the lists of words are not needed for the first answer.
    from skills_mcp.routing.lexicon import common_word_weight, stem

    counted = Counter(_WORD.findall(text))
    folded: Counter[str] = Counter()
    for word, count in counted.most_common(_MAX_COUNTED_WORDS):
        if not word[0].isdecimal():
            folded[fold(word)] += count
    worth = {
        word: count * common_word_weight(stem(word))
        for word, count in folded.items()
        if word not in SILENT_WORDS
    }
    best = sorted(worth, key=lambda word: (-worth[word], word))
    return (" ".join(best[:_MAX_EXCERPT_WORDS]),)


# How to read a long text, and how well a part has to fit so that no other way is tried.
_STRATEGIES: Sequence[tuple[Callable[[str], Iterable[str]], float]] = (
    (take_ends, _GOOD_SCORE),
    (find_short_paragraphs, _NEAR_MISS_SCORE),
    (join_frequent_terms, 0),
)


PRIORITY_UNIT = Fraction(1, 1000)
"""Score added per step of priority: so little that it only breaks ties."""

_COMPARED_CANDIDATES = 30  # as many as are re-ranked

_RESCORED_CANDIDATES = 20  # more than an ambiguous answer lists

_MAX_SPLITS = 4  # conjunctions of one task that are tried: each costs two rankings

MAX_NEAR_MISSES = 3
"""Near misses of one answer; a caller without rules has no time for a list."""

# Of the least score. Of the tasks that are refused although a skill serves them, 41 to
# 100 in 100 have it among such near misses, and with less hardly more; of those from
# another field, 31 to 87 have any, and with less nearly all. Measured.
NEAR_MISS_SHARE = Fraction(1, 4)
"""Share of `min_score` from which a skill is a near miss."""


# Of the ranked algorithm; near the likeliest for sets of tasks, each left out once:
# then 2.2 to 2.4, and 0.06 to 0.08 (measured).
ODDS_EXPONENT = 2.2
"""Exponent of a score's odds: how fast the better of two becomes certain."""
NO_MATCH_ODDS = 0.06
"""Weight of "no skill serves this" among the odds of the skills."""
# Of the tasks of the same field that no skill serves, 7 in 100 got full rules with the
# weight above, and none of 143 with this one; a list costs a call, wrong rules the task.
UNSERVED_ODDS = 0.3
"""Weight of "no skill serves this" where one skill would be served with all its rules."""
LISTED_SHARE = 0.6
"""Probability from which a skill is listed, as a share of `ambiguity_threshold`."""
# Among 10,000 skills, so many compete for most tasks, and the right one is often a little
# less likely; among a few hundred, for hardly any. Measured.
CROWDED_SHARE = 0.5
"""`LISTED_SHARE` where the one at `_CROWD` has `_CROWDED_PROBABILITY`."""
_CROWD = 16
_CROWDED_PROBABILITY = 0.01
# Eight hold the right skill 3 to 4 times less in a hundred among 10,000 and 50,000
# skills; small libraries rarely list as many. Measured.
MAX_LISTED = 16
"""Candidates of an ambiguous answer of the ranked algorithm, at most."""
PROBABILITY_DEPTH = 5
"""Candidates beyond this rank hardly change a probability."""
_MAX_FINITE_SCORE = 1 - 1e-6  # a score of 1 is that of a name


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """The best skills are too close to call; the caller picks one, or none."""

    candidates: tuple[Candidate, ...]
    is_low_confidence: bool = False
    """Whether none may fit: the keyword algorithm, with declared words, knows no such case."""


@dataclass(frozen=True, slots=True)
class NoMatch:
    """No skill serves this task."""

    near: tuple[Candidate, ...] = ()
    """Near misses: below the threshold, but with evidence in the task."""


_NEAR_COPY_SHARE = 0.9
"""Share of their words that two texts of one name have in common as near-copies."""
_HASH_STEP = 0x1E3779B97F4A7C15  # odd, so that occurrences of words are hardly ever equal
_NEAR_COPY_SIZE = 0.8  # so much of their characters at least, as a few words may be long


def merge_near_copies(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Merge skills of one name with nearly the same text, best first.

    A repository holds them once for each agent, with a few words changed. The one in a
    visible folder stands for the others, and has the score of the best.
    """
    groups: list[list[Candidate]] = []
    by_name: dict[tuple[str, str], list[list[Candidate]]] = defaultdict(list)
    for candidate in sorted(candidates, key=candidate_sort_key):
        named_alike = by_name[candidate.skill.name.casefold(), candidate.skill.scope]
        # The texts of skills with names of their own need not be read.
        alike = (group for group in named_alike if _are_near_copies(group[0], candidate))
        group = next(alike, None)
        if group is None:
            group = []
            groups.append(group)
            named_alike.append(group)
        group.append(candidate)
    return [_choose_visible(group) for group in groups]


def _choose_visible(group: Sequence[Candidate]) -> Candidate:
    if len(group) == 1:
        return group[0]
    chosen = min(group, key=lambda c: any(p.startswith(".") for p in c.skill.path.split("/")))
    others = tuple(c.skill.path for c in group if c is not chosen)
    return replace(chosen, exact_score=group[0].exact_score, near_copies=others)


def _are_near_copies(*candidates: Candidate) -> bool:
    one, other = ((each.skill.description, each.skill.body) for each in candidates)
    sizes = sum(map(len, one)), sum(map(len, other))
    # Of hundreds with one name most differ in size, which is told at a hundredth of the time.
    return 2 * min(sizes) >= _NEAR_COPY_SIZE * sum(sizes) and _share_words(one, other)


# A task merges the same ones up to three times, and the next one may find them again.
@lru_cache(maxsize=256)
def _share_words(one: tuple[str, str], other: tuple[str, str]) -> bool:
    import numpy as np

    first, second = _hash_words(*one), _hash_words(*other)
    both = np.sort(np.concatenate((first, second)))
    shared = np.count_nonzero(both[1:] == both[:-1])
    return bool(2 * shared >= _NEAR_COPY_SHARE * len(both))


@lru_cache(maxsize=512)  # of 8 KB
def _hash_words(description: str, body: str) -> "NDArray[np.int64]":
    """Hash the words of a text, each occurrence to another number."""
    import numpy as np

    hashes = np.sort(np.fromiter(map(hash, f"{description}\n{body}".split()), np.int64))
    positions = np.arange(len(hashes))
    starts = np.maximum.accumulate(positions * np.diff(hashes, prepend=0).astype(bool))
    return hashes + (positions - starts) * _HASH_STEP


Decision = Candidate | Ambiguous | NoMatch
"""One skill is clearly the best, several are too close to call, or none serves."""


def score_and_decide(
    matcher: Matcher, context: str, matching: Matching, *, within: Mask = None
) -> Decision:
    """Score a task against all skills and decide, as `get_skill` does.

    A task with two intents, each clearly for another skill, gets both. The keyword algorithm,
    which the specification defines, knows no such answer.
    """
    decision = _decide_as_one(matcher, context, matching, within=within)
    is_divisible = matcher.algorithm != "keyword" and len(context) <= _MAX_PART_CHARACTERS
    if not isinstance(decision, Ambiguous) or not is_divisible:
        return decision
    listed = {candidate.skill.path for candidate in decision.candidates}
    for intents in islice(split_intents(context), _MAX_SPLITS):
        first = _decide_as_one(matcher, intents[0], matching, within=within)
        if not isinstance(first, Candidate) or first.skill.path not in listed:
            continue  # the second one need not be ranked
        second = _decide_as_one(matcher, intents[1], matching, within=within)
        if isinstance(second, Candidate):
            paths = {first.skill.path, second.skill.path}
            matchers = (find_matcher(matcher, found.skill) for found in (first, second))
            is_ranked = any(each.algorithm != "keyword" for each in matchers)
            if len(paths) == len(intents) and paths <= listed and is_ranked:
                return replace(first, also=second)
    return decision


def _decide_as_one(
    matcher: Matcher, context: str, matching: Matching, *, within: Mask = None
) -> Decision:
    if isinstance(matcher, MixedMatcher):
        return _decide_mixed(matcher, context, matching, within)
    texts = select_texts(matcher, context, within=within)
    limit = _count_candidates(matching, matcher.algorithm)
    score = partial(
        score_texts, matcher, texts, min_score=_near_miss_threshold(matching), within=within
    )
    candidates = score(limit=limit)
    if matcher.algorithm == "ranked" and len(merge_near_copies(candidates)) < len(candidates):
        candidates = score(limit=max(limit, _COMPARED_CANDIDATES))
    return apply_thresholds(candidates, matching, matcher.algorithm)


def _decide_mixed(
    matcher: MixedMatcher, context: str, matching: Matching, within: Mask
) -> Decision:
    """Decide among rule files by keywords and among the others by rank, and join both.

    What a rule file declares is its author's decision, so it gives way only to a skill
    that is clearly better, by all words of both.
    """
    part = matcher.declared
    by_keywords = _decide_as_one(part.matcher, context, matching, within=part.narrow(within))
    texts = select_texts(matcher.others.matcher, context, within=within)
    floor = _near_miss_threshold(matching)
    all_ranked = score_texts(
        matcher.others.matcher, texts, min_score=floor, limit=_COMPARED_CANDIDATES, within=within
    )
    others = [c for c in all_ranked if c.replaces or matcher.find_part(c.skill) is matcher.others]
    by_rank = apply_thresholds(others, matching, "ranked")
    if isinstance(by_keywords, NoMatch) and isinstance(by_rank, NoMatch):
        alternating = chain.from_iterable(zip_longest(by_keywords.near, by_rank.near))
        return NoMatch(tuple(filter(None, alternating))[:MAX_NEAR_MISSES])
    if isinstance(by_keywords, NoMatch):
        return by_rank
    if isinstance(by_rank, NoMatch):
        return by_keywords
    return _join_decisions(by_keywords, by_rank, all_ranked, matching)


def _join_decisions(
    by_keywords: Decision, by_rank: Decision, all_ranked: Sequence[Candidate], matching: Matching
) -> Decision:
    declared, ranked = answered_candidates(by_keywords), answered_candidates(by_rank)
    scores = {candidate.skill.path: candidate.exact_score for candidate in all_ranked}
    floor = max(scores.get(candidate.skill.path, Fraction(0)) for candidate in declared)
    better = [candidate for candidate in ranked if candidate.exact_score > floor]
    if not better:
        return by_keywords
    winner = apply_thresholds(all_ranked, matching, "ranked")
    is_clear = isinstance(winner, Candidate) and winner.skill.path == better[0].skill.path
    is_named = better[0].exact_score == 1
    if is_named or (is_clear and isinstance(by_keywords, Ambiguous)):
        return better[0]
    both = (*better, *declared) if is_clear else (*declared, *better)
    return Ambiguous(both[:MAX_LISTED], is_low_confidence=True)


def _count_candidates(matching: Matching, algorithm: Algorithm) -> int:
    # The chance of each of the best depends on all of them, listed or not.
    compared = MAX_LISTED if algorithm == "ranked" else MAX_NEAR_MISSES
    return max(matching.max_results, compared)


def apply_thresholds(
    candidates: Iterable[Candidate],
    matching: Matching,
    algorithm: Algorithm = "keyword",
) -> Decision:
    """Apply the thresholds to candidates in any order.

    A deprecated skill is served only if no other one is relevant, and listed behind the
    others if it is clearly better than these.
    """
    candidates = list(candidates)
    others = [found for found in candidates if not found.skill.lifecycle.is_deprecated]
    decision = _decide(others, matching, algorithm)
    if len(others) == len(candidates):
        return decision
    among_all = _decide(candidates, matching, algorithm)
    if isinstance(decision, NoMatch):
        return among_all
    if isinstance(among_all, Candidate) and among_all.skill.lifecycle.is_deprecated:
        listed = (*answered_candidates(decision)[: matching.max_results - 1], among_all)
        return Ambiguous(tuple(listed), is_low_confidence=algorithm == "ranked")
    return decision


def _decide(candidates: Iterable[Candidate], matching: Matching, algorithm: Algorithm) -> Decision:
    threshold = _near_miss_threshold(matching)
    is_literal = algorithm == "keyword"
    ranked = (
        sorted(candidates, key=candidate_sort_key) if is_literal else merge_near_copies(candidates)
    )
    relevant = [candidate for candidate in ranked if candidate.exact_score >= threshold]
    if not relevant or relevant[0].exact_score < to_exact_fraction(matching.min_score):
        return NoMatch(tuple(relevant[:MAX_NEAR_MISSES]))
    if algorithm == "ranked":
        return _decide_by_probability(relevant, matching)
    return _decide_by_margin(relevant, matching)


def _decide_by_margin(near: Sequence[Candidate], matching: Matching) -> Decision:
    min_score = to_exact_fraction(matching.min_score)
    ranked = [candidate for candidate in near if candidate.exact_score >= min_score]
    if len(ranked) > 1 and is_within_margin(ranked[0], ranked[1], matching):
        return Ambiguous(tuple(ranked[: matching.max_results]))
    return ranked[0]


def _decide_by_probability(near: Sequence[Candidate], matching: Matching) -> Decision:
    """List by probability: at a given mean length, it omits the right skill least."""
    near = near[:MAX_LISTED]
    scores = [candidate.exact_score for candidate in near]
    is_certain = estimate_certainty(scores) >= 1 - matching.ambiguity_threshold
    if is_certain:
        return near[0]
    chances = estimate_probabilities(scores)
    is_crowded = min(chances[_CROWD - 1 : _CROWD], default=0) >= _CROWDED_PROBABILITY
    share = CROWDED_SHARE if is_crowded else LISTED_SHARE
    likely = sum(chance >= share * matching.ambiguity_threshold for chance in chances)
    return Ambiguous(tuple(near[: max(likely, 2)]), is_low_confidence=True)


def estimate_probabilities(scores: Sequence[Fraction]) -> list[float]:
    """Estimate for each ranked skill the probability of being the right one.

    Proportional to the odds of the scores, to a power. The first `PROBABILITY_DEPTH`
    sum to less than 1: the rest is the probability of no match. A skill behind them is
    compared with these. The fit and its limits are in docs/explanation/routing.md.

    Args:
        scores: Best first, each from 0 to 1.

    >>> [round(p, 2) for p in estimate_probabilities([Fraction(4, 5), Fraction(3, 5)])]
    [0.89, 0.1]
    """
    odds = [_to_odds(score) for score in scores]
    total = sum(odds[:PROBABILITY_DEPTH]) + NO_MATCH_ODDS
    return [odd / total for odd in odds]


def estimate_certainty(scores: Sequence[Fraction]) -> float:
    """Estimate the probability of the best skill, before all its rules are served.

    As `estimate_probabilities`, but with `UNSERVED_ODDS`: also a skill that nothing
    competes with may serve another task.

    >>> round(estimate_certainty([Fraction(4, 5)]), 2)
    0.99
    """
    odds = [_to_odds(score) for score in scores[:PROBABILITY_DEPTH]]
    return odds[0] / (sum(odds) + UNSERVED_ODDS)


def _to_odds(score: Fraction) -> float:
    certain = min(float(score), _MAX_FINITE_SCORE)
    return float((certain / (1 - certain)) ** ODDS_EXPONENT)


def score_picked_skill(matcher: Matcher, context: str, skill: Skill, alone: Mask) -> Candidate:
    """Score one picked skill: among the others if near the best, else alone."""
    matcher = find_matcher(matcher, skill)
    texts = select_texts(matcher, context)
    near = score_texts(matcher, texts, limit=_RESCORED_CANDIDATES)
    found = (*near, *score_texts(matcher, texts, within=alone))
    unmatched = Candidate(skill, Fraction(0), ())
    return next((c for c in found if c.skill.path == skill.path), unmatched)


_KINDS = {Candidate: "single", Ambiguous: "ambiguous", NoMatch: "no_match"}


def decision_kind(decision: Decision) -> str:
    return _KINDS[type(decision)]


def answered_candidates(decision: Decision) -> tuple[Candidate, ...]:
    match decision:
        case Candidate():
            return (decision,) if decision.also is None else (decision, decision.also)
        case Ambiguous():
            return decision.candidates
        case NoMatch():
            return ()


def is_ambiguous_candidate(skill: Skill, decision: Decision) -> bool:
    return isinstance(decision, Ambiguous) and _has_skill(decision.candidates, skill)


def is_near_miss(skill: Skill, decision: Decision) -> bool:
    return isinstance(decision, NoMatch) and _has_skill(decision.near, skill)


def _has_skill(candidates: Iterable[Candidate], skill: Skill) -> bool:
    return any(candidate.skill.path == skill.path for candidate in candidates)


@cache
def to_exact_fraction(setting: float) -> Fraction:
    """Convert to the decimal number as written, not to its binary neighbour."""
    return Fraction(str(setting))


def _near_miss_threshold(matching: Matching) -> Fraction:
    return to_exact_fraction(matching.min_score) * NEAR_MISS_SHARE


def is_within_margin(best: Candidate, second: Candidate, matching: Matching) -> bool:
    return best.exact_score - second.exact_score < to_exact_fraction(matching.ambiguity_threshold)
