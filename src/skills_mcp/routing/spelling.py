"""How else the words of a task may be written: with a hyphen, or without the error."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np

from skills_mcp.routing import lexicon
from skills_mcp.routing.text_index.intersection import intersect
from skills_mcp.routing.text_index.inverted_index import TextIndex
from skills_mcp.routing.words import Word, stem_all

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


class Spelling:
    """Finds how else the skills of one index write words; remembers what tasks repeat.

    Args:
        index: What the skills say.
    """

    def __init__(self, index: TextIndex) -> None:
        self._index = index
        remember = lru_cache(maxsize=index.most_remembered)
        self._stand_together = remember(partial(_stand_together, index))

    def expand(
        self, sequence: Sequence[Word], told: Collection[str], unknown: Collection[str]
    ) -> dict[str, list[lexicon.Related]]:
        """Return for terms how else the same is written, if a skill writes it so.

        Args:
            sequence: The words of the task in its order.
            told: The terms that are worth it.
            unknown: Those of them that no skill has.
        """
        found: dict[str, list[lexicon.Related]] = {}
        pairs = (
            (one, other)
            for one, other in pairwise(sequence)
            if one.term in told or other.term in told
        )
        for one, other, related in _join(self._index, pairs):
            found.setdefault(one.term, []).append(related)
            found.setdefault(other.term, []).append(related)
        words = [word for word in dict.fromkeys(sequence) if word.term in unknown]
        split = _split(self._index, words, self._stand_together)
        corrected = _correct(self._index, words)
        for word in words:
            its = (*split.get(word.typed, ()), *corrected.get(word.term, ()))
            found.setdefault(word.term, []).extend(its)
        return found


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
    cuts = [
        (word.typed, place)
        for word in unknown
        if len(word.typed) <= _LONGEST_COMPOUND
        for place in range(_SHORTEST_PART, len(word.typed) - _SHORTEST_PART + 1)
    ]
    first = stem_all([typed[:place] for typed, place in cuts])
    begun = list(index.find_known(first))
    second = stem_all([cuts[n][0][cuts[n][1] :] for n in begun])
    found: dict[str, list[lexicon.Related]] = {}
    for place in index.find_known(second):
        cut = begun[place]
        typed, _ = cuts[cut]
        parts = first[cut], second[place]
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
    holders, _ = intersect(index.postings, (one, other))
    first = index.take_first(holders, _MOST_COMPARED)
    if not len(first):
        return False
    texts = map(index.sequences.read, first.tolist())
    terms = np.concatenate([text.whole[:_LONGEST_COMPARED] for text in texts])
    [places] = (terms[:-1] == one).nonzero()
    return bool((terms[places + 1] == other).any())
