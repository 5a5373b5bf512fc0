"""The keyword algorithm of the specification, without its triple loop.

Skills share most of their keywords, so each distinct one is compared once. The index
finds the keywords inside a token by its substrings, and those around a token by a
shared trigram.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import chain, pairwise, product
from typing import Any, Final
from unicodedata import name

import numpy as np
from numpy.typing import NDArray

from skills_mcp.files.arrays import expand_ranges, row_offsets, unique_sorted
from skills_mcp.routing.decision import PRIORITY_UNIT
from skills_mcp.routing.matcher import (
    Candidate,
    Evidence,
    Mask,
    NegatedScope,
    TermWeight,
    VisibleSkills,
)
from skills_mcp.routing.tokenizer import STOP_WORDS, fold, tokenize
from skills_mcp.skills.model import Skill

KeywordNumbers = NDArray[np.uint32]

# Two letters of an alphabet are inside half of all words; two characters of a
# script that writes syllables or ideas are a word of their own.
_SHORT = 3
_SHORT_WITHOUT_ALPHABET = 2
_NO_ALPHABET = ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "HANGUL")

_LETTER_BITS = 21  # of a Unicode character, so that three are one number
_GRAM = 3

# By its first letters nearly every keyword is passed over, even in a token of 10,000
# letters; two characters that are a whole keyword are no ASCII.
_PREFIX_LENGTH = 3
_ASCII_PREFIX_LENGTHS = (_PREFIX_LENGTH,)
_ALL_PREFIX_LENGTHS = (_SHORT_WITHOUT_ALPHABET, _PREFIX_LENGTH)

_SEPARATOR = "\0"  # in no keyword: it could not be typed


@dataclass(frozen=True, slots=True)
class KeywordPostings:
    """Postings of keywords: the skills of each, by number, in one array."""

    skills: KeywordNumbers
    ends: KeywordNumbers

    def of(self, keywords: KeywordNumbers) -> KeywordNumbers:
        starts, ends = self.ends[keywords], self.ends[keywords + 1]
        return self.skills[expand_ranges(starts, ends - starts)]


class KeywordIndex:
    """The keywords of one set of skills. Immutable.

    Raises:
        ValueError: The arrays are inconsistent.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.arrays = arrays
        self.counts = arrays["counts"]
        """How many keywords each skill declares."""
        self.priorities = arrays["priorities"]
        self.declared = KeywordPostings(arrays["skills"], arrays["skill_ends"])
        self.unmatchable = arrays["unmatchable"]
        """The keywords that not even a task of the same words can match."""
        self._grams, self._gram_ends = arrays["grams"], arrays["gram_ends"]
        self._holders = arrays["gram_keywords"]
        self._check()

    @classmethod
    def build(cls, declared: Iterable[tuple[Sequence[str], int]]) -> "KeywordIndex":
        """Index skills, each as its keywords and its priority."""
        rows = [(list(map(normalize_keyword, words)), priority) for words, priority in declared]
        words = list(dict.fromkeys(chain.from_iterable(words for words, _ in rows)))
        numbers = {word: number for number, word in enumerate(words)}
        lengths = np.fromiter((len(words) for words, _ in rows), np.uint32)
        keywords = np.fromiter((numbers[word] for words, _ in rows for word in words), np.int64)
        skills = np.repeat(np.arange(len(rows), dtype=np.uint32), lengths)
        order = np.argsort(keywords, kind="stable")
        return cls(
            {
                "words": np.frombuffer(_encode(words), np.uint8),
                "counts": lengths,
                "priorities": np.fromiter((p for _, p in rows), np.int32),
                "skills": skills[order],
                "skill_ends": _to_ends(np.bincount(keywords, minlength=len(words))),
                "unmatchable": np.fromiter(_find_unmatchable(words), np.uint32),
                **_index_grams(words),
            }
        )

    @cached_property
    def words(self) -> list[str]:
        if not len(self.declared.ends) - 1:
            return []
        text = bytes(self.arrays["words"]).decode(errors="surrogatepass")
        return text.split(_SEPARATOR)

    def match(self, token: str) -> KeywordNumbers:
        """Find the keywords equal to, inside, or around a token; short ones: equal."""
        equal = self._numbers.get(token)
        found = set() if equal is None else {equal}
        if not is_short(token):
            found.update(self._find_substrings(token))
            found.update(self._find_superstrings(token))
        return np.fromiter(sorted(found), np.uint32)

    def _find_substrings(self, token: str) -> Iterator[int]:
        openings = _ASCII_PREFIX_LENGTHS if token.isascii() else _ALL_PREFIX_LENGTHS
        for start, opening in product(range(len(token) - 1), openings):
            for length in self._lengths.get(token[start : start + opening], ()):
                number = self._long_numbers.get(token[start : start + length])
                if number is not None:
                    yield number

    def _find_superstrings(self, token: str) -> Iterator[int]:
        if len(token) < _GRAM:
            yield from self._pairs.get(token, ())
            return
        grams = np.fromiter(set(_grams_of(token)), np.int64)
        positions = np.searchsorted(self._grams, grams)
        positions = np.minimum(positions, max(len(self._grams) - 1, 0))
        if not len(self._grams) or (self._grams[positions] != grams).any():
            return  # it has three letters that no keyword has
        starts, ends = self._gram_ends[positions], self._gram_ends[positions + 1]
        rarest = int(np.argmin(ends - starts))
        for number in self._holders[starts[rarest] : ends[rarest]].tolist():
            if token in self.words[number]:
                yield number

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    @cached_property
    def _long_numbers(self) -> dict[str, int]:
        return {w: number for w, number in self._numbers.items() if not is_short(w)}

    @cached_property
    def _lengths(self) -> dict[str, list[int]]:
        lengths: dict[str, set[int]] = {}
        for word in self._long_numbers:
            if " " not in word:  # no token has a space in it
                lengths.setdefault(word[:_PREFIX_LENGTH], set()).add(len(word))
        return {opening: sorted(found) for opening, found in lengths.items()}

    @cached_property
    def _pairs(self) -> dict[str, list[int]]:
        """Keywords by bigram, for scripts without spaces."""
        holders: dict[str, list[int]] = {}
        for word, number in self._long_numbers.items():
            if not word.isascii():
                for pair in {one + other for one, other in pairwise(word)}:
                    holders.setdefault(pair, []).append(number)
        return holders

    def _check(self) -> None:
        pairs = (
            (self.declared.ends, self.declared.skills),
            (self._gram_ends, self._holders),
        )
        fits = all(
            len(ends)
            and int(ends[0]) == 0
            and int(ends[-1]) == len(values)
            and bool((ends[1:] >= ends[:-1]).all())
            for ends, values in pairs
        )
        fits = fits and len(self._gram_ends) == len(self._grams) + 1
        fits = fits and len(self.words) == len(self.declared.ends) - 1
        limits = (
            (self.declared.skills, len(self.counts)),
            (self._holders, len(self.words)),
            (self.unmatchable, len(self.words)),
        )
        fits = fits and all(int(a.max(initial=0)) < max(n, 1) for a, n in limits)
        fits = fits and len(self.priorities) == len(self.counts)
        # A wrong count would be a wrong score, or a division by zero.
        counted = np.bincount(self.declared.skills, minlength=len(self.counts))
        if not fits or not np.array_equal(counted, self.counts):
            raise ValueError("the arrays of a keyword index do not fit together")


def is_short(word: str) -> bool:
    """Whether a word is too short for substring matches."""
    if len(word) >= _SHORT:
        return False
    if len(word) < _SHORT_WITHOUT_ALPHABET:
        return True
    return not all(name(character, "").startswith(_NO_ALPHABET) for character in word)


@lru_cache(maxsize=65_536)  # skills share most of them, and every answer reads some
def normalize_keyword(keyword: str) -> str:
    return fold(keyword).replace(_SEPARATOR, " ")


def _encode(words: Sequence[str]) -> bytes:
    return _SEPARATOR.join(words).encode(errors="surrogatepass")


def _find_unmatchable(words: Sequence[str]) -> Iterator[int]:
    for number, word in enumerate(words):
        is_plain = word.isalnum() and word not in STOP_WORDS  # it is its own token
        if not is_plain and not any(_matches(t, word) for t in tokenize(word)):
            yield number


def _matches(token: str, word: str) -> bool:
    if token == word:
        return True
    is_equal_only = is_short(token) or is_short(word)
    return not is_equal_only and (token in word or word in token)


def _index_grams(words: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Invert the trigrams of all long keywords."""
    long = [(number, word) for number, word in enumerate(words) if not is_short(word)]
    text = "".join(word for _, word in long)
    letters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    owners = np.repeat(
        np.fromiter((number for number, _ in long), np.uint32, len(long)),
        np.fromiter((len(word) for _, word in long), np.int64, len(long)),
    )
    one, two, three = (letters[n : len(letters) - 2 + n].astype(np.int64) for n in range(3))
    grams = (one << 2 * _LETTER_BITS) | (two << _LETTER_BITS) | three
    is_within = owners[2:] == owners[: len(owners) - 2]
    grams, holders = grams[is_within], owners[2:][is_within]
    order = np.lexsort((holders, grams))
    grams, holders = grams[order], holders[order]
    is_new = np.ones(len(grams), np.bool_)
    is_new[1:] = (grams[1:] != grams[:-1]) | (holders[1:] != holders[:-1])
    distinct, counts = np.unique(grams[is_new], return_counts=True)
    return {
        "grams": distinct,
        "gram_keywords": holders[is_new],
        "gram_ends": _to_ends(counts),
    }


def _to_ends(lengths: NDArray[np.integer]) -> KeywordNumbers:
    return row_offsets(lengths).astype(np.uint32)


def _grams_of(word: str) -> Iterator[int]:
    letters = list(map(ord, word))
    for one, two, three in zip(letters, letters[1:], letters[2:], strict=False):
        yield (one << 2 * _LETTER_BITS) | (two << _LETTER_BITS) | three


_TOKEN_CACHE_SIZE = 4096  # tasks share their words

# Scores differ by far more than floats are wrong, or are compared exactly.
_MARGIN = 1e-9

# So few skills with a matching keyword are counted one by one, more all at once.
_SPARSE = 4

_Matches = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Skill numbers, and their counts of matching keywords."""


class KeywordMatcher:
    """Scores tasks against the keywords of one set of skills. Immutable."""

    algorithm: Final = "keyword"

    def __init__(
        self,
        index: KeywordIndex,
        skills: Sequence[Skill],
        tie_break_ranks: NDArray[np.int64] | None = None,
        mask: Mask = None,
    ) -> None:
        self._index = index
        self._skills = skills
        self._tie_break_ranks = (
            np.arange(len(skills)) if tie_break_ranks is None else tie_break_ranks
        )
        self._match = lru_cache(maxsize=_TOKEN_CACHE_SIZE)(index.match)
        self._mask = mask

    def seen(self, seen: VisibleSkills) -> "KeywordMatcher":
        """Restrict the matcher to visible skills, as if there were no others."""
        other = KeywordMatcher(self._index, seen.skills, seen.places, seen.mask)
        other._match = self._match
        return other

    def quick_score(self, context: str, *, within: Mask = None) -> float:
        best = self.score(context, limit=1, within=within)
        return best[0].score if best else 0.0

    def score(
        self,
        context: str,
        *,
        min_score: Fraction | None = None,
        limit: int | None = None,
        within: Mask = None,
    ) -> tuple[Candidate, ...]:
        """Score all skills with a matching keyword, best first.

        The exact share of matching keywords, plus a thousandth of the priority.
        """
        tokens = tokenize(context)
        keywords = self._find(tokens)
        matched = {self._index.words[keyword] for keyword in keywords.tolist()}
        found = self._count(keywords)
        if within is not None:
            found = _select(found, within[found[0]])
        found = self._shortlist(found, min_score, limit)
        scores, ranks = self._score(found)
        if min_score is not None:
            is_enough = np.fromiter((s >= min_score for s in scores), bool)[ranks]
            found, ranks = _select(found, is_enough), ranks[is_enough]
        order = np.lexsort((self._tie_break_ranks[found[0]], ranks))[:limit]
        best = zip(found[0][order].tolist(), ranks[order].tolist(), strict=True)
        return tuple(_to_candidate(self._skills[n], scores[r], matched) for n, r in best)

    def weigh_terms(self, context: str) -> tuple[TermWeight, ...]:
        tokens = tokenize(context)
        return tuple(
            TermWeight(
                typed=token,
                term=token,
                weight=1 / len(tokens),
                skills=len(self._count(self._match(token))[0]),
            )
            for token in tokens
        )

    def find_negated(self, context: str) -> NegatedScope:  # noqa: ARG002 - keywords are literal
        return NegatedScope()

    def explain(
        self,
        context: str,
        skill: Skill,
        *,
        within: Mask = None,  # noqa: ARG002 - no other skill counts here
    ) -> tuple[Evidence, ...]:
        by_token = {
            token: {self._index.words[number] for number in self._match(token).tolist()}
            for token in tokenize(context)
        }
        share = 1 / max(len(skill.keywords), 1)
        found = [
            Evidence(word=token, where="keyword", found=keyword, worth=share)
            for keyword in skill.keywords
            for token in [_first_match(normalize_keyword(keyword), by_token)]
            if token
        ]
        if found and skill.priority:
            worth = skill.priority / 1000
            text = str(skill.priority)
            found.append(Evidence(word="", where="priority", found=text, worth=worth))
        return tuple(found)

    def find_unmatchable(self) -> Iterator[tuple[int, str]]:
        """Yield skill number and folded keyword of each unmatchable keyword."""
        for keyword in self._index.unmatchable.tolist():
            number = np.array([keyword], np.uint32)
            for skill in self._index.declared.of(number).tolist():
                yield skill, self._index.words[keyword]

    def _find(self, tokens: Sequence[str]) -> KeywordNumbers:
        found = [self._match(token) for token in tokens]
        if not found:
            return np.zeros(0, np.uint32)
        return unique_sorted(np.concatenate(found))

    def _count(self, keywords: KeywordNumbers) -> _Matches:
        declared = self._index.declared.of(keywords)
        if self._mask is not None:
            declared = declared[self._mask[declared]]
        if len(declared) * _SPARSE < len(self._index.counts):
            skills, counts = np.unique(declared, return_counts=True)
            return skills.astype(np.int64), counts.astype(np.int64)
        counts_by_skill = np.bincount(declared, minlength=len(self._index.counts))
        some = np.flatnonzero(counts_by_skill)
        return some.astype(np.int64), counts_by_skill[some].astype(np.int64)

    def _shortlist(
        self, found: _Matches, min_score: Fraction | None, limit: int | None
    ) -> _Matches:
        """Drop certain losers; floats are precise enough to do so."""
        skills, counts = found
        scores = counts / self._index.counts[skills]
        scores = scores + self._index.priorities[skills] / 1000
        floor = -np.inf if min_score is None else float(min_score)
        if limit is not None and 0 < limit < len(scores):
            floor = max(floor, np.partition(scores, -limit)[-limit])
        return _select(found, scores >= floor - _MARGIN)

    def _score(self, found: _Matches) -> tuple[list[Fraction], NDArray[np.int64]]:
        skills, counts = found
        columns = (counts, self._index.counts[skills], self._index.priorities[skills])
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        # Most skills share their numbers with others, and fractions are slow.
        exact = {
            (count, total, own): Fraction(count, total) + own * PRIORITY_UNIT
            for count, total, own in set(rows)
        }
        scores = sorted(set(exact.values()), reverse=True)
        rank_by_score = {score: rank for rank, score in enumerate(scores)}
        ranks = {row: rank_by_score[score] for row, score in exact.items()}
        return scores, np.fromiter(map(ranks.__getitem__, rows), np.int64, len(rows))


def _to_candidate(skill: Skill, score: Fraction, matched: set[str]) -> Candidate:
    words = tuple(word for word in skill.keywords if normalize_keyword(word) in matched)
    return Candidate(skill, score, words)


def _select(found: _Matches, selected: NDArray[Any]) -> _Matches:
    skills, counts = found
    return skills[selected], counts[selected]


def _first_match(keyword: str, by_token: dict[str, set[str]]) -> str:
    return next((token for token, found in by_token.items() if keyword in found), "")
