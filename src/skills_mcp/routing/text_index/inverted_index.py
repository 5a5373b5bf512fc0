"""The inverted index of the ranked algorithm, in arrays."""

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
    RaggedArray,
    expand_ranges,
    map_values,
    require_consistent,
    row_offsets,
)
from skills_mcp.routing.text_index.sequences import TermSequences
from skills_mcp.routing.text_index.vocabulary import Vocabulary
from skills_mcp.routing.words import split_raw_token, split_raw_tokens, stem


class IndexedDocument(NamedTuple):
    """The texts of a skill, by field."""

    name: str
    labels: str
    """Keywords, tags and category."""
    description: str
    headings: str
    body: str
    priority: int = 0

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.name, self.labels, self.description, self.headings, self.body)


FIELDS = IndexedDocument._fields[:-1]

# Small enough to give way to other threads, large enough for numpy to pay.
_TOKENS_PER_BATCH = 200_000

# Most text is made of the same few words, and the words of 20,000 skills fit. A piece
# that is read again costs ten times as much as one that is remembered. Some 60 MB.
_TOKEN_CACHE_SIZE = 400_000


_WORD_CACHE_SIZE = 4096  # tasks share their words


class _RawTokens(dict[bytes, int]):
    def __init__(self, terms: dict[str, int]) -> None:
        self._numbers = terms
        self._known_parts: dict[str, int] = {}
        self._terms = array("I")
        self._ends = array("q", [0])

    def __missing__(self, piece: bytes) -> int:
        number = self[piece] = len(self)
        for part in split_raw_token(piece.decode()):
            term = self._known_parts.get(part)
            self._terms.append(self._find_term(part) if term is None else term)
        self._ends.append(len(self._terms))
        return number

    def _find_term(self, part: str) -> int:
        term = self._numbers.setdefault(stem(part), len(self._numbers))
        self._known_parts[part] = term
        return term

    def to_terms(self, pieces: "array[int]", counts: "array[int]") -> RaggedArray:
        ends = np.frombuffer(self._ends, np.int64)
        numbers = np.frombuffer(pieces, np.uint32)
        starts = ends[numbers]
        sizes = ends[1:][numbers] - starts
        positions = expand_ranges(starts, sizes)
        terms = np.frombuffer(self._terms, np.uint32)[positions]
        rows = row_offsets(np.frombuffer(counts, np.uint32))
        return RaggedArray(terms, row_offsets(sizes)[rows])


def tokenize_documents(documents: Iterable[IndexedDocument], terms: dict[str, int]) -> RaggedArray:
    """Tokenise documents lazily to term numbers, adding to `terms`."""
    return RaggedArray.join(list(_read_batches(documents, terms)))


def _read_batches(
    documents: Iterable[IndexedDocument], terms: dict[str, int]
) -> Iterator[RaggedArray]:
    known = _RawTokens(terms)
    pieces, counts = array("I"), array("I")
    for document in documents:
        for text in document.texts:
            found = split_raw_tokens(text)
            pieces.extend(map(known.__getitem__, found))
            counts.append(len(found))
        if len(pieces) > _TOKENS_PER_BATCH:
            yield known.to_terms(pieces, counts)
            pieces, counts = array("I"), array("I")
            known = known if len(known) < _TOKEN_CACHE_SIZE else _RawTokens(terms)
    yield known.to_terms(pieces, counts)


OPENING_LENGTH = 180
"""Length of a body's opening, without stop words."""

SCORED_FIELDS = (*FIELDS[:-1], "opening", FIELDS[-1])
"""Scored fields, the heaviest first; the opening is part of the body."""

# Measured on real skills and real tasks (docs/explanation/routing.md). A body says in
# its beginning what it is about: there a word counts over four times as much.
FIELD_WEIGHTS = np.array([5, 2, 1, 0.5, 0.35, 0.1])  # in the order of PLACES
REFERENCE_LENGTHS = np.array([3, 8, 40, 40, OPENING_LENGTH, 600])  # in words that say something
BM25_K1 = 2.5  # k1: the greater, the more a term counts that occurs again
BM25_B = 0.75  # b: how far it counts less in a text that is long

IMPACT_UNIT = 2**16 - 1
"""Impacts are integers up to this; finer ones find nothing else."""

_TERMS_PER_BATCH = 400_000  # bounds the memory of a build
_FIELD_COUNT = len(FIELDS)
_BODY = FIELDS.index("body")
_SCORED_FIELD_COUNT = len(SCORED_FIELDS)
_OPENING_FIELD = SCORED_FIELDS.index("opening")
_FIELD_BITS = np.left_shift(1, np.arange(_SCORED_FIELD_COUNT)).astype(np.uint8)


Documents = NDArray[np.unsignedinteger]
"""Documents by number, in order."""

Impacts = NDArray[np.uint16]

_MAX_SMALL_INDEX = 2**16  # documents whose numbers fit into two bytes


class PostingEntries(NamedTuple):
    """Postings in columns, ordered by term and then by document."""

    terms: NDArray[np.uint32]
    documents: NDArray[np.uint32]
    shares: NDArray[np.uint16]
    fields: NDArray[np.uint8]


_NO_ENTRIES = PostingEntries(
    np.zeros(0, np.uint32),
    np.zeros(0, np.uint32),
    np.zeros(0, np.uint16),
    np.zeros(0, np.uint8),
)


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """For each term a row of documents, in order. Immutable."""

    documents: RaggedArray
    shares: NDArray[np.uint16]
    """Impact of the term on the document, 0 to `IMPACT_UNIT`."""
    fields: NDArray[np.uint8]
    """A bit for each of `SCORED_FIELDS`, the first is 1."""

    def __post_init__(self) -> None:
        """Validate; a damaged file is a ValueError."""
        shape = self.documents.values.shape
        require_consistent(shape == self.shares.shape == self.fields.shape, "postings are cut")

    def span(self, term: int) -> slice:
        return slice(*self.documents.ends[term : term + 2].tolist())

    def spans(self, terms: NDArray[np.int64]) -> list[slice | None]:
        ends = self.documents.ends
        starts, stops = ends[terms].tolist(), ends[terms + 1].tolist()
        return [
            slice(start, stop) if term >= 0 else None
            for term, start, stop in zip(terms.tolist(), starts, stops, strict=True)
        ]

    def count(self, term: int) -> int:
        return int(self.documents.ends[term + 1] - self.documents.ends[term])

    def holds(self, term: int, document: int) -> bool:
        if term < 0:
            return False
        documents = self.documents.values[self.span(term)]
        position = int(documents.searchsorted(documents.dtype.type(document)))
        return position < len(documents) and int(documents[position]) == document

    def count_documents(self, terms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Document frequencies; 0 for a negative term."""
        counts = np.zeros(len(terms), np.int64)
        is_known = terms >= 0
        known = terms[is_known]
        counts[is_known] = self.documents.ends[known + 1] - self.documents.ends[known]
        return counts

    @property
    def total(self) -> int:
        return len(self.shares)

    def holders(self, term: int) -> tuple[Documents, Impacts, NDArray[np.uint8]]:
        span = self.span(term)
        return self.documents.values[span], self.shares[span], self.fields[span]

    def seen(self, mask: NDArray[np.bool_]) -> "VisiblePostings":
        """Restrict the postings to visible documents."""
        is_seen = mask.view(np.uint8)[self.documents.values]
        # Every term has a document, so no row is empty.
        counts = np.add.reduceat(is_seen, self.documents.ends[:-1], dtype=np.int32)
        return VisiblePostings(self.documents, self.shares, self.fields, mask, counts)

    @classmethod
    def invert(cls, sequences: RaggedArray, term_count: int) -> "Postings":
        parts = list(_compute_batches(sequences))
        counts = np.zeros(term_count, np.int64)
        for part in parts:
            counts += np.bincount(part.terms, minlength=term_count)
        ends = row_offsets(counts)
        # Half the memory for what nearly all libraries are.
        is_small = len(sequences) <= _MAX_SMALL_INDEX * _FIELD_COUNT
        documents = np.empty(ends[-1], np.uint16 if is_small else np.uint32)
        shares = np.empty(ends[-1], np.uint16)
        fields = np.empty(ends[-1], np.uint8)
        cursors = ends[:-1].copy()
        while parts:  # each is let go when it is copied
            part = parts.pop(0)
            to = _take_slots(cursors, part.terms)
            documents[to] = part.documents
            shares[to] = part.shares
            fields[to] = part.fields
        return cls(RaggedArray(documents, ends), shares, fields)


@dataclass(frozen=True, slots=True, eq=False)
class VisiblePostings(Postings):
    """Postings restricted by a mask; `span` still covers all documents."""

    mask: NDArray[np.bool_]
    counts: NDArray[np.int32]

    def count(self, term: int) -> int:
        return int(self.counts[term])

    def count_documents(self, terms: NDArray[np.int64]) -> NDArray[np.int64]:
        counts = np.zeros(len(terms), np.int64)
        is_known = terms >= 0
        counts[is_known] = self.counts[terms[is_known]]
        return counts

    @property
    def total(self) -> int:
        return int(self.counts.sum(dtype=np.int64))

    def holders(self, term: int) -> tuple[Documents, Impacts, NDArray[np.uint8]]:
        span = self.span(term)
        is_visible = self.mask[self.documents.values[span]]
        rows = self.documents.values, self.shares, self.fields
        documents, shares, fields = (row[span][is_visible] for row in rows)
        return documents, shares, fields


def _compute_batches(sequences: RaggedArray) -> Iterator[PostingEntries]:
    row_count = len(sequences)
    start = 0
    while start < row_count:
        limit = int(sequences.ends[start]) + _TERMS_PER_BATCH
        fitting = int(np.searchsorted(sequences.ends, limit, "right")) - 1
        end = max(fitting // _FIELD_COUNT * _FIELD_COUNT, start + _FIELD_COUNT)
        ends = sequences.ends[start : end + 1]
        terms = sequences.values[ends[0] : ends[-1]]
        found = compute_entries(RaggedArray(terms, ends - ends[0]))
        first = np.uint32(start // _FIELD_COUNT)
        yield found._replace(documents=found.documents + first)
        start = end


def compute_entries(sequences: RaggedArray) -> PostingEntries:
    if not len(sequences.values):
        return _NO_ENTRIES
    terms, lengths = _add_openings(sequences)
    rows = len(lengths)
    keys = np.repeat(np.arange(rows), lengths)
    keys += terms.astype(np.int64) * rows
    keys.sort()
    starts = _find_run_starts(keys)
    counts = np.diff(starts, append=len(keys))
    term, row = np.divmod(keys[starts], rows)
    frequencies = counts * _compute_term_factors(lengths)[row]
    document = row // _SCORED_FIELD_COUNT
    starts = _find_run_starts(term * rows + document)
    frequency = np.add.reduceat(frequencies, starts)
    fields = np.bitwise_or.reduceat(_FIELD_BITS[row % _SCORED_FIELD_COUNT], starts)
    share = frequency / (BM25_K1 + frequency) * IMPACT_UNIT
    return PostingEntries(
        term[starts].astype(np.uint32),
        document[starts].astype(np.uint32),
        np.rint(share).astype(np.uint16),
        fields,
    )


def _add_openings(
    sequences: RaggedArray,
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    bodies = sequences.ends[:-1].reshape(-1, _FIELD_COUNT)[:, _BODY]
    lengths = np.diff(sequences.ends).reshape(-1, _FIELD_COUNT)
    openings = np.minimum(lengths[:, _BODY], OPENING_LENGTH)
    # The opening is the end of a stretch, and the body behind it begins with it again.
    ends = sequences.ends[::_FIELD_COUNT][:-1]
    starts = np.stack((ends, bodies), axis=1).ravel()
    before = bodies - ends + openings
    sizes = np.stack((before, lengths[:, _BODY]), axis=1).ravel()
    terms = sequences.values[expand_ranges(starts, sizes)]
    return terms, np.insert(lengths, _OPENING_FIELD, openings, axis=1).ravel()


def _compute_term_factors(lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Compute the weight of one occurrence in each field (BM25F)."""
    relative = lengths.reshape(-1, _SCORED_FIELD_COUNT) / REFERENCE_LENGTHS
    factors: NDArray[np.float64] = FIELD_WEIGHTS / (1 - BM25_B + BM25_B * relative)
    return factors.ravel()


def _find_run_starts(ordered: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.flatnonzero(np.diff(ordered, prepend=-1))


def _take_slots(cursors: NDArray[np.int64], terms: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Allocate the next slots of sorted terms, and advance the cursors."""
    starts = _find_run_starts(terms.astype(np.int64))
    counts = np.diff(starts, append=len(terms))
    found = terms[starts]
    slots = expand_ranges(cursors[found], counts)
    cursors[found] += counts
    return slots


AnyArray = NDArray[Any]
DocumentNumbers = NDArray[np.integer]

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
    """An inverted index; a document number is its position."""

    vocabulary: Vocabulary
    sequences: TermSequences
    postings: Postings
    priorities: NDArray[np.int32]

    def __post_init__(self) -> None:
        """Validate; a damaged file is a ValueError."""
        rows = len(self.priorities)
        require_consistent(len(self.sequences) == rows, "documents are missing")
        require_consistent(
            len(self.postings.documents) == len(self.vocabulary), "terms are missing"
        )

    def __len__(self) -> int:
        return len(self.priorities)

    @property
    def cache_size(self) -> int:
        return _WORD_CACHE_SIZE

    @property
    def has_priorities(self) -> bool:
        return bool(self.priorities.any())

    def find(self, term: str) -> int | None:
        return self.vocabulary.find(term)

    def find_known(self, terms: Sequence[str]) -> Iterator[int]:
        """Yield the positions of the known ones among many terms."""
        return self.vocabulary.find_known(terms)

    def take_first(self, documents: DocumentNumbers, limit: int) -> DocumentNumbers:
        return documents[:limit]

    def seen(self, mask: NDArray[np.bool_], order: DocumentNumbers | None) -> "VisibleTextIndex":
        """Restrict the index to visible documents, optionally in another order."""
        return VisibleTextIndex(
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
        """Index documents.

        A number stands for a document of `known`, to reuse its terms. The result is the same as
        without `known`.
        """
        terms = known.vocabulary.numbers() if known else {}
        numbers_in_known: list[int] = []  # in `known` first, and behind it what is read
        priorities: list[int] = known.priorities.tolist() if known else []
        fresh = _select_unread(documents, numbers_in_known, priorities)
        rows = tokenize_documents(fresh, terms)
        if known:
            order = _list_field_rows(np.array(numbers_in_known, np.int64))
            rows = known.sequences.load().arrange(rows, order)
        ordered = list(_sort_terms(_find_used(terms, rows)))
        numbers = np.zeros(len(terms), np.uint32)
        numbers[[terms[term] for term in ordered]] = np.arange(len(ordered))
        del terms  # a dictionary of all terms is large
        vocabulary = Vocabulary.join(ordered)
        del ordered
        sequences = RaggedArray(map_values(rows.values, numbers), rows.ends)
        del rows
        postings = Postings.invert(sequences, len(vocabulary))
        priorities_in_order = np.array(
            [priorities[number] for number in numbers_in_known], np.int32
        )
        return cls(vocabulary, TermSequences.of(sequences), postings, priorities_in_order)

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, AnyArray],
        source: Sliceable,
        reread: Callable[[int], IndexedDocument] | None = None,
    ) -> "TextIndex":
        """Restore an index from stored arrays; `reread` replaces damaged documents.

        Numbers out of range raise an IndexError or ValueError when they are met.

        Raises:
            ValueError: A file is damaged, or of another version.
        """
        require_consistent(arrays.keys() == _TYPES.keys(), "there are other arrays in it")
        for name, kind in _TYPES.items():
            is_right = arrays[name].dtype in kind and arrays[name].ndim == 1
            require_consistent(is_right, f"{name} is of another type")
        vocabulary = Vocabulary(
            RaggedArray(arrays["terms"], arrays["term_ends"]),
            arrays["term_hashes"],
            arrays["term_order"],
        )
        ends, sums = arrays["sequence_ends"], arrays["sequence_sums"]
        restore = partial(_reread_terms, vocabulary, reread) if reread else None
        return cls(
            vocabulary,
            TermSequences(ends, sums, source, restore),
            Postings(
                RaggedArray(arrays["holders"], arrays["holder_ends"]),
                arrays["shares"],
                arrays["fields"],
            ),
            arrays["priorities"],
        )

    @property
    def arrays(self) -> Mapping[str, AnyArray]:
        """Arrays to store, without the source of the sequences."""
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
class VisibleTextIndex(TextIndex):
    """An index restricted to visible documents; they keep their numbers."""

    mask: NDArray[np.bool_]
    order: DocumentNumbers | None
    """The visible documents in order; None for the order of numbers."""

    def __len__(self) -> int:
        return int(np.count_nonzero(self.mask))

    @property
    def cache_size(self) -> int:
        return _WORD_CACHE_SIZE // 8

    @property
    def has_priorities(self) -> bool:
        return bool(self.priorities[self.mask].any())

    def find(self, term: str) -> int | None:
        number = self.vocabulary.find(term)
        return None if number is None or not self.postings.count(number) else number

    def find_known(self, terms: Sequence[str]) -> Iterator[int]:
        known = self.vocabulary.find_known(terms)
        return (position for position in known if self.find(terms[position]) is not None)

    def take_first(self, documents: DocumentNumbers, limit: int) -> DocumentNumbers:
        if self.order is None:
            return documents[:limit]
        is_candidate = np.zeros(len(self.mask), np.bool_)
        is_candidate[documents] = True
        return self.order[is_candidate[self.order]][:limit]


def _select_unread(
    documents: Iterable[IndexedDocument | int],
    numbers: list[int],
    priorities: list[int],
) -> Iterator[IndexedDocument]:
    """Yield the documents to read, recording all numbers and new priorities."""
    for document in documents:
        if isinstance(document, int):
            numbers.append(document)
        else:
            numbers.append(len(priorities))
            priorities.append(document.priority)
            yield document


def _reread_terms(
    vocabulary: Vocabulary, reread: Callable[[int], IndexedDocument], document: int
) -> bytes:
    return tokenize_documents([reread(document)], vocabulary.numbers()).values.tobytes()


def _find_used(terms: Mapping[str, int], rows: RaggedArray) -> Iterator[str]:
    is_used = np.zeros(len(terms), np.bool_)
    is_used[rows.values] = True
    for term, number in terms.items():
        if is_used[number]:
            yield term


def _list_field_rows(documents: DocumentNumbers) -> DocumentNumbers:
    fields = np.arange(len(FIELDS))
    return (documents[:, np.newaxis] * len(FIELDS) + fields).ravel()


def _sort_terms(terms: Iterable[str]) -> Iterator[str]:
    """Sort the terms without a long pause for other threads."""
    # One sort of a million terms would hold up the whole process for a second.
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for term in terms:
        alike[term[:2]].append(term)
    for beginning in sorted(alike):
        yield from sorted(alike.pop(beginning))
