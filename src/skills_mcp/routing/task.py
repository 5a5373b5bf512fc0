"""A task as the ranked algorithm sees it: its terms, and what each of them says."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from math import sqrt
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing import lexicon
from skills_mcp.routing.languages import find_function_words
from skills_mcp.routing.spelling import Spelling
from skills_mcp.routing.text_index.inverted_index import TextIndex
from skills_mcp.routing.text_index.vocabulary import UNKNOWN
from skills_mcp.routing.tokens import fold
from skills_mcp.routing.words import (
    Word,
    derive_words,
    is_unspaced,
    keep_known,
    split_text,
    stem,
)

_REACH = 2  # terms of a task that are further apart are no pair

# Of more, those that say most are what a task is about: no set of tasks finds another
# skill with all of them, and a pasted page would take a third longer.
_MOST_TERMS = 96

# What stands for the other words of a long task finds nothing more.
_MOST_RELATED = 24

# What is left of a word that no skill has, in a language that the skills are not in.
_FOREIGN = 0.03
# Of a task in another language the skills share less than the rest; of one in theirs,
# more: names and loanwords.
_SHARED = 0.4

# Rare words say less than their rareness makes believe; measured.
_POWER = 0.8


class Relative(NamedTuple):
    """What may stand for a term of the task."""

    terms: tuple[int, ...]
    """Numbers in the index; a skill has to hold all of them."""
    nearness: float
    """How far it means the same, above 0, at most 1."""
    information: float
    """How much it says in the place of the term."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """The distinct terms of a task, in the order in which they occur first."""

    size: float
    """How many terms count; a foreign one that no skill has counts next to nothing."""
    words: Sequence[Word]
    numbers: NDArray[np.int64]
    """The terms' numbers in the index, or `UNKNOWN`."""
    holders: NDArray[np.int64]
    """How many skills hold each."""
    information: NDArray[np.float64]
    """How much each says: the rarer and the less ordinary, the more; never 0."""
    is_technology: NDArray[np.bool_]
    """Which of them name a technology or a product."""
    relatives: Sequence[Sequence[Relative]]
    """What may stand for each, if a skill holds it."""
    nearest: Mapping[int, tuple[int, float]]
    """For the number of a term which of these it comes nearest to, and how near."""
    pairs: NDArray[np.int64]
    """Two terms in each row, the one that occurs first before the other."""
    nearness: NDArray[np.float64]
    """For each pair 1 if they are neighbours, 1/2 if one term is between them …"""

    @property
    def order(self) -> NDArray[np.int64]:
        """The terms by their place in the task, those that say most first."""
        return np.argsort(-self.information, kind="stable")

    @property
    def whole(self) -> float:
        """All information of the task."""
        return float(self.information.sum())


@dataclass(frozen=True, slots=True, eq=False)
class _Terms:
    """The distinct terms of a task, and what each says by itself (see `Task`)."""

    words: Mapping[str, Word]
    """By term; of those that have the same term the first."""
    numbers: NDArray[np.int64]
    holders: NDArray[np.int64]
    information: NDArray[np.float64]
    is_technology: NDArray[np.bool_]
    is_foreign: NDArray[np.bool_]
    """Which of them no skill has because it is in another language."""

    def take_weightiest(self) -> "_Terms":
        """Return those that say most, in the same order."""
        # What no skill has says most, but it finds nothing.
        order = np.lexsort((-self.information, self.numbers == UNKNOWN))
        kept = np.sort(order[:_MOST_TERMS])
        words = list(self.words.items())
        return _Terms(
            dict(words[place] for place in kept.tolist()),
            self.numbers[kept],
            self.holders[kept],
            self.information[kept],
            self.is_technology[kept],
            self.is_foreign[kept],
        )


class TaskReader:
    """Reads tasks for the skills of one index; remembers what tasks repeat.

    Args:
        index: What the skills say.
        synonyms: What an organisation has for the same (see `find_thesaurus`).
    """

    def __init__(self, index: TextIndex, synonyms: tuple[str, ...] = ()) -> None:
        self._index = index
        self._synonyms = synonyms
        self._spelling = Spelling(index)
        # Not of ourselves: a cycle is freed by nothing but the garbage collector.
        remember = lru_cache(maxsize=index.most_remembered)
        self._derive = remember(partial(_derive, partial(_is_known, index)))
        self._resolve = remember(partial(_look_up, index))

    def read(self, context: str) -> Task:
        """Return the terms of a text, and what they say about the skills."""
        silent = find_function_words(fold(context))
        sequence = self._read_words(context, silent)
        terms = self._weigh(sequence, silent)
        if len(terms.words) > _MOST_TERMS:
            terms = terms.take_weightiest()
            sequence = [word for word in sequence if word.term in terms.words]
        relatives = self._relate(sequence, terms)
        places = {term: place for place, term in enumerate(terms.words)}
        nearness = _find_pairs([places[word.term] for word in sequence])
        return Task(
            size=len(places) - (1 - _FOREIGN) * int(terms.is_foreign.sum()),
            words=tuple(terms.words.values()),
            numbers=terms.numbers,
            holders=terms.holders,
            information=terms.information,
            is_technology=terms.is_technology,
            relatives=relatives,
            nearest=_find_nearest(terms.numbers.tolist(), relatives),
            pairs=np.fromiter(chain(*nearness), np.int64).reshape(-1, 2),
            nearness=np.fromiter(nearness.values(), np.float64),
        )

    def _read_words(self, context: str, silent: AbstractSet[str]) -> list[Word]:
        """Return the words of a text in its order, without those that say nothing."""
        words = chain.from_iterable(map(self._derive, split_text(context)))
        return [w for w in words if w.typed not in silent] if silent else list(words)

    def _weigh(self, sequence: Iterable[Word], silent: AbstractSet[str]) -> _Terms:
        """Return the terms of the words of a task, and what they say.

        Args:
            sequence: The words.
            silent: The function words of the task's language, if it is not English.
        """
        words: dict[str, Word] = {}
        for word in dict.fromkeys(sequence):
            words.setdefault(word.term, word)
        found = map(self._index.find, words)
        numbers = np.array([UNKNOWN if n is None else n for n in found], np.int64)
        holders = self._index.postings.count_holders(numbers)
        ordinary = np.array([lexicon.weight_of(term) for term in words], np.float64)
        technologies = [lexicon.names_technology(w.typed) for w in words.values()]
        is_technology = np.array(technologies, np.bool_)
        foreign = _find_foreign(words.values(), numbers, is_foreign=bool(silent))
        ordinary[foreign] = _FOREIGN
        information = (inform(holders, len(self._index)) * ordinary) ** _POWER
        return _Terms(words, numbers, holders, information, is_technology, foreign)

    def _relate(
        self, sequence: Sequence[Word], terms: _Terms
    ) -> list[Sequence[Relative]]:
        """Return for each term what may stand for it and is not in the task."""
        worth = terms.information.tolist()
        least = sorted(worth, reverse=True)[:_MOST_RELATED][-1] if worth else 0
        told = {t for t, own in zip(terms.words, worth, strict=True) if own >= least}
        unknown = {term for term in told if self._index.find(term) is None}
        thesaurus = lexicon.find_thesaurus(self._synonyms)
        found = thesaurus.expand([word.term for word in sequence], told)
        spelt = self._spelling.expand(sequence, told, unknown)
        present = frozenset(terms.words)
        return [
            [
                _stand_for(own, related.weight, *known)
                for related in chain(spelt.get(term, ()), found.get(term, ()))
                if (known := self._resolve(related.terms))
                and not present.issuperset(related.terms)
            ]
            if term in told
            else ()
            for term, own in zip(terms.words, worth, strict=True)
        ]


def _find_foreign(
    words: Collection[Word], numbers: NDArray[np.int64], *, is_foreign: bool
) -> NDArray[np.bool_]:
    """Return which words no skill has because it is in another language.

    Args:
        words: Those of the task.
        numbers: Of their terms.
        is_foreign: Whether the task is in another language with letters of ours.
    """
    is_other = np.array(
        [
            is_unspaced(word.typed)
            or (is_foreign and not lexicon.names_technology(word.typed))
            for word in words
        ],
        np.bool_,
    )
    foreign: NDArray[np.bool_] = is_other & (numbers == UNKNOWN)
    # In a library of that language most are known, and what is not speaks against it.
    if np.count_nonzero(foreign) <= _SHARED * np.count_nonzero(is_other):
        foreign[:] = False
    return foreign


def _look_up(
    index: TextIndex, terms: tuple[str, ...]
) -> tuple[tuple[int, ...], float] | None:
    """Return the numbers of terms and how much they say, if all are held."""
    found = [index.find(term) for term in terms]
    numbers = tuple(number for number in found if number is not None)
    if len(numbers) < len(terms):
        return None
    # The rarest says most.
    holders = min(map(index.postings.count, numbers))
    return numbers, float(inform(holders, len(index)) ** _POWER)


@overload
def inform(holders: int, total: int) -> np.float64: ...
@overload
def inform(holders: NDArray[np.int64], total: int) -> NDArray[np.float64]: ...
def inform(
    holders: int | NDArray[np.int64], total: int
) -> np.float64 | NDArray[np.float64]:
    """Return how much terms say that so many of all skills hold: their idf."""
    return np.log1p((total - holders + 0.5) / (holders + 0.5))


def _derive(is_known: Callable[[str], bool], piece: bytes) -> tuple[Word, ...]:
    """Return the words of a piece of the task."""
    return derive_words(keep_known(piece.decode(), is_known))


def _is_known(index: TextIndex, word: str) -> bool:
    """Whether a word in mixed case is one: a skill has it, or it is a known name."""
    return index.find(stem(word)) is not None or lexicon.names_technology(word)


def _find_nearest(
    numbers: Sequence[int], relatives: Sequence[Sequence[Relative]]
) -> dict[int, tuple[int, float]]:
    """Return which term of the task a term comes nearest to: 1 is that term itself."""
    own = enumerate(numbers)
    found = {number: (term, 1.0) for term, number in own if number != UNKNOWN}
    for term, its in enumerate(relatives):
        for relative in its:
            first, *others = relative.terms
            known = found.get(first, (term, 0.0))
            if not others and known[1] < relative.nearness:
                found[first] = term, relative.nearness
    return found


def _stand_for(
    own: float, nearness: float, numbers: tuple[int, ...], information: float
) -> Relative:
    # What is common says less, even in the place of a rare word.
    factor = nearness * min(1.0, sqrt(information / own))
    return Relative(numbers, nearness, factor * own)


def _find_pairs(order: Sequence[int]) -> dict[tuple[int, int], float]:
    """Return the pairs of a sequence, and how near they are where they are nearest."""
    found: dict[tuple[int, int], float] = {}
    for distance in range(_REACH, 0, -1):
        worth = 1 / distance
        for one, other in zip(order, order[distance:], strict=False):
            if one != other:
                found[(one, other) if one < other else (other, one)] = worth
    return found
