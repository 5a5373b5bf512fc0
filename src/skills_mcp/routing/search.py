"""Search of skills: by path, by name or by a prefix of one, else ranked."""

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from heapq import nsmallest
from itertools import accumulate, chain, pairwise
from typing import Literal, NamedTuple

from skills_mcp.routing.decision import (
    merge_near_copies,
    select_relevant_part,
    to_exact_fraction,
)
from skills_mcp.routing.matcher import Candidate, Mask, Matcher, VisibleSkills
from skills_mcp.routing.tokenizer import SILENT_WORDS, fold
from skills_mcp.skills.model import Scope, Skill, SkillPath
from skills_mcp.skills.skill_index import SCOPES

_MIN_PREFIX_LETTERS = 3  # fewer letters begin too many words to mean a name

_MAX_COMPOSED = 4  # of letters and marks that normalisation makes one of

_LAST_CODE_POINT = "\U0010ffff"  # behind everything that begins alike


class NamedSkill(NamedTuple):
    """A skill that a task names, and the words that name it."""

    number: int
    word: str


@dataclass(frozen=True)
class NameIndex:
    """The names of skills, by skill number; indexed at the first look-up."""

    paths: Sequence[str] = field(repr=False)
    names: Sequence[str] = field(repr=False)
    scopes: Sequence[Scope] = field(default=(), repr=False)
    """Empty if all are the organisation's."""

    def path(self, number: int) -> str:
        return self.paths[number]

    def scope(self, number: int) -> Scope:
        return self.scopes[number] if self.scopes else "org"

    def find_path(self, text: str) -> tuple[int, ...]:
        """Find the skills with this path; several if they differ in signs."""
        return self._by_path.get(normalize_name(text), ())

    def find_name(self, text: str) -> tuple[int, ...]:
        name = normalize_name(text)
        numbers, names = self._ordered
        start = bisect_left(names, name)
        return tuple(numbers[start : bisect_right(names, name, lo=start)])

    def find_by_prefix(self, text: str) -> tuple[int, ...]:
        prefix = normalize_name(text)
        numbers, names = self._ordered
        start = bisect_left(names, prefix)
        return tuple(numbers[start : bisect_left(names, prefix + _LAST_CODE_POINT)])

    def find_by_file(self, file: str) -> tuple[int, ...]:
        """Find the skills a Markdown file may belong to, the likeliest first.

        A package's folder, a rule file's own name, or any package at the top.
        """
        *_, folder, last = ("", "", *normalize_name(file).split("/"))
        own = last.removesuffix(".md")
        near = (*self._find_last(folder), *self._find_last(own))
        return tuple(dict.fromkeys((*near, *self._at_top)))

    def find_unique(self, text: str, within: Mask = None) -> NamedSkill | None:
        """Find the only skill named by the whole text: path, `$name`, or prefix.

        Whole words that begin a name may as well describe another skill: "golang" is no
        name of "Golang Security".
        """
        name = strip_mention(text)
        if len(name) > self._longest * (1 if name.isascii() else _MAX_COMPOSED):
            return None
        for found in (self.find_path(name), self.find_name(name)):
            allowed = _select_eligible(found, within)
            if allowed:
                return NamedSkill(allowed[0], name) if len(allowed) == 1 else None
        if len(name) < _MIN_PREFIX_LETTERS or fold(name) in SILENT_WORDS:
            return None
        allowed = _select_eligible(self.find_by_prefix(name), within)
        if len(allowed) != 1 or not (
            text.strip().startswith("$") or self._is_cut(name, allowed[0])
        ):
            return None
        return NamedSkill(allowed[0], name)

    def find_mentioned(self, text: str, within: Mask = None) -> NamedSkill | None:
        """Find the only skill that a task names, as in "the code-reviewer skill"."""
        for name in _find_mentions(text):
            named = self.find_path(name) or self.find_name(name)
            allowed = _select_eligible(named, within)
            if len(allowed) == 1:
                return NamedSkill(allowed[0], name)
        return None

    def _is_cut(self, text: str, number: int) -> bool:
        """Whether a prefix is written like a name, or ends inside of a word."""
        rest = normalize_name(self.names[number])[len(normalize_name(text)) :]
        return " " not in text and ("-" in text or "_" in text or not rest.startswith("-"))

    def seen(self, seen: VisibleSkills) -> "VisibleNameIndex":
        return VisibleNameIndex(self.paths, self.names, self.scopes, whole=self, some=seen)

    def _find_last(self, name: str) -> Sequence[int]:
        return self._by_last.get(name, ())

    @cached_property
    def _longest(self) -> int:
        return max(map(len, chain(self._by_path, self._ordered[1])), default=0)

    @cached_property
    def _by_path(self) -> dict[str, tuple[int, ...]]:
        return _group_numbers(map(normalize_name, self.paths))

    @cached_property
    def _by_last(self) -> dict[str, tuple[int, ...]]:
        return _group_numbers(normalize_name(path.rpartition("/")[2]) for path in self.paths)

    @cached_property
    def _at_top(self) -> tuple[int, ...]:
        return tuple(n for n, path in enumerate(self.paths) if "/" not in path)

    @cached_property
    def _ordered(self) -> tuple["array[int]", list[str]]:
        """Numbers of the skills in the order of their normalised names, and these names."""
        names = list(map(normalize_name, self.names))
        numbers = array("I", sorted(range(len(names)), key=names.__getitem__))
        return numbers, [names[number] for number in numbers]


@dataclass(frozen=True, kw_only=True)
class VisibleNameIndex(NameIndex):
    """The names visible to one caller, on top of the index of all skills."""

    whole: NameIndex = field(repr=False)
    some: VisibleSkills

    def path(self, number: int) -> str:
        return self.some.moved.get(number) or self.paths[number]

    def find_path(self, text: str) -> tuple[int, ...]:
        moved, normalized = self.some.moved, normalize_name(text)
        unmoved = (n for n in self._select_visible(self.whole.find_path(text)) if n not in moved)
        relocated = (n for n, path in moved.items() if normalize_name(path) == normalized)
        return tuple(self.some.sort((*unmoved, *relocated)))

    def find_name(self, text: str) -> tuple[int, ...]:
        return tuple(self._select_visible(self.whole.find_name(text)))

    def find_by_prefix(self, text: str) -> tuple[int, ...]:
        return tuple(self._select_visible(self.whole.find_by_prefix(text)))

    @cached_property
    def _longest(self) -> int:
        moved = map(normalize_name, self.some.moved.values())
        return max(self.whole._longest, *map(len, moved), 0)  # noqa: SLF001 - it is one of us

    def _find_last(self, name: str) -> Sequence[int]:
        # A copy has the same last name as the first.
        return self.some.sort(self._select_visible(self.whole._find_last(name)))  # noqa: SLF001 - it is one of us

    @cached_property
    def _at_top(self) -> tuple[int, ...]:
        visible = zip(self.some.numbers.tolist(), self.some.paths, strict=True)
        return tuple(number for number, path in visible if "/" not in path)

    def _select_visible(self, numbers: Iterable[int]) -> list[int]:
        return [number for number in numbers if self.some.mask[number]]


# Each text of a task is asked for up to five times, by its score and by what it negates.
_remember = lru_cache(maxsize=16)


@_remember
def strip_mention(text: str) -> str:
    return " ".join(text.split()).removeprefix("$").strip()


@_remember
def _find_mentions(text: str) -> tuple[str, ...]:
    """List names and paths adjacent to the word "skill"."""
    if "skill" not in text.casefold():
        return ()
    words = [word.strip("`'\"()[],.;:!?").removeprefix("$") for word in text.split()]
    return tuple(
        one
        for one, other in chain(pairwise(words), pairwise(reversed(words)))
        if other.casefold() == "skill" and any(sign in one for sign in "-_/")
    )


def normalize_name(text: str) -> str:
    """Normalise a name: `Release Notes` and `release_notes` are equal."""
    # Most names are ASCII, where folding is lowering, and there may be 10,000.
    folded = text.lower() if text.isascii() else fold(text)
    folded = folded.replace(" ", "-").replace("_", "-")
    return text if folded == text else folded  # or most names are in memory twice


def _group_numbers(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    grouped: dict[str, list[int]] = defaultdict(list)
    for number, text in enumerate(texts):
        grouped[text].append(number)
    # Ten thousand lists of one number take twice as much.
    return {text: tuple(numbers) for text, numbers in grouped.items()}


def _select_eligible(numbers: Sequence[int], within: Mask) -> Sequence[int]:
    return numbers if within is None else [n for n in numbers if within[n]]


Reason = Literal["exact_path", "exact_name", "prefix", "token_overlap"]
"""Why a hit ranks here, in order of precedence."""

# What is named stands above what is ranked, however well that fits.
_SCORES: dict[Reason, Fraction] = {
    "exact_path": Fraction(1),
    "exact_name": Fraction(1),
    "prefix": Fraction(95, 100),
    "token_overlap": Fraction(94, 100),
}
_REASONS: tuple[Reason, ...] = tuple(_SCORES)

_CANDIDATES_PER_HIT = 4
_FEW_HITS = 5
"""So few are all worth reading; only longer lists are cut by score."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A skill found by a query."""

    skill: Skill
    score: float
    """0 to 1, never above the score of the previous hit."""
    reason: Reason
    near_copies: tuple[SkillPath, ...] = ()
    """Skills of the same name with nearly the same text."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits for a query, best first."""

    hits: tuple[Hit, ...]
    total: int
    """Hits before the cut to the limit."""


@dataclass(frozen=True, slots=True)
class _ScoredHit:
    """A hit before its score is capped."""

    skill: Skill
    score: Fraction
    reason: Reason
    near_copies: tuple[SkillPath, ...] = ()

    @property
    def shown(self) -> Fraction:
        return min(max(self.score, Fraction()), _SCORES[self.reason])

    def order(self) -> tuple[int, bool, float, int, str]:
        # Fractions compare slowly; the nearest floats are in the same order.
        rank, score = _REASONS.index(self.reason), float(self.score)
        is_deprecated = self.skill.lifecycle.is_deprecated
        return rank, is_deprecated, -score, SCOPES.index(self.skill.scope), self.skill.path


def search_skills(  # noqa: PLR0913 - each of them is a setting or an argument of the tool
    query: str,
    skills: Sequence[Skill],
    names: NameIndex,
    matcher: Matcher,
    *,
    limit: int,
    threshold: float,
    within: Mask = None,
) -> SearchResult:
    """Find the skills for a query, by name or by text.

    Args:
        query: A path, a name with or without `$`, a prefix of a name, or words.
        skills: The skills in path order.
        names: The index of their names.
        matcher: A matcher of text alone (`RankedMatcher.without_names`).
        limit: At most so many hits.
        threshold: The share of the best score that each of more than five hits needs.
        within: Eligible skills; None for all.
    """
    text = strip_mention(select_relevant_part(matcher, query, within=within))
    if not text:
        return SearchResult((), 0)
    limit_by_name = limit * _CANDIDATES_PER_HIT
    named = _find_named(text, skills, names, within, limit_by_name)
    scored = matcher.score(text, limit=limit_by_name + len(named), within=within)
    ranked = merge_near_copies(scored)
    others = (_to_hit(candidate) for candidate in ranked if candidate.skill.path not in named)
    candidates = [*named.values(), *others]
    best = nsmallest(limit_by_name, candidates, key=_ScoredHit.order)
    relevant = _apply_threshold(best, to_exact_fraction(threshold))
    scores = accumulate((hit.shown for hit in relevant), min)
    hits = (
        Hit(hit.skill, float(score), hit.reason, hit.near_copies)
        for hit, score in zip(relevant[:limit], scores, strict=False)
    )
    return SearchResult(tuple(hits), len(relevant))


def _find_named(
    text: str, skills: Sequence[Skill], names: NameIndex, within: Mask, limit: int
) -> dict[str, _ScoredHit]:
    def place(number: int) -> tuple[int, str]:
        return SCOPES.index(names.scope(number)), names.path(number)

    by_reason: dict[Reason, Iterable[int]] = {
        "exact_path": (*names.find_path(text), *_find_by_file(text, skills, names)),
        "exact_name": names.find_name(text),
        "prefix": names.find_by_prefix(text),
    }
    found: dict[int, Reason] = {}
    for reason, numbers in by_reason.items():
        allowed = {n for n in numbers if within is None or within[n]}
        for number in nsmallest(limit, allowed - found.keys(), key=place):
            found[number] = reason
    hits = (_ScoredHit(skills[n], _SCORES[why], why) for n, why in found.items())
    return {hit.skill.path: hit for hit in hits}


def _find_by_file(text: str, skills: Sequence[Skill], names: NameIndex) -> Iterator[int]:
    file = normalize_name(text)
    if not file.endswith(".md"):
        return
    for number in names.find_by_file(text):
        skill = skills[number]
        if file in {normalize_name(skill.file), normalize_name(str(skill.location))}:
            yield number
            return


def _to_hit(candidate: Candidate) -> _ScoredHit:
    return _ScoredHit(
        candidate.skill, candidate.exact_score, "token_overlap", candidate.near_copies
    )


def _apply_threshold(hits: Sequence[_ScoredHit], threshold: Fraction) -> Sequence[_ScoredHit]:
    if len(hits) <= _FEW_HITS:
        return hits
    min_score = threshold * max(hit.shown for hit in hits)
    return [hit for hit in hits if hit.shown >= min_score]
