"""A task as the ranked algorithm sees it: its terms, what each says, and who holds it.

`TaskReader` reads the terms. `Shares` takes the first look at all skills: how much of
the task does each of them explain?
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
    SHARE_UNIT,
    Documents,
    Postings,
    TextIndex,
)
from skills_mcp.routing.text_index.vocabulary import UNKNOWN
from skills_mcp.routing.tokens import fold
from skills_mcp.routing.words import (
    Word,
    derive_words,
    is_unspaced,
    keep_known,
    split_text,
    stem,
    stem_all,
)

_REACH = 2  # terms of a task that are further apart are no pair

# Of more, those that say most are what a task is about: no set of tasks finds another
# skill with all of them, and a pasted page would take a third longer.
_MOST_TERMS = 96

# What stands for the other words of a long task finds nothing more.
_MOST_RELATED = 24

# With or without a hyphen, it is the same word.
_SAME_WORD = 1.0
_SHORTEST_PART = 3
_LONGEST_COMPOUND = 30  # letters; what is longer is no word that is written in two ways

# A word that no skill has may be a typing error of one that some skill has.
_TYPING_ERROR = 0.7
_SHORTEST_CORRECTED = 5

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
        self._stand_together = remember(partial(_stand_together, index))

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
        information = (inform(holders, len(self._index)) * ordinary) ** _POWER
        if len(words) > _MOST_TERMS:
            # What no skill has says most, but it finds nothing.
            order = np.lexsort((-information, numbers == UNKNOWN))
            kept = np.sort(order[:_MOST_TERMS])
            terms = list(words)
            words = {terms[place]: words[terms[place]] for place in kept.tolist()}
            sequence = [word for word in sequence if word.term in words]
            numbers, holders = numbers[kept], holders[kept]
            information, foreign = information[kept], foreign[kept]
        places = {term: place for place, term in enumerate(words)}
        nearness = _find_pairs([places[word.term] for word in sequence])
        relatives = self._relate(sequence, words, information.tolist())
        return Task(
            size=len(words) - (1 - _FOREIGN) * int(foreign.sum()),
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
            pairs=np.fromiter(chain(*nearness), np.int64).reshape(-1, 2),
            nearness=np.fromiter(nearness.values(), np.float64),
        )

    def _relate(
        self, sequence: Sequence[Word], terms: Collection[str], worth: Sequence[float]
    ) -> list[list[Relative]]:
        """Return for each term what may stand for it and is not in the task."""
        least = sorted(worth, reverse=True)[:_MOST_RELATED][-1] if worth else 0
        told = {t for t, own in zip(terms, worth, strict=True) if own >= least}
        thesaurus = lexicon.find_thesaurus(self._synonyms)
        found = thesaurus.expand([word.term for word in sequence], told)
        spelt = self._spell(sequence, told)
        return [
            [
                _stand_for(own, related.weight, *known)
                for related in chain(spelt.get(term, ()), found.get(term, ()))
                if (known := self._resolve(related.terms))
                and not all(each in terms for each in related.terms)
            ]
            if term in told
            else []
            for term, own in zip(terms, worth, strict=True)
        ]

    def _spell(
        self, sequence: Sequence[Word], told: Collection[str]
    ) -> dict[str, list[lexicon.Related]]:
        """Return for terms how else the same is written, if a skill writes it so."""
        found: dict[str, list[lexicon.Related]] = {}
        pairs = (
            (one, other)
            for one, other in pairwise(sequence)
            if one.term in told or other.term in told
        )
        for one, other, related in _join(self._index, pairs):
            found.setdefault(one.term, []).append(related)
            found.setdefault(other.term, []).append(related)
        find = self._index.find
        distinct = dict.fromkeys(word for word in sequence if word.term in told)
        unknown = [word for word in distinct if find(word.term) is None]
        split = _split(self._index, unknown, self._stand_together)
        corrected = _correct(self._index, unknown)
        for word in unknown:
            its = (*split.get(word.typed, ()), *corrected.get(word.term, ()))
            found.setdefault(word.term, []).extend(its)
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


# All words of a task at once: most of what is looked up here is not there, and that
# takes a tenth of the time when it is asked for together.


def _join(
    index: TextIndex, pairs: Iterable[tuple[Word, Word]]
) -> Iterator[tuple[Word, Word, lexicon.Related]]:
    """Iterate over the words that two make together: post-mortem is postmortem."""
    fitting = [
        (one, other)
        for one, other in pairs
        if len(one.typed) + len(other.typed) <= _LONGEST_COMPOUND
        # 1, 0 is not 10
        and not (one.typed.isdecimal() and other.typed.isdecimal())
    ]
    joined = stem_all([one.typed + other.typed for one, other in fitting])
    for place in index.find_known(joined):
        yield *fitting[place], lexicon.Related((joined[place],), _SAME_WORD)


def _split(
    index: TextIndex,
    unknown: Iterable[Word],
    stand_together: Callable[[int, int], bool],
) -> dict[str, list[lexicon.Related]]:
    """Return the two words that one is made of: postmortem is post-mortem.

    Args:
        index: What the skills say.
        unknown: Words that no skill has.
        stand_together: Whether a skill has one term right before the other: only such
            words count.
    """
    halves = [
        (word.typed[:place], word.typed[place:], word.typed)
        for word in unknown
        if len(word.typed) <= _LONGEST_COMPOUND
        for place in range(_SHORTEST_PART, len(word.typed) - _SHORTEST_PART + 1)
    ]
    first = stem_all([half for half, _, _ in halves])
    begun = [(first[place], *halves[place][1:]) for place in index.find_known(first)]
    second = stem_all([half for _, half, _ in begun])
    found: dict[str, list[lexicon.Related]] = {}
    for place in index.find_known(second):
        one, _, typed = begun[place]
        parts = one, second[place]
        numbers = [n for part in parts if (n := index.find(part)) is not None]
        if stand_together(*numbers):
            related = lexicon.Related(parts, _SAME_WORD)
            found.setdefault(typed, []).append(related)
    return found


def _correct(
    index: TextIndex, unknown: Iterable[Word]
) -> dict[str, list[lexicon.Related]]:
    """Return the terms that a term may be a typing error of: kuberntes, kubernetes.

    Only terms that begin alike and differ by one letter that is wrong, missing, too
    much or in its neighbour's place.

    Args:
        index: What the skills say.
        unknown: Words that no skill has.
    """
    terms = [
        term
        for term in dict.fromkeys(word.term for word in unknown)
        if len(term) >= _SHORTEST_CORRECTED
        and term.isascii()
        and term.isalpha()
        and lexicon.weight_of(term) == 1
    ]
    found: dict[str, list[lexicon.Related]] = {}
    for term, other in index.vocabulary.find_similar(terms):
        if _is_one_error(term, other):
            related = lexicon.Related((other,), _TYPING_ERROR)
            found.setdefault(term, []).append(related)
    return found


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
    first = index.take_first(holders, _MOST_COMPARED)
    if not len(first):
        return False
    texts = map(index.sequences.read, first.tolist())
    terms = np.concatenate([text.whole[:_LONGEST_COMPARED] for text in texts])
    [places] = (terms[:-1] == one).nonzero()
    return bool((terms[places + 1] == other).any())


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


def _find_pairs(order: Sequence[int]) -> dict[tuple[int, int], float]:
    """Return the pairs of a sequence, and how near they are where they are nearest."""
    found: dict[tuple[int, int], float] = {}
    for distance in range(_REACH, 0, -1):
        worth = 1 / distance
        for one, other in zip(order, order[distance:], strict=False):
            if one != other:
                found[(one, other) if one < other else (other, one)] = worth
    return found


Held = tuple[Documents, NDArray[np.uint16]]
"""Documents by number, in order, and their shares."""

# A relative that many hold counts where a skill says what it is about. In a long text
# it is chance, and to follow it there would take most of the time.
_SHORT_FIELDS = np.uint8(7)
_MANY = 1000

_SPARSE = 4  # to look up a few documents costs as much as to read all, times this

_MOST_SEARCHED_TERMS = 64  # of a long task, whose other words say little


class Holders(NamedTuple):
    """Who holds a term of the task, or what may stand for it."""

    documents: Documents
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
    documents: Documents, wanted: NDArray[np.unsignedinteger]
) -> NDArray[np.bool_]:
    """Return which of the wanted are among documents, which are in order."""
    if not len(documents):
        return np.zeros(len(wanted), np.bool_)
    # Numbers of another type would make a copy of all documents, again and again.
    places = documents.searchsorted(wanted.astype(documents.dtype, copy=False))
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
