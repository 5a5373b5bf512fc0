"""Everything that ranking needs to know about the texts of a set of skills, in arrays.

An index is built in one pass, changed for what a commit changed, written to a file as
it is, and mapped again. It is the same for the same documents, however it came about.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.text_index.patch import Patch
from skills_mcp.routing.text_index.postings import Postings, weigh
from skills_mcp.routing.text_index.ragged import Ragged, check, translate
from skills_mcp.routing.text_index.sequences import FIELDS, Document, read_documents
from skills_mcp.routing.text_index.vocabulary import Vocabulary, sort_terms

Array = NDArray[Any]
Numbers = NDArray[np.integer]

# A change of more than this share of all text is sooner built than patched in.
_PATCHED_SHARE = 0.05
_ALWAYS_PATCHED = 10_000  # terms; so few are quick either way

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
    def build(cls, documents: Iterable[Document]) -> "TextIndex":
        """Return the index of documents."""
        priorities: list[int] = []
        found, rows = read_documents(_note_priorities(documents, priorities))
        ordered = list(sort_terms(found))
        numbers = np.empty(len(found), np.uint32)
        numbers[[found[term] for term in ordered]] = np.arange(len(found))
        del found  # a dictionary of all terms is large
        vocabulary = Vocabulary.join(ordered)
        del ordered
        sequences = Ragged(translate(rows.values, numbers), rows.ends)
        del rows
        postings = Postings.invert(sequences, len(vocabulary))
        return cls(vocabulary, sequences, postings, np.array(priorities, np.int32))

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

    def rebuild(
        self, origins: NDArray[np.int32], fresh: Iterable[Document]
    ) -> "TextIndex":
        """Return the index of a changed list of documents, equal to a new one.

        Args:
            origins: For each document of the list its number here, or -1 where the
                next of `fresh` stands. Quick if few are fresh or have gone, and the
                others keep their order.
            fresh: Those that are not known here.

        Raises:
            ValueError: There are more or fewer fresh documents than places for them.
        """
        priorities: list[int] = []
        found, rows = read_documents(_note_priorities(fresh, priorities))
        is_fresh = origins < 0
        if len(priorities) != np.count_nonzero(is_fresh):
            raise ValueError("There is not one place for each of the fresh documents.")
        sources = origins.astype(np.int64)
        sources[is_fresh] = len(self) + np.arange(len(priorities))
        numbers, added = self._number(found)
        read = Ragged(translate(rows.values, numbers), rows.ends)
        sequences = self.sequences.arrange(read, _rows_of(sources))
        vocabulary, terms = self.vocabulary.change(
            added, _mark(sequences.values, len(self.vocabulary) + len(added))
        )
        renumbered = np.zeros(len(self.vocabulary) + len(added), np.uint32)
        renumbered[terms] = np.arange(len(terms))
        sequences = Ragged(translate(sequences.values, renumbered), sequences.ends)
        every = np.concatenate((self.priorities, np.array(priorities, np.int32)))
        postings = self._change_postings(origins, terms, sequences)
        return TextIndex(vocabulary, sequences, postings, every[sources])

    def _number(self, found: Iterable[str]) -> tuple[Numbers, list[str]]:
        """Return the numbers of terms, and the new ones, which come behind."""
        added: list[str] = []
        numbers = []
        for term in found:
            number = self.vocabulary.find(term)
            if number is None:
                number = len(self.vocabulary) + len(added)
                added.append(term)
            numbers.append(number)
        return np.array(numbers, np.uint32), added

    def _change_postings(
        self, origins: Numbers, terms: Numbers, sequences: Ragged
    ) -> Postings:
        latest = np.maximum.accumulate(np.append(-1, origins))
        stays = origins > latest[:-1]
        added = np.flatnonzero(~stays)
        gone = np.setdiff1d(np.arange(len(self)), origins[stays], assume_unique=True)
        gone_rows = self.sequences.select(_rows_of(gone))
        added_rows = sequences.select(_rows_of(added))
        changed = len(gone_rows.values) + len(added_rows.values)
        if changed > _ALWAYS_PATCHED + _PATCHED_SHARE * len(sequences.values):
            return Postings.invert(sequences, len(terms))
        gone_entries = weigh(gone_rows)
        documents = np.zeros(len(self) + len(added), np.uint32)
        documents[origins[stays]] = np.flatnonzero(stays)
        documents[len(self) :] = added
        return Patch(
            terms=terms,
            gone=gone_entries._replace(
                documents=gone[gone_entries.documents].astype(np.uint32)
            ),
            added=weigh(added_rows),
            bounds=latest[:-1][added] + 1,
            documents=documents,
        ).apply(self.postings)


def _note_priorities(
    documents: Iterable[Document], priorities: list[int]
) -> Iterator[Document]:
    for document in documents:
        priorities.append(document.priority)
        yield document


def _rows_of(documents: Numbers) -> Numbers:
    """Return the numbers of all fields of these documents."""
    fields = np.arange(len(FIELDS))
    return (documents[:, np.newaxis] * len(FIELDS) + fields).ravel()


def _mark(values: Array, count: int) -> NDArray[np.bool_]:
    """Return which of the numbers below `count` occur."""
    is_met = np.zeros(count, np.bool_)
    is_met[values] = True
    return is_met
