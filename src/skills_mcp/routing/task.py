"""A task as the ranked algorithm sees it: its terms, what each says, and who holds it.

`TaskReader` reads the terms. `Shares` takes the first look at all skills: how much of
the task does each of them explain?
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice, pairwise
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing import lexicon
from skills_mcp.routing.languages import find_function_words
from skills_mcp.routing.text_index.inverted_index import (
    FIELDS,
    SHARE_UNIT,
    Postings,
    TextIndex,
)
from skills_mcp.routing.text_index.ragged import expand
from skills_mcp.routing.tokens import fold
from skills_mcp.routing.words import (
    Word,
    derive_words,
    is_unspaced,
    keep_known,
    split_text,
    stem,
)

UNKNOWN = -1
"""The number of a term that no skill holds."""

_REACH = 2  # terms of a task that are further apart are no pair

_MOST_TERMS = 512  # of more, those that say most are what a task is about

# What stands for the other words of a long task finds nothing more.
_MOST_RELATED = 24

# With or without a hyphen, it is the same word.
_SAME_WORD = 1.0
_SHORTEST_PART = 3
_LONGEST_COMPOUND = 30  # letters; what is longer is no word that is written in two ways

# A word that no skill has may be a typing error of one that some skill has.
_TYPING_ERROR = 0.7
_SHORTEST_CORRECTED = 5
_SAME_BEGINNING = 2

# Of the skills that hold both parts of a word, so many are read, and so many of their
# terms: where two are written as one, nearly every text that has both has them so.
_MOST_COMPARED = 20
_LONGEST_COMPARED = 2048

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
    def whole(self) -> float:
        """All information of the task."""
        return float(self.information.sum())


class TaskReader:
    """Reads tasks for the skills of one index; remembers what tasks repeat.

    Args:
        index: What the skills say.
        synonyms: What an organisation has for the same (see `find_thesaurus`).
    """

    def __init__(self, index: TextIndex, synonyms: tuple[str, ...] = ()) -> None:
        self._index = index
        self._synonyms = synonyms
        # Not of ourselves: a cycle is freed by nothing but the garbage collector.
        remember = lru_cache(maxsize=index.most_remembered)
        self._resolve = remember(partial(_look_up, index))
        self._derive = remember(partial(_derive, index))
        self._join = remember(partial(_join, index))
        self._split = remember(partial(_split, index))
        self._correct = remember(partial(_correct, index))

    def read(self, context: str) -> Task:
        """Return the terms of a text, and what they say about the skills."""
        silent = find_function_words(fold(context))
        pieces = map(self._derive, split_text(context))
        sequence = [
            word for word in chain.from_iterable(pieces) if word.typed not in silent
        ]
        words: dict[str, Word] = {}
        for word in sequence:
            words.setdefault(word.term, word)
        found = map(self._index.find, words)
        numbers = np.array([UNKNOWN if n is None else n for n in found], np.int64)
        holders = self._index.postings.count_holders(numbers)
        ordinary = np.array([lexicon.weight_of(term) for term in words], np.float64)
        foreign = _find_foreign(words.values(), numbers, is_foreign=bool(silent))
        ordinary[foreign] = _FOREIGN
        size = len(words) - (1 - _FOREIGN) * int(foreign.sum())
        information = (inform(holders, len(self._index)) * ordinary) ** _POWER
        if len(words) > _MOST_TERMS:
            # What no skill has says most, but it finds nothing.
            order = np.lexsort((-information, numbers == UNKNOWN))
            kept = np.sort(order[:_MOST_TERMS])
            terms = list(words)
            words = {terms[place]: words[terms[place]] for place in kept.tolist()}
            sequence = [word for word in sequence if word.term in words]
            numbers, holders = numbers[kept], holders[kept]
            information = information[kept]
        places = {term: place for place, term in enumerate(words)}
        nearness = dict(_find_pairs([places[word.term] for word in sequence]))
        relatives = self._relate(sequence, words, information.tolist())
        return Task(
            size=size,
            words=tuple(words.values()),
            numbers=numbers,
            holders=holders,
            information=information,
            is_technology=np.array(
                [lexicon.names_technology(word.typed) for word in words.values()],
                np.bool_,
            ),
            relatives=relatives,
            nearest=_find_nearest(numbers.tolist(), relatives),
            pairs=np.array(list(nearness), np.int64).reshape(-1, 2),
            nearness=np.array(list(nearness.values()), np.float64),
        )

    def _relate(
        self, sequence: Sequence[Word], terms: Collection[str], worth: Sequence[float]
    ) -> list[list[Relative]]:
        """Return for each term what may stand for it and is not in the task."""
        least = sorted(worth, reverse=True)[:_MOST_RELATED][-1] if worth else 0
        told = {t for t, own in zip(terms, worth, strict=True) if own >= least}
        thesaurus = lexicon.find_thesaurus(self._synonyms)
        found = thesaurus.expand([word.term for word in sequence])
        spelt = self._spell(sequence, told)
        return [
            [
                _stand_for(own, related.weight, *known)
                for related in chain(spelt.get(term, ()), found.get(term, ()))
                if term in told
                and (known := self._resolve(related.terms))
                and not all(each in terms for each in related.terms)
            ]
            for term, own in zip(terms, worth, strict=True)
        ]

    def _spell(
        self, sequence: Sequence[Word], told: Collection[str]
    ) -> dict[str, list[lexicon.Related]]:
        """Return for terms how else the same is written, if a skill writes it so."""
        found: dict[str, list[lexicon.Related]] = {}
        for one, other in pairwise(sequence):
            is_told = one.term in told or other.term in told
            for related in self._join(one.typed, other.typed) if is_told else ():
                found.setdefault(one.term, []).append(related)
                found.setdefault(other.term, []).append(related)
        for word in dict.fromkeys(w for w in sequence if w.term in told):
            found.setdefault(word.term, []).extend(self._split(word.typed))
            found[word.term].extend(self._correct(word.term))
        return found


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


def _join(index: TextIndex, one: str, other: str) -> Sequence[lexicon.Related]:
    """Return the word that two make together: post-mortem is postmortem."""
    is_number = one.isdecimal() and other.isdecimal()  # 1, 0 is not 10
    if is_number or len(one) + len(other) > _LONGEST_COMPOUND:
        return ()
    joined = stem(one + other)
    is_known = index.find(joined) is not None
    return (lexicon.Related((joined,), _SAME_WORD),) if is_known else ()


def _split(index: TextIndex, word: str) -> Sequence[lexicon.Related]:
    """Return the two words that one is made of: postmortem is post-mortem.

    Only a word that no skill has, and only words that stand side by side in one.
    """
    find = index.find
    if len(word) > _LONGEST_COMPOUND or find(stem(word)) is not None:
        return ()
    found: list[lexicon.Related] = []
    for place in range(_SHORTEST_PART, len(word) - _SHORTEST_PART + 1):
        parts = stem(word[:place]), stem(word[place:])
        one = find(parts[0])
        other = None if one is None else find(parts[1])
        if one is None or other is None:
            continue
        if _stand_together(index, one, other):
            found.append(lexicon.Related(parts, _SAME_WORD))
    return found


def _correct(index: TextIndex, term: str) -> Sequence[lexicon.Related]:
    """Return the terms that a term may be a typing error of: kuberntes, kubernetes.

    Only a term that no skill has, and only terms that begin alike and differ by one
    letter that is wrong, missing, too much or in its neighbour's place.
    """
    is_word = term.isascii() and term.isalpha() and lexicon.weight_of(term) == 1
    if len(term) < _SHORTEST_CORRECTED or not is_word or index.find(term) is not None:
        return ()
    sizes = range(len(term) - 1, len(term) + 2)
    others = index.vocabulary.find_beginning(term[:_SAME_BEGINNING], sizes)
    return [
        lexicon.Related((other,), _TYPING_ERROR)
        for other in others
        if _is_one_error(term, other)
    ]


def _is_one_error(one: str, other: str) -> bool:
    """Whether two words differ by one letter, or by two that have changed places."""
    pairs = zip(one, other, strict=False)
    start = next((n for n, (a, b) in enumerate(pairs) if a != b), len(one))
    rest, others = one[start:], other[start:]
    return (
        rest[1:] == others[1:]
        or rest[1:] == others
        or rest == others[1:]
        or (rest[:2] == others[1::-1] and rest[2:] == others[2:])
    )


def _stand_together(index: TextIndex, one: int, other: int) -> bool:
    """Whether a skill has one term right before the other."""
    holders, _ = _hold(index.postings, (one, other))
    ends = index.sequences.ends
    first = index.take_first(holders, _MOST_COMPARED)
    rows = first.astype(np.int64) * len(FIELDS)
    sizes = np.minimum(ends[rows + len(FIELDS)] - ends[rows], _LONGEST_COMPARED)
    terms = index.sequences.values[expand(ends[rows], sizes)]
    return bool(((terms[:-1] == one) & (terms[1:] == other)).any())


def _look_up(
    index: TextIndex, terms: tuple[str, ...]
) -> tuple[tuple[int, ...], float] | None:
    """Return the numbers of terms and how much they say, if all are held."""
    found = [index.find(term) for term in terms]
    numbers = tuple(number for number in found if number is not None)
    if len(numbers) < len(terms):
        return None
    holders = index.postings.count_holders(np.array(numbers))
    return numbers, float(inform(holders, len(index)).max() ** _POWER)


def inform(holders: NDArray[np.int64], total: int) -> NDArray[np.float64]:
    """Return how much terms say that so many of all skills hold: their idf."""
    return np.log1p((total - holders + 0.5) / (holders + 0.5))


def _derive(index: TextIndex, piece: bytes) -> tuple[Word, ...]:
    """Return the words of a piece of the task."""
    return derive_words(keep_known(piece.decode(), partial(_is_known, index)))


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


def _find_pairs(order: Sequence[int]) -> Iterator[tuple[tuple[int, int], float]]:
    """Iterate over the pairs of a sequence, the nearest last."""
    for distance in range(_REACH, 0, -1):
        for one, other in zip(order, order[distance:], strict=False):
            if one != other:
                yield (min(one, other), max(one, other)), 1 / distance


Held = tuple[NDArray[np.uint32], NDArray[np.uint16]]
"""Documents by number, in order, and their shares."""

# A relative that many hold counts where a skill says what it is about. In a long text
# it is chance, and to follow it there would take most of the time.
_SHORT_FIELDS = np.uint8(7)
_MANY = 1000

_SPARSE = 4  # to look up a few documents costs as much as to read all, times this

_MOST_SEARCHED_TERMS = 64  # of a long task, whose other words say little


class Holders(NamedTuple):
    """Who holds a term of the task, or what may stand for it."""

    documents: NDArray[np.uint32]
    """By number, in order."""
    worth: NDArray[np.float64]
    """What it explains in each of them, as information."""
    relative: Relative | None
    """What stands for the term; None for the term itself."""


class Shares:
    """Who holds the terms of tasks; remembers what tasks repeat."""

    def __init__(self, index: TextIndex) -> None:
        self._postings = index.postings
        self._hold = lru_cache(maxsize=index.most_remembered // 2)(
            partial(_hold, index.postings)
        )

    def find(self, task: Task) -> list[list[Holders]]:
        """Return for each term of a task who holds it or one of its relatives."""
        order = np.argsort(-task.information, kind="stable").tolist()
        found: list[list[Holders]] = [[] for _ in order]
        can_find = (
            term
            for term in order
            if task.numbers[term] != UNKNOWN or task.relatives[term]
        )
        for term in islice(can_find, _MOST_SEARCHED_TERMS):
            found[term] += self._find_own(task, term)
            found[term] += self._find_relatives(task, term)
        return found

    def _find_own(self, task: Task, term: int) -> Iterator[Holders]:
        number = int(task.numbers[term])
        if number != UNKNOWN:
            its = self._postings.span(number)
            unit = float(task.information[term]) / SHARE_UNIT
            documents = self._postings.documents.values[its]
            worth = np.multiply(self._postings.shares[its], unit, dtype=np.float64)
            yield Holders(documents, worth, None)

    def _find_relatives(self, task: Task, term: int) -> Iterator[Holders]:
        for relative in task.relatives[term]:
            documents, shares = self._hold(relative.terms)
            if len(documents):
                unit = relative.information / SHARE_UNIT
                worth = np.multiply(shares, unit, dtype=np.float64)
                yield Holders(documents, worth, relative)


def explain_shares(
    task: Task, held: Iterable[Sequence[Holders]], total: int
) -> NDArray[np.float64]:
    """Return for each of all documents the share of the task that it explains."""
    explained = np.zeros(total)
    best = np.zeros(total)
    alone: list[Holders] = []
    for holders in held:
        if len(holders) > 1:
            _add_best(explained, best, holders)
        else:
            alone += holders
    if alone:
        documents = np.concatenate([each.documents for each in alone])
        worth = np.concatenate([each.worth for each in alone])
        explained += np.bincount(documents, worth, total)
    explained /= task.whole or 1
    return np.minimum(explained, 1, out=explained)


def contain(
    documents: NDArray[np.uint32], wanted: NDArray[np.uint32]
) -> NDArray[np.bool_]:
    """Return which of the wanted are among documents, which are in order."""
    if not len(documents):
        return np.zeros(len(wanted), np.bool_)
    places = documents.searchsorted(wanted)
    found: NDArray[np.bool_] = documents.take(places, mode="clip") == wanted
    return found


def _hold(postings: Postings, terms: tuple[int, ...]) -> Held:
    """Return who holds all of some terms, and the smallest share."""
    first, *others = sorted(terms, key=postings.count)
    documents, shares = _select(postings, first)
    for term in others:
        its, their = _select(postings, term)
        is_both = contain(its, documents)
        documents, shares = documents[is_both], shares[is_both]
        shares = np.minimum(shares, their[its.searchsorted(documents)])
    return documents, shares


def _select(postings: Postings, term: int) -> Held:
    documents, shares, fields = postings.holders(term)
    if len(documents) <= _MANY:
        return documents, shares
    [short] = (fields & _SHORT_FIELDS).nonzero()
    return documents[short], shares[short]


def _add_best(
    explained: NDArray[np.float64],
    best: NDArray[np.float64],
    found: Sequence[Holders],
) -> None:
    """Add what the best of a term and its relatives explains; `best` stays empty."""
    total = 0
    for documents, worth, _ in found:
        at = documents.astype(np.intp)
        best[at] = np.maximum(best[at], worth) if total else worth
        total += len(at)
    if total * _SPARSE > len(best):
        explained += best
        best[:] = 0
        return
    touched = np.concatenate([each.documents for each in found])
    # A document that stands here twice is written twice, and with the same sum.
    explained[touched] += best[touched]
    best[touched] = 0
