"""A task as a query: terms, idf weights, variants and pairs."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice, pairwise
from math import sqrt
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.inverted_index import UNKNOWN_TERM, MatchingText, TextIndex, intersect
from skills_mcp.routing.lexicon import (
    MAX_TERM,
    Synonym,
    build_thesaurus,
    common_word_weight,
    is_technology_name,
    is_unsegmented,
    load_function_words,
    lower_known_words,
    split_raw_token,
    split_raw_tokens,
    stem,
    stem_all,
)
from skills_mcp.routing.tokenizer import ENGLISH, FRENCH, fold

# With or without a hyphen, it is the same word.
_COMPOUND_WEIGHT = 1.0
_MIN_COMPOUND_PART = 3
_MAX_COMPOUND = 30  # letters; what is longer is no word that is written in two ways

# A word that no skill has may be a typing error of one that some skill has.
_TYPO_WEIGHT = 0.7
_MIN_CORRECTED_LETTERS = 5

# Of the skills that hold both parts of a word, so many are read, and so many of their
# terms: where two are written as one, nearly every text that has both has them so.
_MAX_READ_SKILLS = 20
_MAX_READ_TERMS = 2048


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class QueryWord(NamedTuple):
    """A word of a task, with its facts that are the same for all tasks."""

    term: str
    typed: str
    number: int
    """Term number in the index, or `UNKNOWN_TERM`."""
    ordinary: float
    """Its discount as a common word."""
    is_technology: bool
    is_unsegmented: bool


class SpellingVariants:
    def __init__(self, index: TextIndex) -> None:
        self._index = index
        remember = lru_cache(maxsize=index.cache_size)
        self._are_adjacent = remember(partial(_are_adjacent, index))

    def expand(
        self,
        sequence: Sequence[QueryWord],
        expanded: Collection[str],
        unknown: Collection[str],
    ) -> dict[str, list[Synonym]]:
        """Find spelling variants by term; `unknown` terms are not indexed."""
        found: dict[str, list[Synonym]] = {}
        pairs = (
            (one, other)
            for one, other in pairwise(sequence)
            if one.term in expanded or other.term in expanded
        )
        for one, other, related in _join_compounds(self._index, pairs):
            found.setdefault(one.term, []).append(related)
            found.setdefault(other.term, []).append(related)
        words = [word for word in dict.fromkeys(sequence) if word.term in unknown]
        split = _split_compounds(self._index, words, self._are_adjacent)
        corrected = _correct_typos(self._index, words)
        for word in words:
            variants = (*split.get(word.typed, ()), *corrected.get(word.term, ()))
            found.setdefault(word.term, []).extend(variants)
        return found


# All words of a task at once: most of what is looked up here is not there, and that
# takes a tenth of the time when it is asked for together.


def _join_compounds(
    index: TextIndex, pairs: Iterable[tuple[QueryWord, QueryWord]]
) -> Iterator[tuple[QueryWord, QueryWord, Synonym]]:
    """Join adjacent words to compounds: post-mortem is postmortem."""
    fitting = [
        (one, other)
        for one, other in pairs
        if len(one.typed) + len(other.typed) <= _MAX_COMPOUND
        # 1, 0 is not 10
        and not (one.typed.isdecimal() and other.typed.isdecimal())
    ]
    joined = stem_all([one.typed + other.typed for one, other in fitting])
    for position in (index.find_all(joined) >= 0).nonzero()[0].tolist():
        yield *fitting[position], Synonym((joined[position],), _COMPOUND_WEIGHT)


def _split_compounds(
    index: TextIndex,
    unknown: Iterable[QueryWord],
    are_adjacent: Callable[[int, int], bool],
) -> dict[str, list[Synonym]]:
    """Split compounds of adjacent terms in some skill: postmortem is post-mortem."""
    cuts = [
        (word.typed, position)
        for word in unknown
        if len(word.typed) <= _MAX_COMPOUND
        for position in range(_MIN_COMPOUND_PART, len(word.typed) - _MIN_COMPOUND_PART + 1)
    ]
    first = stem_all([typed[:position] for typed, position in cuts])
    numbers = index.find_all(first)
    starts = (numbers >= 0).nonzero()[0].tolist()
    second = stem_all([cuts[n][0][cuts[n][1] :] for n in starts])
    found: dict[str, list[Synonym]] = {}
    for cut, part, number in zip(starts, second, index.find_all(second).tolist(), strict=True):
        if number != UNKNOWN_TERM and are_adjacent(int(numbers[cut]), number):
            related = Synonym((first[cut], part), _COMPOUND_WEIGHT)
            found.setdefault(cuts[cut][0], []).append(related)
    return found


def _correct_typos(index: TextIndex, unknown: Iterable[QueryWord]) -> dict[str, list[Synonym]]:
    """Correct typing errors: one edit or transposition behind the first letters."""
    terms = [
        term
        for term in dict.fromkeys(word.term for word in unknown)
        if len(term) >= _MIN_CORRECTED_LETTERS
        and term.isascii()
        and term.isalpha()
        and common_word_weight(term) == 1
    ]
    found: dict[str, list[Synonym]] = {}
    for term, other in index.vocabulary.find_similar(terms):
        if _is_one_error(term, other):
            related = Synonym((other,), _TYPO_WEIGHT)
            found.setdefault(term, []).append(related)
    return found


def _is_one_error(one: str, other: str) -> bool:
    pairs = zip(one, other, strict=False)
    start = next((n for n, (a, b) in enumerate(pairs) if a != b), len(one))
    rest, others = one[start:], other[start:]
    return (
        rest[1:] == others[1:]
        or rest[1:] == others
        or rest == others[1:]
        or (rest[:2] == others[1::-1] and rest[2:] == others[2:])
    )


def _are_adjacent(index: TextIndex, one: int, other: int) -> bool:
    holders, *_ = intersect(index.postings, (one, other))
    first = index.take_first(holders, _MAX_READ_SKILLS)
    if not len(first):
        return False
    texts = map(index.sequences.read, first.tolist())
    terms = np.concatenate([text.whole[:_MAX_READ_TERMS] for text in texts])
    [positions] = (terms[:-1] == one).nonzero()
    return bool((terms[positions + 1] == other).any())


# One word is chance: "die" and "la" stand in English tasks, too.
_MIN_FUNCTION_WORDS = 2

# Characters that are hardly a part of a technical word, as 请 is of 请求 (request).
_CHINESE = frozenset(
    "的了是我你您他她它们这那哪谁什么怎吗呢吧啊呀嘛哦着过也都很太最还又再才把被让给和与或"
    "及而且但虽若将已曾几每些某个该想帮得到来做干所以其之于何"
)
_HAN = re.compile("[\u4e00-\u9fff]")
_KANA = re.compile("[\u3040-\u30ff]")

_LETTER_RUN = re.compile(r"[^\W\d_]+")
_NON_LETTERS = bytes(sign for sign in range(128) if not chr(sign).isalpha())
_TO_SPACES = bytes.maketrans(_NON_LETTERS, b" " * len(_NON_LETTERS))


def find_function_words(text: str) -> AbstractSet[str]:
    """Identify the language of a folded text by its function words; none for English.

    Most skills are English, and most words of a German, French or Spanish task are in
    no skill then: no evidence against a skill. A text without function words counts as
    English.

    >>> sorted(find_function_words("wie richte ich expo router ein"))[:3]
    ['aber', 'alle', 'als']
    >>> find_function_words("how do i set up expo router")
    frozenset()
    """
    words = set(_split_letters(text))
    best = max((FRENCH, *load_function_words()), key=lambda known: len(words & known))
    found = len(words & best)
    return best if found >= _MIN_FUNCTION_WORDS and found > len(words & ENGLISH) else frozenset()


def _is_chinese(text: str) -> bool:
    return not text.isascii() and bool(_HAN.search(text)) and not _KANA.search(text)


def _split_letters(text: str) -> list[str]:
    if not text.isascii():
        return _LETTER_RUN.findall(text)
    # Several times as fast, and most texts are English.
    return text.encode().translate(_TO_SPACES).decode().split()


_PAIR_WINDOW = 2  # terms of a task that are further apart are no pair

# Of more, those that say most are what a task is about: no set of tasks finds another
# skill with all of them, and a pasted page would take a third longer.
_MAX_TERMS = 96

# What stands for the other words of a long task finds nothing more.
_MAX_EXPANDED_TERMS = 24

# What is left of a word that no skill has, in a language that the skills are not in.
_FOREIGN_WEIGHT = 0.03
# Of a task in another language the skills share less than the rest; of one in theirs,
# more: names and loanwords.
_MIN_FOREIGN_SHARE = 0.4

# Among fewer, a word in two skills would be common. With 20 the right skill is in the
# answer in 0.5 of a hundred tasks less, with 40 twice as many are not declined; measured.
_MIN_MATCHING = 30

# Rare words say less than their rareness makes believe; measured.
_IDF_EXPONENT = 0.8


class TermVariant(NamedTuple):
    """A synonym or spelling variant of a query term."""

    terms: tuple[int, ...]
    """Term numbers; a skill has to contain all."""
    nearness: float
    information: float
    """Its weight in place of the term."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """The distinct terms of a task, in the order of their first occurrence."""

    size: float
    """Effective length; a foreign term absent from all skills is next to nothing."""
    words: Sequence[QueryWord]
    numbers: NDArray[np.int64]
    """Term numbers in the index, or `UNKNOWN_TERM`."""
    holders: NDArray[np.int64]
    information: NDArray[np.float64]
    """Term weights: idf, discounted for common words; never 0."""
    is_technology: NDArray[np.bool_]
    relatives: Sequence[Sequence[TermVariant]]
    nearest: Mapping[int, tuple[int, float]]
    """For a term number the nearest query term, and its similarity."""
    pairs: NDArray[np.int64]
    """Two terms in each row, in the order of their first occurrence."""
    nearness: NDArray[np.float64]
    """For each pair 1 if adjacent, 1/2 with one term between …"""
    matching: MatchingText
    """The skills with any of the terms; no other skill decides what a term is worth."""

    @property
    def order(self) -> NDArray[np.int64]:
        """Term positions by weight, heaviest first."""
        return np.argsort(-self.information, kind="stable")

    @property
    def whole(self) -> float:
        return float(self.information.sum())


@dataclass(frozen=True, slots=True, eq=False)
class _QueryTerms:
    """The distinct terms of a task and their weights (see `Query`)."""

    words: Mapping[str, QueryWord]
    numbers: NDArray[np.int64]
    holders: NDArray[np.int64]
    information: NDArray[np.float64]
    is_technology: NDArray[np.bool_]
    is_foreign: NDArray[np.bool_]
    matching: MatchingText

    def take_heaviest(self) -> "_QueryTerms":
        # What no skill has says most, but it finds nothing.
        order = np.lexsort((-self.information, self.numbers == UNKNOWN_TERM))
        heaviest = np.sort(order[:_MAX_TERMS])
        words = list(self.words.items())
        return _QueryTerms(
            dict(words[position] for position in heaviest.tolist()),
            self.numbers[heaviest],
            self.holders[heaviest],
            self.information[heaviest],
            self.is_technology[heaviest],
            self.is_foreign[heaviest],
            self.matching,
        )


class QueryParser:
    """Parses tasks for the skills of one index; caches repeated words."""

    def __init__(self, index: TextIndex, synonyms: tuple[str, ...] = ()) -> None:
        self._index = index
        self._synonyms = synonyms
        self._spelling = SpellingVariants(index)
        self._pieces: dict[bytes, tuple[QueryWord, ...]] = {}
        self._words: dict[str, QueryWord] = {}
        # Not of ourselves: a cycle is freed by nothing but the garbage collector.
        self._resolve = lru_cache(maxsize=index.cache_size)(partial(_resolve_terms, index))

    def read(self, context: str, whole: str = "") -> Query:
        """Parse a text to weighted terms, and expand them; `whole` tells the language."""
        silent = find_function_words(fold(whole or context))
        sequence = self._split_words(context, silent)
        terms = self._weigh_terms(sequence, silent)
        if len(terms.words) > _MAX_TERMS:
            terms = terms.take_heaviest()
            sequence = [word for word in sequence if word.term in terms.words]
        relatives = self._find_variants(sequence, terms)
        positions = {term: position for position, term in enumerate(terms.words)}
        nearness = _find_term_pairs([positions[word.term] for word in sequence])
        return Query(
            size=len(positions) - (1 - _FOREIGN_WEIGHT) * int(terms.is_foreign.sum()),
            words=tuple(terms.words.values()),
            numbers=terms.numbers,
            holders=terms.holders,
            information=terms.information,
            is_technology=terms.is_technology,
            relatives=relatives,
            nearest=_map_variants(terms.numbers.tolist(), relatives),
            pairs=np.fromiter(chain(*nearness), np.int64).reshape(-1, 2),
            nearness=np.fromiter(nearness.values(), np.float64),
            matching=terms.matching,
        )

    def read_words(self, context: str, whole: str) -> list[QueryWord]:
        """Parse a text to words alone; `whole` tells the language."""
        return self._split_words(context, find_function_words(fold(whole)))

    def _split_words(self, context: str, silent: AbstractSet[str]) -> list[QueryWord]:
        pieces = split_raw_tokens(context)
        known = self._analyze_pieces(pieces)
        words = list(chain.from_iterable(map(known.__getitem__, pieces)))
        if _is_chinese(context):
            return [w for w in words if not w.is_unsegmented or _CHINESE.isdisjoint(w.typed)]
        return [w for w in words if w.typed not in silent] if silent else words

    def _analyze_pieces(self, pieces: Sequence[bytes]) -> Mapping[bytes, tuple[QueryWord, ...]]:
        """Analyse raw tokens; all that were not read before at once, which takes a third."""
        # Other threads may read from what is replaced.
        known = self._pieces = _shorten(self._pieces, self._index.cache_size)
        words = self._words = _shorten(self._words, self._index.cache_size)
        unread = [piece for piece in dict.fromkeys(pieces) if piece not in known]
        is_known = partial(_is_known_word, self._index)
        parts = [split_raw_token(lower_known_words(piece.decode(), is_known)) for piece in unread]
        new = [word for word in dict.fromkeys(chain.from_iterable(parts)) if word not in words]
        words.update(zip(new, _describe_words(self._index, new), strict=True))
        rows = (tuple(map(words.__getitem__, row)) for row in parts)
        known.update(zip(unread, rows, strict=True))
        return known

    def _weigh_terms(self, sequence: Sequence[QueryWord], silent: AbstractSet[str]) -> _QueryTerms:
        words: dict[str, QueryWord] = {}
        for word in sequence:
            words.setdefault(word.term, word)
        columns = [*zip(*words.values(), strict=True)] or [()] * len(QueryWord._fields)
        numbers, ordinary = np.array(columns[2], np.int64), np.array(columns[3], np.float64)
        is_technology, is_unsegmented = (np.array(flags, np.bool_) for flags in columns[4:])
        is_other = is_unsegmented | ~is_technology if silent else is_unsegmented
        foreign = _find_foreign_words(is_other, numbers)
        holders = self._index.postings.count_documents(numbers)
        ordinary[foreign] = _FOREIGN_WEIGHT
        matching = self._index.measure_matching(numbers)
        information = (idf(holders, matching.documents) * ordinary) ** _idf_exponent(matching)
        named = float(information[is_technology & (numbers != UNKNOWN_TERM)].sum())
        if named:  # one name among the many bigrams of a sentence is what the task is about
            information[foreign] *= min(1.0, named / (float(information[foreign].sum()) or named))
        return _QueryTerms(words, numbers, holders, information, is_technology, foreign, matching)

    def _find_variants(
        self, sequence: Sequence[QueryWord], terms: _QueryTerms
    ) -> list[Sequence[TermVariant]]:
        weights = terms.information.tolist()
        min_weight = sorted(weights, reverse=True)[:_MAX_EXPANDED_TERMS][-1] if weights else 0
        expanded = {t for t, own in zip(terms.words, weights, strict=True) if own >= min_weight}
        numbers = zip(terms.words, terms.numbers.tolist(), strict=True)
        unknown = {t for t, number in numbers if number == UNKNOWN_TERM and t in expanded}
        thesaurus = build_thesaurus(self._synonyms)
        found = thesaurus.expand([word.term for word in sequence], expanded)
        spelt = self._spelling.expand(sequence, expanded, unknown)
        present = frozenset(terms.words)
        related = [
            [
                (synonym.weight, resolved)
                for synonym in chain(spelt.get(term, ()), found.get(term, ()))
                if (resolved := self._resolve(synonym.terms))
                and not present.issuperset(synonym.terms)
            ]
            if term in expanded
            else ()
            for term in terms.words
        ]
        holders = [resolved.holders for row in related for _, resolved in row]
        information = iter(_weigh(np.array(holders, np.int64), terms.matching).tolist())
        return [
            [_make_variant(own, near, found.numbers, next(information)) for near, found in row]
            for own, row in zip(weights, related, strict=True)
        ]


def _find_foreign_words(
    is_other: NDArray[np.bool_], numbers: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Find the words absent from the index because of their language."""
    foreign: NDArray[np.bool_] = is_other & (numbers == UNKNOWN_TERM)
    # In a library of that language most are known, and what is not speaks against it.
    if np.count_nonzero(foreign) <= _MIN_FOREIGN_SHARE * np.count_nonzero(is_other):
        foreign[:] = False
    return foreign


def _describe_words(index: TextIndex, typed: Sequence[str]) -> Iterator[QueryWord]:
    terms = stem_all(typed)
    return map(
        QueryWord,
        terms,
        [word[:MAX_TERM] for word in typed],
        index.find_all(terms).tolist(),
        map(common_word_weight, terms),
        map(is_technology_name, typed),
        map(is_unsegmented, typed),
    )


def _shorten(known: dict[_Key, _Value], limit: int) -> dict[_Key, _Value]:
    """Evict the oldest entries of a full cache, down to half of its limit."""
    if len(known) < limit:
        return known
    present = known.copy()  # at once: another thread may be adding to it
    return dict(islice(present.items(), len(present) - limit // 2, None))


class _ResolvedTerms(NamedTuple):
    numbers: tuple[int, ...]
    holders: int
    """Of the rarest, which says most."""


def _resolve_terms(index: TextIndex, terms: tuple[str, ...]) -> _ResolvedTerms | None:
    """Find the numbers of the terms; None if one is absent."""
    found = tuple([number for term in terms if (number := index.find(term)) is not None])
    if not found or len(found) < len(terms):
        return None
    return _ResolvedTerms(found, min(map(index.postings.count, found)))


def _weigh(holders: NDArray[np.int64], matching: MatchingText) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = idf(holders, matching.documents) ** _idf_exponent(matching)
    return weights


def idf(holders: NDArray[np.int64], matching: int) -> NDArray[np.float64]:
    """Inverse document frequency, among the skills with any term of a query.

    The usual total would let every new skill change the answers to all tasks.
    """
    total = max(matching, _MIN_MATCHING)
    weights: NDArray[np.float64] = np.log1p((total - holders + 0.5).clip(0.5) / (holders + 0.5))
    return weights


def _idf_exponent(matching: MatchingText) -> float:
    return _IDF_EXPONENT / matching.crowding


def _is_known_word(index: TextIndex, word: str) -> bool:
    """Whether a word in mixed case is one: it is indexed, or a known name."""
    return index.find(stem(word)) is not None or is_technology_name(word)


def _map_variants(
    numbers: Sequence[int], relatives: Sequence[Sequence[TermVariant]]
) -> dict[int, tuple[int, float]]:
    own = enumerate(numbers)
    found = {number: (term, 1.0) for term, number in own if number != UNKNOWN_TERM}
    for term, variants in enumerate(relatives):
        for variant in variants:
            first, *others = variant.terms
            known = found.get(first, (term, 0.0))
            if not others and known[1] < variant.nearness:
                found[first] = term, variant.nearness
    return found


def _make_variant(
    own: float, nearness: float, numbers: tuple[int, ...], information: float
) -> TermVariant:
    # What is common says less, even in the place of a rare word.
    factor = nearness * min(1.0, sqrt(information / own))
    return TermVariant(numbers, nearness, factor * own)


def _find_term_pairs(order: Sequence[int]) -> dict[tuple[int, int], float]:
    found: dict[tuple[int, int], float] = {}
    for distance in range(_PAIR_WINDOW, 0, -1):
        worth = 1 / distance
        for one, other in zip(order, order[distance:], strict=False):
            if one != other:
                found[(one, other) if one < other else (other, one)] = worth
    return found
