"""Spelling variants of query terms: compounds, and typing errors."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np

from skills_mcp.routing import lexicon
from skills_mcp.routing.text_index.intersection import intersect
from skills_mcp.routing.text_index.inverted_index import TextIndex
from skills_mcp.routing.words import Word, stem_all

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


class SpellingVariants:
    def __init__(self, index: TextIndex) -> None:
        self._index = index
        remember = lru_cache(maxsize=index.cache_size)
        self._are_adjacent = remember(partial(_are_adjacent, index))

    def expand(
        self,
        sequence: Sequence[Word],
        expanded: Collection[str],
        unknown: Collection[str],
    ) -> dict[str, list[lexicon.Synonym]]:
        """Find spelling variants by term; `unknown` terms are not indexed."""
        found: dict[str, list[lexicon.Synonym]] = {}
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
    index: TextIndex, pairs: Iterable[tuple[Word, Word]]
) -> Iterator[tuple[Word, Word, lexicon.Synonym]]:
    """Join adjacent words to compounds: post-mortem is postmortem."""
    fitting = [
        (one, other)
        for one, other in pairs
        if len(one.typed) + len(other.typed) <= _MAX_COMPOUND
        # 1, 0 is not 10
        and not (one.typed.isdecimal() and other.typed.isdecimal())
    ]
    joined = stem_all([one.typed + other.typed for one, other in fitting])
    for position in index.find_known(joined):
        yield *fitting[position], lexicon.Synonym((joined[position],), _COMPOUND_WEIGHT)


def _split_compounds(
    index: TextIndex,
    unknown: Iterable[Word],
    are_adjacent: Callable[[int, int], bool],
) -> dict[str, list[lexicon.Synonym]]:
    """Split compounds of adjacent terms in some skill: postmortem is post-mortem."""
    cuts = [
        (word.typed, position)
        for word in unknown
        if len(word.typed) <= _MAX_COMPOUND
        for position in range(_MIN_COMPOUND_PART, len(word.typed) - _MIN_COMPOUND_PART + 1)
    ]
    first = stem_all([typed[:position] for typed, position in cuts])
    starts = list(index.find_known(first))
    second = stem_all([cuts[n][0][cuts[n][1] :] for n in starts])
    found: dict[str, list[lexicon.Synonym]] = {}
    for position in index.find_known(second):
        cut = starts[position]
        typed, _ = cuts[cut]
        parts = first[cut], second[position]
        numbers = [n for part in parts if (n := index.find(part)) is not None]
        if are_adjacent(*numbers):
            related = lexicon.Synonym(parts, _COMPOUND_WEIGHT)
            found.setdefault(typed, []).append(related)
    return found


def _correct_typos(index: TextIndex, unknown: Iterable[Word]) -> dict[str, list[lexicon.Synonym]]:
    """Correct typing errors: one edit or transposition behind the first letters."""
    terms = [
        term
        for term in dict.fromkeys(word.term for word in unknown)
        if len(term) >= _MIN_CORRECTED_LETTERS
        and term.isascii()
        and term.isalpha()
        and lexicon.common_word_weight(term) == 1
    ]
    found: dict[str, list[lexicon.Synonym]] = {}
    for term, other in index.vocabulary.find_similar(terms):
        if _is_one_error(term, other):
            related = lexicon.Synonym((other,), _TYPO_WEIGHT)
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
    holders, _ = intersect(index.postings, (one, other))
    first = index.take_first(holders, _MAX_READ_SKILLS)
    if not len(first):
        return False
    texts = map(index.sequences.read, first.tolist())
    terms = np.concatenate([text.whole[:_MAX_READ_TERMS] for text in texts])
    [positions] = (terms[:-1] == one).nonzero()
    return bool((terms[positions + 1] == other).any())
