"""The terms of documents in the order in which they stand there, field by field."""

from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from skills_mcp.routing.text_index.ragged import Ragged, ends_of, expand
from skills_mcp.routing.words import derive_words, split_text


class IndexedDocument(NamedTuple):
    """The texts of a skill, by what they are in it."""

    name: str
    labels: str
    """Keywords, tags and category."""
    description: str
    headings: str
    body: str
    priority: int = 0

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts alone, in the order of `FIELDS`."""
        return (self.name, self.labels, self.description, self.headings, self.body)


FIELDS = IndexedDocument._fields[:-1]

# Small enough to give way to other threads, large enough for numpy to pay.
_PIECES_AT_ONCE = 200_000

# Most text is made of the same few words. Some 15 MB.
_REMEMBERED_PIECES = 100_000


class _Pieces(dict[bytes, int]):
    """Pieces of text by number, and the terms of each."""

    def __init__(self, terms: dict[str, int]) -> None:
        self._numbers = terms
        self._terms = array("I")
        self._ends = array("q", [0])

    def __missing__(self, piece: bytes) -> int:
        number = self[piece] = len(self)
        for word in derive_words(piece.decode()):
            term = self._numbers.setdefault(word.term, len(self._numbers))
            self._terms.append(term)
        self._ends.append(len(self._terms))
        return number

    def spell_out(self, pieces: "array[int]", counts: "array[int]") -> Ragged:
        """Return the terms of rows of so many pieces each."""
        ends = np.frombuffer(self._ends, np.int64)
        numbers = np.frombuffer(pieces, np.uint32)
        starts = ends[numbers]
        sizes = ends[1:][numbers] - starts
        places = expand(starts, sizes)
        terms = np.frombuffer(self._terms, np.uint32)[places]
        rows = ends_of(np.frombuffer(counts, np.uint32))
        return Ragged(terms, ends_of(sizes)[rows])


def read_documents(
    documents: Iterable[IndexedDocument], terms: dict[str, int]
) -> Ragged:
    """Return the terms of each field of documents, by number.

    Args:
        documents: One is in memory at a time.
        terms: The numbers of terms that are known; new terms are added.
    """
    return Ragged.join(list(_read_batches(documents, terms)))


def _read_batches(
    documents: Iterable[IndexedDocument], terms: dict[str, int]
) -> Iterator[Ragged]:
    known = _Pieces(terms)
    pieces, counts = array("I"), array("I")
    for document in documents:
        for text in document.texts:
            found = split_text(text)
            pieces.extend(map(known.__getitem__, found))
            counts.append(len(found))
        if len(pieces) > _PIECES_AT_ONCE:
            yield known.spell_out(pieces, counts)
            pieces, counts = array("I"), array("I")
            known = known if len(known) < _REMEMBERED_PIECES else _Pieces(terms)
    yield known.spell_out(pieces, counts)
