"""Everything that ranking needs to know about the texts of a set of skills, in arrays.

An index is built in one pass, written to a file as it is, and mapped again. It is the
same for the same documents, whether their words were read or taken from another index.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.text_index.postings import Postings
from skills_mcp.routing.text_index.ragged import Ragged, check, translate
from skills_mcp.routing.text_index.sequences import FIELDS, Document, read_documents
from skills_mcp.routing.text_index.vocabulary import Vocabulary, sort_terms

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
        cls, documents: Iterable[Document | int], known: "TextIndex | None" = None
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
        ordered = list(sort_terms(_find_used(terms, rows)))
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
    documents: Iterable[Document | int], places: list[int], priorities: list[int]
) -> Iterator[Document]:
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
