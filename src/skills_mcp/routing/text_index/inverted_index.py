"""Everything that ranking needs to know about the texts of a set of skills, in arrays.

An index is built in one pass, written to a file as it is, and mapped again. It is the
same for the same documents, whether their words were read or taken from another index.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.text_index.postings import Postings
from skills_mcp.routing.text_index.ragged import Ragged, check, ends_of, translate
from skills_mcp.routing.text_index.sequences import (
    FIELDS,
    IndexedDocument,
    read_documents,
)

Array = NDArray[Any]
Numbers = NDArray[np.integer]

_TYPES = {
    "terms": np.uint8,
    "term_ends": np.int64,
    "sequences": np.uint32,
    "sequence_ends": np.int64,
    "holders": np.uint32,
    "holder_ends": np.int64,
    "shares": np.uint16,
    "fields": np.uint8,
    "priorities": np.int32,
}


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Terms by number; the smaller the number, the smaller the term."""

    terms: Ragged
    """Each in UTF-8."""

    @classmethod
    def join(cls, terms: Sequence[str]) -> "Vocabulary":
        """Return the vocabulary of terms that are sorted already."""
        return cls(_encode(terms))

    def __len__(self) -> int:
        return len(self.terms)

    def term(self, number: int) -> str:
        """Return the term with this number."""
        return self._encoded(number).decode()

    def find(self, term: str) -> int | None:
        """Return the number of a term, or None if there is no such term."""
        return self._find(term)

    def _look_up(self, term: str) -> int | None:
        place = bisect_left(range(len(self)), term.encode(), key=self._encoded)
        is_there = place < len(self) and self._encoded(place) == term.encode()
        return place if is_there else None

    def numbers(self) -> dict[str, int]:
        """Return the number of each term."""
        text, ends = bytes(self.terms.values), self.terms.ends.tolist()
        return {
            text[start:end].decode(): number
            for number, (start, end) in enumerate(pairwise(ends))
        }

    def _encoded(self, number: int) -> bytes:
        return bytes(self._text[self._ends[number] : self._ends[number + 1]])

    @cached_property
    def _find(self) -> Callable[[str], int | None]:
        return lru_cache(maxsize=4096)(self._look_up)  # tasks repeat their words

    # A view answers for one item several times as fast as an array.
    @cached_property
    def _text(self) -> memoryview:
        return self.terms.values.data

    @cached_property
    def _ends(self) -> memoryview:
        return self.terms.ends.data


@dataclass(frozen=True, slots=True, eq=False)
class TextIndex:
    """The terms of documents; the number of a document is its place among them."""

    vocabulary: Vocabulary
    sequences: Ragged
    """For each document a row per field: its terms in their order."""
    postings: Postings
    priorities: NDArray[np.int32]

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together.

        Raises:
            ValueError: A file is damaged.
        """
        rows = len(self.priorities) * len(FIELDS)
        check(len(self.sequences) == rows, "documents are missing")
        check(len(self.postings.documents) == len(self.vocabulary), "terms are missing")

    def __len__(self) -> int:
        return len(self.priorities)

    @classmethod
    def build(
        cls,
        documents: Iterable[IndexedDocument | int],
        known: "TextIndex | None" = None,
    ) -> "TextIndex":
        """Return the index of documents.

        Args:
            documents: In their order. A number stands for a document of `known`, whose
                words are not read again.
            known: Another index. The result is the same as without it.
        """
        terms = known.vocabulary.numbers() if known else {}
        places: list[int] = []  # in `known` first, and behind it what is read
        priorities: list[int] = known.priorities.tolist() if known else []
        fresh = _take_fresh(documents, places, priorities)
        rows = read_documents(fresh, terms)
        if known:
            order = _rows_of(np.array(places, np.int64))
            rows = known.sequences.arrange(rows, order)
        ordered = list(_sort_terms(_find_used(terms, rows)))
        numbers = np.zeros(len(terms), np.uint32)
        numbers[[terms[term] for term in ordered]] = np.arange(len(ordered))
        del terms  # a dictionary of all terms is large
        vocabulary = Vocabulary.join(ordered)
        del ordered
        sequences = Ragged(translate(rows.values, numbers), rows.ends)
        del rows
        postings = Postings.invert(sequences, len(vocabulary))
        kept = np.array([priorities[place] for place in places], np.int32)
        return cls(vocabulary, sequences, postings, kept)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> "TextIndex":
        """Return the index that had these `arrays`.

        Cheap, so that a mapped file is not read for it. Numbers that lead nowhere
        raise an IndexError or ValueError when they are met.

        Raises:
            ValueError: They are no index: a file is damaged, or of another version.
        """
        check(arrays.keys() == _TYPES.keys(), "there are other arrays in it")
        for name, kind in _TYPES.items():
            is_right = arrays[name].dtype == kind and arrays[name].ndim == 1
            check(is_right, f"{name} is of another type")
        return cls(
            Vocabulary(Ragged(arrays["terms"], arrays["term_ends"])),
            Ragged(arrays["sequences"], arrays["sequence_ends"]),
            Postings(
                Ragged(arrays["holders"], arrays["holder_ends"]),
                arrays["shares"],
                arrays["fields"],
            ),
            arrays["priorities"],
        )

    @property
    def arrays(self) -> Mapping[str, Array]:
        """What to store."""
        return {
            "terms": self.vocabulary.terms.values,
            "term_ends": self.vocabulary.terms.ends,
            "sequences": self.sequences.values,
            "sequence_ends": self.sequences.ends,
            "holders": self.postings.documents.values,
            "holder_ends": self.postings.documents.ends,
            "shares": self.postings.shares,
            "fields": self.postings.fields,
            "priorities": self.priorities,
        }


def _take_fresh(
    documents: Iterable[IndexedDocument | int], places: list[int], priorities: list[int]
) -> Iterator[IndexedDocument]:
    """Iterate over the documents that have to be read.

    Notes the place of every document, and adds the priorities of those that are read.
    """
    for document in documents:
        if isinstance(document, int):
            places.append(document)
        else:
            places.append(len(priorities))
            priorities.append(document.priority)
            yield document


def _find_used(terms: Mapping[str, int], rows: Ragged) -> Iterator[str]:
    """Iterate over the terms that occur: a known index may have had others."""
    is_used = np.zeros(len(terms), np.bool_)
    is_used[rows.values] = True
    for term, number in terms.items():
        if is_used[number]:
            yield term


def _rows_of(documents: Numbers) -> Numbers:
    """Return the numbers of all fields of these documents."""
    fields = np.arange(len(FIELDS))
    return (documents[:, np.newaxis] * len(FIELDS) + fields).ravel()


def _sort_terms(terms: Iterable[str]) -> Iterator[str]:
    """Iterate over the terms in order, without a long pause for other threads."""
    # One sort of a million terms would hold up the whole process for a second.
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for term in terms:
        alike[term[:2]].append(term)
    for beginning in sorted(alike):
        yield from sorted(alike.pop(beginning))


def _encode(terms: Iterable[str]) -> Ragged:
    encoded = [term.encode() for term in terms]
    lengths = np.fromiter(map(len, encoded), np.int64)
    return Ragged(np.frombuffer(b"".join(encoded), np.uint8), ends_of(lengths))
