"""How long routing takes at three sizes, and the literal loop beside it."""

import math
import statistics
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from benchmarks.content import Library, Text, make_long_skill, make_long_tasks
from benchmarks.figures import KINDS, LONG_SKILLS, SIZES, Measured, Results
from benchmarks.timing import in_new_process, timed
from skills_mcp.config import Matching
from skills_mcp.routing.decision import score_and_decide
from skills_mcp.routing.inverted_index import TextIndex
from skills_mcp.routing.keyword_matcher import (
    KeywordIndex,
    KeywordMatcher,
    is_short,
    normalize_keyword,
)
from skills_mcp.routing.matcher import Matcher
from skills_mcp.routing.ranked_matcher import RankedMatcher, to_indexed_document
from skills_mcp.routing.tokenizer import tokenize
from skills_mcp.skills.model import Skill

_LOOPED_AT_ONCE = 400_000
"""Skills that the loop visits at each size: forty tasks at 10,000."""

_SHORT = 3  # 001 §5.2


def measure_routing(text: Text, sizes: Sequence[int], *, rounds: int, tasks: int) -> Results:
    """Route at every size, and derive how the time grows."""
    results: Results = {}
    for size in sizes:
        results |= in_new_process(_measure_size, text, size, rounds, tasks)
    results |= in_new_process(_measure_long, text, rounds, tasks)
    if sizes == SIZES:
        results |= {f"{kind}_growth": _derive_growth(results, kind) for kind in KINDS}
    return results


def _derive_growth(results: Results, kind: str) -> Measured:
    """Return the exponent with which the median grows with the number of skills."""
    first, last = (results[f"{kind}_p50_{size}"] for size in (SIZES[0], SIZES[-1]))
    pairs = (
        (last.median, first.median),
        (last.low, first.high),
        (last.high, first.low),
    )
    factor = math.log(SIZES[-1] / SIZES[0])
    return Measured(*(math.log(high / low) / factor for high, low in pairs))


def _measure_size(text: Text, size: int, rounds: int, tasks: int) -> Results:
    skills = Library(text, size)
    keywords = KeywordIndex.build((s.keywords, s.priority) for s in skills)
    texts = TextIndex.build(map(to_indexed_document, skills))
    prompts = text.prompts[:tasks]
    # Spread over the run, because the matcher caches the words of earlier tasks.
    looped = slice(0, tasks, tasks // max(4, min(40, _LOOPED_AT_ONCE // size)))
    loops = compare_with_loop(skills, keywords, prompts[looped])
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for matcher in (KeywordMatcher(keywords, skills), RankedMatcher(texts, skills)):
            times = route(matcher, prompts)
            keys = (f"{matcher.algorithm}_p{p}_{size}" for p in (50, 99))
            for key, value in zip(keys, percentiles(times), strict=True):
                found.setdefault(key, []).append(value * 1000)
            if matcher.algorithm == "keyword":
                ours = statistics.median(times[looped])
                for kind, seconds in loops.items():
                    found.setdefault(f"{kind}_{size}", []).append(seconds / ours)
    return {key: Measured.of(values) for key, values in found.items()}


def _measure_long(text: Text, rounds: int, tasks: int) -> Results:
    """Route long tasks among few skills whose texts are long."""
    skills = [make_long_skill(text, number) for number in range(LONG_SKILLS)]
    texts = TextIndex.build(map(to_indexed_document, skills))
    prompts = make_long_tasks(text, tasks)
    matchers = (RankedMatcher(texts, skills) for _ in range(rounds))
    found = [percentiles(route(matcher, prompts)) for matcher in matchers]
    return {
        "long_p50": Measured.of(median * 1000 for median, _ in found),
        "long_p99": Measured.of(last * 1000 for _, last in found),
    }


def route(matcher: Matcher, prompts: Sequence[str]) -> list[float]:
    """Return the seconds that each task takes, as a request does it."""
    matching = Matching()
    score_and_decide(matcher, "what a first task has to load", matching)
    return [timed(partial(score_and_decide, matcher, each, matching))[0] for each in prompts]


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile."""
    return statistics.median(values), sorted(values)[math.ceil(len(values) * 0.99) - 1]


def compare_with_loop(
    skills: Sequence[Skill], index: KeywordIndex, prompts: Sequence[str]
) -> dict[str, float]:
    """Return the median seconds of both loops; their answers have to be ours.

    They get their keywords folded and their tokens ready, which is in their favour.
    """
    rows = [list(map(normalize_keyword, skill.keywords)) for skill in skills]
    paths = [skill.path for skill in skills]
    matcher = KeywordMatcher(index, skills)
    times: dict[str, list[float]] = {"loop": [], "inlined": []}
    for prompt in prompts:
        tokens = tokenize(prompt)
        time, scores = timed(partial(loop, rows, tokens))
        times["loop"].append(time)
        time, counts = timed(partial(loop_inlined, rows, tokens))
        times["inlined"].append(time)
        ours = [(c.skill.path, c.exact_score) for c in matcher.score(prompt)]
        is_same = ours == [(paths[number], score) for score, number in scores]
        if not is_same or len(ours) != sum(map(bool, counts)):
            raise SystemExit(f"the matcher and the literal loop disagree on {prompt!r}")
    return {kind: statistics.median(seconds) for kind, seconds in times.items()}


def loop(rows: Sequence[Sequence[str]], tokens: Sequence[str]) -> list[tuple[Fraction, int]]:
    """Score by the formula, literally: every skill, every keyword, every token."""
    found = []
    for number, keywords in enumerate(rows):
        matched = [k for k in keywords if any(is_match(token, k) for token in tokens)]
        if matched:
            found.append((Fraction(len(matched), len(keywords)), number))
    return sorted(found, key=lambda each: (-each[0], each[1]))


def is_match(token: str, keyword: str) -> bool:
    """Whether a token matches a keyword."""
    might_be_short = len(token) < _SHORT or len(keyword) < _SHORT
    if might_be_short and (is_short(token) or is_short(keyword)):
        return token == keyword
    return token == keyword or token in keyword or keyword in token


def loop_inlined(rows: Sequence[Sequence[str]], tokens: Sequence[str]) -> list[int]:
    """Count the same as fast as a loop can, and neither score nor sort."""
    short = {token for token in tokens if is_short(token)}
    counts = []
    for keywords in rows:
        count = 0
        for keyword in keywords:
            for token in tokens:
                if (token in keyword or keyword in token) and (
                    token == keyword or not (token in short or is_short(keyword))
                ):
                    count += 1
                    break
        counts.append(count)
    return counts
