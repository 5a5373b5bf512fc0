"""Everything that ranking needs to know about the texts of a set of skills, in arrays.

An index is built in one pass, and written to files as it is. It is the same for the
same documents, whether their words were read or taken from another index.

It holds the terms of each field in their order, and for each term its postings: which
documents hold it, in which fields, and how well each document explains it (BM25F).
What a term is worth to a document depends on that document alone: lengths are compared
with fixed ones, not with averages. So a task only adds up what is stored.
"""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skills_mcp.files.arrays import Sliceable
from skills_mcp.routing.text_index.ragged import (
    Ragged,
    check,
    ends_of,
    expand,
    translate,
)
from skills_mcp.routing.text_index.sequences import Sequences
from skills_mcp.routing.text_index.vocabulary import Vocabulary
from skills_mcp.routing.words import derive_parts, split_text, stem


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

# Most text is made of the same few words, and the words of 20,000 skills fit. A piece
# that is read again costs ten times as much as one that is remembered. Some 60 MB.
_REMEMBERED_PIECES = 400_000


_REMEMBERED_WORDS = 4096  # tasks share their words


class _Pieces(dict[bytes, int]):
    """Pieces of text by number, and the terms of each."""

    def __init__(self, terms: dict[str, int]) -> None:
        self._numbers = terms
        self._known_parts: dict[str, int] = {}
        self._terms = array("I")
        self._ends = array("q", [0])

    def __missing__(self, piece: bytes) -> int:
        number = self[piece] = len(self)
        for part in derive_parts(piece.decode()):
            term = self._known_parts.get(part)
            self._terms.append(self._find_term(part) if term is None else term)
        self._ends.append(len(self._terms))
        return number

    def _find_term(self, part: str) -> int:
        """Return the number of a word's term; to find a stem takes longest of all."""
        term = self._numbers.setdefault(stem(part), len(self._numbers))
        self._known_parts[part] = term
        return term

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


OPENING = 180
"""How many words that say something are the opening of a body."""

PLACES = (*FIELDS[:-1], "opening", FIELDS[-1])
"""Where a term may stand, the weightiest first; the opening is part of the body."""

# Measured on real skills and real tasks (docs/explanation/routing.md). A body says in
# its beginning what it is about: there a word counts over four times as much.
WEIGHTS = np.array([5, 2, 1, 0.5, 0.35, 0.1])  # in the order of PLACES
USUAL_LENGTHS = np.array([3, 8, 40, 40, OPENING, 600])  # in words that say something
SATURATION = 2.5  # k1: the greater, the more a term counts that occurs again
LENGTH_SHARE = 0.75  # b: how far it counts less in a text that is long

SHARE_UNIT = 2**16 - 1
"""Shares are stored in so many parts of 1; finer ones find nothing else."""

_TERMS_AT_ONCE = 400_000  # bounds the memory of a build
_FIELD_COUNT = len(FIELDS)
_BODY = FIELDS.index("body")
_PLACE_COUNT = len(PLACES)
_OPENING_PLACE = PLACES.index("opening")
_PLACE_BITS = np.left_shift(1, np.arange(_PLACE_COUNT)).astype(np.uint8)


Documents = NDArray[np.unsignedinteger]
"""Documents by number, in order."""

Shares = NDArray[np.uint16]

_MOST_SMALL = 2**16  # documents whose numbers fit into two bytes


class Entries(NamedTuple):
    """Terms in documents, ordered by term and then by document."""

    terms: NDArray[np.uint32]
    documents: NDArray[np.uint32]
    shares: NDArray[np.uint16]
    fields: NDArray[np.uint8]


_NO_ENTRIES = Entries(
    np.zeros(0, np.uint32),
    np.zeros(0, np.uint32),
    np.zeros(0, np.uint16),
    np.zeros(0, np.uint8),
)


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """For each term a row of documents, in order; never changes."""

    documents: Ragged
    shares: NDArray[np.uint16]
    """How well the document explains the term, 0 to `SHARE_UNIT`."""
    fields: NDArray[np.uint8]
    """A bit for each of `PLACES` that has the term, that of the first is 1."""

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together.

        Raises:
            ValueError: A file is damaged.
        """
        shape = self.documents.values.shape
        check(shape == self.shares.shape == self.fields.shape, "postings are cut")

    def span(self, term: int) -> slice:
        """Return where the documents of a term are, and their shares and fields."""
        return slice(*self.documents.ends[term : term + 2].tolist())

    def spans(self, terms: NDArray[np.int64]) -> list[slice | None]:
        """Return where the documents of each term are; None for a negative one."""
        ends = self.documents.ends
        starts, stops = ends[terms].tolist(), ends[terms + 1].tolist()
        return [
            slice(start, stop) if term >= 0 else None
            for term, start, stop in zip(terms.tolist(), starts, stops, strict=True)
        ]

    def count(self, term: int) -> int:
        """Return how many documents hold a term."""
        return int(self.documents.ends[term + 1] - self.documents.ends[term])

    def holds(self, term: int, document: int) -> bool:
        """Return whether a document holds a term; none holds a negative one."""
        if term < 0:
            return False
        its = self.documents.values[self.span(term)]
        place = int(its.searchsorted(its.dtype.type(document)))
        return place < len(its) and int(its[place]) == document

    def count_holders(self, terms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many documents hold each term; 0 for a negative one."""
        counts = np.zeros(len(terms), np.int64)
        is_known = terms >= 0
        known = terms[is_known]
        counts[is_known] = self.documents.ends[known + 1] - self.documents.ends[known]
        return counts

    @property
    def total(self) -> int:
        """How many there are of all terms together."""
        return len(self.shares)

    def holders(self, term: int) -> tuple[Documents, Shares, NDArray[np.uint8]]:
        """Return the documents that hold a term, their shares and fields."""
        its = self.span(term)
        return self.documents.values[its], self.shares[its], self.fields[its]

    def seen(self, mask: NDArray[np.bool_]) -> "SeenPostings":
        """Return the same postings as if there were no other documents."""
        is_seen = mask.view(np.uint8)[self.documents.values]
        # Every term has a document, so no row is empty.
        counts = np.add.reduceat(is_seen, self.documents.ends[:-1], dtype=np.int32)
        return SeenPostings(self.documents, self.shares, self.fields, mask, counts)

    @classmethod
    def invert(cls, sequences: Ragged, term_count: int) -> "Postings":
        """Return the postings of documents whose fields are these rows."""
        parts = list(_weigh(sequences))
        counts = np.zeros(term_count, np.int64)
        for part in parts:
            counts += np.bincount(part.terms, minlength=term_count)
        ends = ends_of(counts)
        # Half the memory for what nearly all libraries are.
        is_small = len(sequences) <= _MOST_SMALL * _FIELD_COUNT
        documents = np.empty(ends[-1], np.uint16 if is_small else np.uint32)
        shares = np.empty(ends[-1], np.uint16)
        fields = np.empty(ends[-1], np.uint8)
        places = ends[:-1].copy()
        while parts:  # each is let go when it is copied
            part = parts.pop(0)
            to = _take_places(places, part.terms)
            documents[to] = part.documents
            shares[to] = part.shares
            fields[to] = part.fields
        return cls(Ragged(documents, ends), shares, fields)


@dataclass(frozen=True, slots=True, eq=False)
class SeenPostings(Postings):
    """Postings of which some documents are seen; `span` has the others, too."""

    mask: NDArray[np.bool_]
    """For each document whether it is seen."""
    counts: NDArray[np.int32]
    """For each term how many documents that are seen hold it."""

    def count(self, term: int) -> int:
        """Return how many of the documents hold a term."""
        return int(self.counts[term])

    def count_holders(self, terms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many of the documents hold each term; 0 for a negative one."""
        counts = np.zeros(len(terms), np.int64)
        is_known = terms >= 0
        counts[is_known] = self.counts[terms[is_known]]
        return counts

    @property
    def total(self) -> int:
        """How many there are of all terms together."""
        return int(self.counts.sum(dtype=np.int64))

    def holders(self, term: int) -> tuple[Documents, Shares, NDArray[np.uint8]]:
        """Return those of the documents that hold a term, their shares and fields."""
        its = self.span(term)
        some = self.mask[self.documents.values[its]]
        rows = self.documents.values, self.shares, self.fields
        documents, shares, fields = (row[its][some] for row in rows)
        return documents, shares, fields


def _weigh(sequences: Ragged) -> Iterator[Entries]:
    """Iterate over the entries of a few documents after the other."""
    row_count = len(sequences)
    start = 0
    while start < row_count:
        limit = int(sequences.ends[start]) + _TERMS_AT_ONCE
        fitting = int(np.searchsorted(sequences.ends, limit, "right")) - 1
        end = max(fitting // _FIELD_COUNT * _FIELD_COUNT, start + _FIELD_COUNT)
        ends = sequences.ends[start : end + 1]
        terms = sequences.values[ends[0] : ends[-1]]
        found = weigh(Ragged(terms, ends - ends[0]))
        first = np.uint32(start // _FIELD_COUNT)
        yield found._replace(documents=found.documents + first)
        start = end


def weigh(sequences: Ragged) -> Entries:
    """Return the entries of documents whose fields are these rows."""
    if not len(sequences.values):
        return _NO_ENTRIES
    terms, lengths = _add_openings(sequences)
    rows = len(lengths)
    keys = np.repeat(np.arange(rows), lengths)
    keys += terms.astype(np.int64) * rows
    keys.sort()
    starts = _starts(keys)
    counts = np.diff(starts, append=len(keys))
    term, row = np.divmod(keys[starts], rows)
    frequencies = counts * _factors(lengths)[row]
    document = row // _PLACE_COUNT
    starts = _starts(term * rows + document)
    frequency = np.add.reduceat(frequencies, starts)
    fields = np.bitwise_or.reduceat(_PLACE_BITS[row % _PLACE_COUNT], starts)
    share = frequency / (SATURATION + frequency) * SHARE_UNIT
    return Entries(
        term[starts].astype(np.uint32),
        document[starts].astype(np.uint32),
        np.rint(share).astype(np.uint16),
        fields,
    )


def _add_openings(
    sequences: Ragged,
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the terms with the openings in front of the bodies, a row per place.

    Returns:
        The terms, and the lengths of the rows.
    """
    bodies = sequences.ends[:-1].reshape(-1, _FIELD_COUNT)[:, _BODY]
    lengths = np.diff(sequences.ends).reshape(-1, _FIELD_COUNT)
    openings = np.minimum(lengths[:, _BODY], OPENING)
    # The opening is the end of a stretch, and the body behind it begins with it again.
    ends = sequences.ends[::_FIELD_COUNT][:-1]
    starts = np.stack((ends, bodies), axis=1).ravel()
    before = bodies - ends + openings
    sizes = np.stack((before, lengths[:, _BODY]), axis=1).ravel()
    terms = sequences.values[expand(starts, sizes)]
    return terms, np.insert(lengths, _OPENING_PLACE, openings, axis=1).ravel()


def _factors(lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return what a term counts that stands once in each of these places."""
    relative = lengths.reshape(-1, _PLACE_COUNT) / USUAL_LENGTHS
    factors: NDArray[np.float64] = WEIGHTS / (
        1 - LENGTH_SHARE + LENGTH_SHARE * relative
    )
    return factors.ravel()


def _starts(ordered: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the runs of equal numbers begin."""
    return np.flatnonzero(np.diff(ordered, prepend=-1))


def _take_places(
    places: NDArray[np.int64], terms: NDArray[np.uint32]
) -> NDArray[np.int64]:
    """Return where the next entries of ordered terms stand, and take these places."""
    starts = _starts(terms.astype(np.int64))
    counts = np.diff(starts, append=len(terms))
    found = terms[starts]
    taken = expand(places[found], counts)
    places[found] += counts
    return taken


Array = NDArray[Any]
Numbers = NDArray[np.integer]

_TYPES = {
    "terms": (np.uint8,),
    "term_ends": (np.int64,),
    "term_hashes": (np.uint32,),
    "term_order": (np.uint32,),
    "sequence_ends": (np.int64,),
    "sequence_sums": (np.uint32,),
    "holders": (np.uint16, np.uint32),
    "holder_ends": (np.int64,),
    "shares": (np.uint16,),
    "fields": (np.uint8,),
    "priorities": (np.int32,),
}


@dataclass(frozen=True, slots=True, eq=False)
class TextIndex:
    """The terms of documents; the number of a document is its place among them."""

    vocabulary: Vocabulary
    sequences: Sequences
    """The terms of each document in their order."""
    postings: Postings
    priorities: NDArray[np.int32]

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together.

        Raises:
            ValueError: A file is damaged.
        """
        rows = len(self.priorities)
        check(len(self.sequences) == rows, "documents are missing")
        check(len(self.postings.documents) == len(self.vocabulary), "terms are missing")

    def __len__(self) -> int:
        return len(self.priorities)

    @property
    def most_remembered(self) -> int:
        """How much of tasks to remember, in words."""
        return _REMEMBERED_WORDS

    @property
    def has_priorities(self) -> bool:
        """Whether a document has a priority."""
        return bool(self.priorities.any())

    def find(self, term: str) -> int | None:
        """Return the number of a term, or None if no document has it."""
        return self.vocabulary.find(term)

    def find_known(self, terms: Sequence[str]) -> Iterator[int]:
        """Iterate over the places of those of many terms that a document has."""
        return self.vocabulary.find_known(terms)

    def take_first(self, documents: Numbers, most: int) -> Numbers:
        """Return the first few of documents, which are ordered by number."""
        return documents[:most]

    def seen(self, mask: NDArray[np.bool_], order: Numbers | None) -> "SeenTexts":
        """Return the same index as if there were no other documents.

        Args:
            mask: For each document whether it is seen.
            order: Those that are seen in another order than that of their numbers.
        """
        return SeenTexts(
            self.vocabulary,
            self.sequences,
            self.postings.seen(mask),
            self.priorities,
            mask,
            order,
        )

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
            rows = known.sequences.load().arrange(rows, order)
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
        return cls(vocabulary, Sequences.of(sequences), postings, kept)

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, Array],
        source: Sliceable,
        reread: Callable[[int], IndexedDocument] | None = None,
    ) -> "TextIndex":
        """Return the index that had these `arrays`.

        Numbers that lead nowhere raise an IndexError or ValueError when they are met.

        Args:
            arrays: What was stored.
            source: The source of its sequences.
            reread: Returns a document again whose sequences are damaged.

        Raises:
            ValueError: They are no index: a file is damaged, or of another version.
        """
        check(arrays.keys() == _TYPES.keys(), "there are other arrays in it")
        for name, kind in _TYPES.items():
            is_right = arrays[name].dtype in kind and arrays[name].ndim == 1
            check(is_right, f"{name} is of another type")
        vocabulary = Vocabulary(
            Ragged(arrays["terms"], arrays["term_ends"]),
            arrays["term_hashes"],
            arrays["term_order"],
        )
        ends, sums = arrays["sequence_ends"], arrays["sequence_sums"]
        restore = partial(_restore, vocabulary, reread) if reread else None
        return cls(
            vocabulary,
            Sequences(ends, sums, source, restore),
            Postings(
                Ragged(arrays["holders"], arrays["holder_ends"]),
                arrays["shares"],
                arrays["fields"],
            ),
            arrays["priorities"],
        )

    @property
    def arrays(self) -> Mapping[str, Array]:
        """What to store, beside the source of the sequences."""
        return {
            "terms": self.vocabulary.terms.values,
            "term_ends": self.vocabulary.terms.ends,
            "term_hashes": self.vocabulary.hashes,
            "term_order": self.vocabulary.order,
            "sequence_ends": self.sequences.ends,
            "sequence_sums": self.sequences.sums,
            "holders": self.postings.documents.values,
            "holder_ends": self.postings.documents.ends,
            "shares": self.postings.shares,
            "fields": self.postings.fields,
            "priorities": self.priorities,
        }


@dataclass(frozen=True, slots=True, eq=False)
class SeenTexts(TextIndex):
    """An index of which some documents are seen; they keep their numbers."""

    mask: NDArray[np.bool_]
    order: Numbers | None
    """The documents in another order than that of their numbers, if there is one."""

    def __len__(self) -> int:
        return int(np.count_nonzero(self.mask))

    @property
    def most_remembered(self) -> int:
        """How much of tasks to remember, in words; there are many callers."""
        return _REMEMBERED_WORDS // 8

    @property
    def has_priorities(self) -> bool:
        """Whether one of the documents has a priority."""
        return bool(self.priorities[self.mask].any())

    def find(self, term: str) -> int | None:
        """Return the number of a term, or None if none of the documents has it."""
        number = self.vocabulary.find(term)
        return None if number is None or not self.postings.count(number) else number

    def find_known(self, terms: Sequence[str]) -> Iterator[int]:
        """Iterate over the places of those of many terms that one of these has."""
        known = self.vocabulary.find_known(terms)
        return (place for place in known if self.find(terms[place]) is not None)

    def take_first(self, documents: Numbers, most: int) -> Numbers:
        """Return the first few of documents, in the order in which they are seen."""
        if self.order is None:
            return documents[:most]
        is_wanted = np.zeros(len(self.mask), np.bool_)
        is_wanted[documents] = True
        return self.order[is_wanted[self.order]][:most]


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


def _restore(
    vocabulary: Vocabulary, reread: Callable[[int], IndexedDocument], document: int
) -> bytes:
    """Return the terms of a document that is read again."""
    return read_documents([reread(document)], vocabulary.numbers()).values.tobytes()


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
