"""The inverted index of the ranked algorithm, in arrays.

An index is built in one pass, and written to files as it is. It is the same for the
same documents, whether their words were read or taken from another index.

It holds a vocabulary, the terms of each document in their order, and for each term its
postings: documents, fields, and the impact on each document (BM25F). An impact depends
on the document alone: lengths are compared with fixed ones, not with averages. So a
query only adds up stored numbers.
"""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from skills_mcp.files.arrays import (
    DamagedTextError,
    Sliceable,
    expand_ranges,
    row_offsets,
)
from skills_mcp.routing.lexicon import split_raw_token, split_raw_tokens, stem

_VALUES_PER_BATCH = 2**16  # they and what numpy makes of them fit into a cache


@dataclass(frozen=True, slots=True, eq=False)
class RaggedArray:
    """Rows of different lengths in one array. Immutable."""

    values: NDArray[np.unsignedinteger]
    ends: NDArray[np.int64]
    """Row offsets: the start of each row, and the end of the last."""

    def __post_init__(self) -> None:
        """Validate; a damaged file is a ValueError."""
        require_consistent(self.values.ndim == self.ends.ndim == 1, "an array has rows of its own")
        require_consistent(self.ends.dtype == np.int64, "ends are of another type")
        require_consistent(len(self.ends) > 0 and self.ends[0] == 0, "the first row is cut")
        require_consistent(self.ends[-1] == len(self.values), "the last row is cut")
        require_consistent(bool((self.ends[1:] >= self.ends[:-1]).all()), "a row ends too early")

    def __len__(self) -> int:
        return len(self.ends) - 1

    @classmethod
    def of(cls, rows: Sequence[bytes]) -> "RaggedArray":
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls(np.frombuffer(b"".join(rows), np.uint8), row_offsets(lengths))

    @classmethod
    def join(cls, parts: Sequence["RaggedArray"]) -> "RaggedArray":
        shifts = np.cumsum([0, *(len(part.values) for part in parts)])
        ends = [part.ends[1:] + shift for part, shift in zip(parts, shifts, strict=False)]
        values = np.concatenate([part.values for part in parts])
        return cls(values, np.concatenate([np.zeros(1, np.int64), *ends]))

    def row(self, number: int) -> NDArray[np.unsignedinteger]:
        return self.values[self.ends[number] : self.ends[number + 1]]

    def arrange(self, others: "RaggedArray", order: NDArray[np.integer]) -> "RaggedArray":
        """Select rows of both in a new order; `others` continue the row numbers."""
        lengths = np.concatenate((np.diff(self.ends), np.diff(others.ends)))
        return RaggedArray(_gather_rows(self, others, order), row_offsets(lengths[order]))


def _gather_rows(
    first: RaggedArray, second: RaggedArray, order: NDArray[np.integer]
) -> NDArray[np.unsignedinteger]:
    is_cut = (np.diff(order) != 1) | (order[1:] == len(first))
    cuts = [0, *(np.flatnonzero(is_cut) + 1).tolist(), len(order)]
    parts = [first.values[:0]]
    for start, end in pairwise(cuts):
        if start < end:
            low, high = int(order[start]), int(order[end - 1]) + 1
            rows = first if low < len(first) else second
            skip = 0 if rows is first else len(first)
            parts.append(rows.values[rows.ends[low - skip] : rows.ends[high - skip]])
    return np.concatenate(parts)


def map_values(
    values: NDArray[np.unsignedinteger], table: NDArray[np.integer]
) -> NDArray[np.uint32]:
    """Map values by a table; in chunks, to bound the memory."""
    translated = np.empty(len(values), np.uint32)
    for start in range(0, len(values), _VALUES_PER_BATCH):
        some = slice(start, start + _VALUES_PER_BATCH)
        translated[some] = table[values[some]]
    return translated


def require_consistent(is_consistent: bool, complaint: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Raise if arrays are inconsistent.

    Raises:
        ValueError: With the complaint.
    """
    if not is_consistent:
        raise ValueError(f"This is no index: {complaint}.")


UNKNOWN_TERM = -1
"""The number of a term absent from all documents."""

_LAST_ASCII = 127
_SIZE_BITS = 10  # a term has 64 signs of four bytes at most


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Terms by number, in lexicographic order."""

    terms: RaggedArray
    hashes: NDArray[np.uint32]
    """CRC-32 of the terms, sorted: a search in numbers takes a fraction of one in
    words, and a dictionary several times the memory.
    """
    order: NDArray[np.uint32]

    def __post_init__(self) -> None:
        """Validate; a damaged file is a ValueError."""
        sizes = {len(self.terms), len(self.hashes), len(self.order)}
        require_consistent(len(sizes) == 1, "words are missing")

    @classmethod
    def join(cls, terms: Sequence[str]) -> "Vocabulary":
        encoded = [term.encode() for term in terms]
        hashes = np.fromiter(map(crc32, encoded), np.uint32, len(encoded))
        order = np.argsort(hashes, kind="stable").astype(np.uint32)
        return cls(RaggedArray.of(encoded), hashes[order], order)

    def __len__(self) -> int:
        return len(self.terms)

    def term(self, number: int) -> str:
        return self._encoded(number).decode()

    def find_all(self, terms: Sequence[str]) -> NDArray[np.int64]:
        """Find the numbers of many terms; `UNKNOWN_TERM` for those that are absent."""
        encoded = [term.encode() for term in terms]
        hashes = np.fromiter(map(crc32, encoded), np.uint32, len(encoded))
        numbers = np.full(len(encoded), UNKNOWN_TERM, np.int64)
        positions = self.hashes.searchsorted(hashes)
        ends = self.hashes.searchsorted(hashes, "right")
        for at in (positions < ends).nonzero()[0].tolist():
            for number in self.order[positions[at] : ends[at]].tolist():
                if self._encoded(number) == encoded[at]:
                    numbers[at] = number
        return numbers

    def find_similar(self, terms: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield pairs of a term and one of ours at a possible edit distance of one.

        Ours are in order, of the same first two ASCII letters, and differ in size by
        one byte and in the set of letters by two at most.
        """
        if not terms:
            return
        signatures = _Signatures.of(RaggedArray.of([term.encode() for term in terms]))
        ours, order = self._signatures
        first = ours.keys.searchsorted(signatures.keys - 1)
        end = ours.keys.searchsorted(signatures.keys + 1, "right")
        positions = expand_ranges(first, end - first)
        owners = np.repeat(np.arange(len(terms)), end - first)
        apart = np.bitwise_count(ours.letters[positions] ^ signatures.letters[owners])
        is_near = apart <= 2  # noqa: PLR2004 - one letter more, and one less
        owners, numbers = owners[is_near], order[positions[is_near]]
        for at in np.lexsort((numbers, owners)).tolist():
            yield terms[owners[at]], self.term(int(numbers[at]))

    def numbers(self) -> dict[str, int]:
        text, ends = bytes(self.terms.values), self.terms.ends.tolist()
        return {
            text[start:end].decode(): number for number, (start, end) in enumerate(pairwise(ends))
        }

    def _encoded(self, number: int) -> bytes:
        return bytes(self._text[self._ends[number] : self._ends[number + 1]])

    # A view answers for one item several times as fast as an array.
    @cached_property
    def _text(self) -> memoryview:
        return self.terms.values.data

    @cached_property
    def _ends(self) -> memoryview:
        return self.terms.ends.data

    @cached_property
    def _signatures(self) -> tuple["_Signatures", NDArray[np.uint32]]:
        shapes = _Signatures.of(self.terms)
        order = np.argsort(shapes.keys, kind="stable").astype(np.uint32)
        return _Signatures(shapes.keys[order], shapes.letters[order]), order


class _Signatures(NamedTuple):
    """Signatures to tell most words apart without comparing letters."""

    keys: NDArray[np.uint32]
    """First two bytes, then the size."""
    letters: NDArray[np.uint32]

    @classmethod
    def of(cls, words: RaggedArray) -> "_Signatures":
        starts, sizes = words.ends[:-1], np.diff(words.ends)
        beginnings = words.values[starts].astype(np.uint32) << 8
        beginnings |= words.values.take(starts + 1, mode="clip") * (sizes > 1)
        # All bytes of other letters are one sign: a letter of those has several.
        bits = np.left_shift(1, words.values & 31, dtype=np.uint32)
        bits[words.values > _LAST_ASCII] = 1
        letters = np.bitwise_or.reduceat(bits, starts) if len(starts) else bits
        keys = np.left_shift(beginnings, _SIZE_BITS, dtype=np.uint32)
        return cls(keys | sizes.astype(np.uint32), letters)


TermNumbers = NDArray[np.unsignedinteger]

MAX_FIELD_TERMS = 4096
"""Terms read per field: a text without an end may not hold up an answer."""

_CACHED_DOCUMENTS = 256  # documents: all of a small library, some 2 KB each in a large one

_TERM = np.dtype(np.uint32)

FIELD_COUNT = 5


RestoreTerms = Callable[[int], bytes]
"""Derives the terms of a document again, from its text."""


class LeadingTerms(NamedTuple):
    """The first terms of each field of a document, in their order."""

    whole: TermNumbers
    ends: tuple[int, ...]

    def field(self, number: int) -> TermNumbers:
        return self.whole[self.ends[number] : self.ends[number + 1]]


class TermSequences:
    """The term sequences of documents, a row per field. Immutable.

    The largest part of an index; a query needs those of some thirty documents. So they
    may stay on the disk, open to other processes: each document has a checksum, and a
    damaged one is derived anew from its text by `restore`.

    Raises:
        ValueError: A file is damaged.
    """

    def __init__(
        self,
        ends: NDArray[np.int64],
        sums: NDArray[np.uint32],
        source: Sliceable,
        restore: RestoreTerms | None = None,
    ) -> None:
        require_consistent(len(ends) == len(sums) * FIELD_COUNT + 1, "documents are missing")
        require_consistent(int(ends[0]) == 0, "the first row is cut")
        require_consistent(bool((ends[1:] >= ends[:-1]).all()), "a row ends too early")
        require_consistent(int(ends[-1]) * _TERM.itemsize == len(source), "the last row is cut")
        self.ends = ends
        self.sums = sums
        self.source = source
        # Not of ourselves: a cycle is freed by nothing but the garbage collector.
        # A view answers for one item several times as fast as an array.
        read = partial(_read_leading_terms, ends.data, sums.data, source, restore)
        self.read = lru_cache(maxsize=_CACHED_DOCUMENTS)(read)
        """Read the first terms of a document; raises `DamagedTextError`."""

    @classmethod
    def of(cls, rows: RaggedArray) -> "TermSequences":
        source = rows.values.astype(_TERM, copy=False).data.cast("B")
        ends = rows.ends[::FIELD_COUNT] * _TERM.itemsize
        sums = [crc32(source[start:end]) for start, end in pairwise(ends.tolist())]
        return cls(rows.ends, np.array(sums, np.uint32), source)

    def __len__(self) -> int:
        return len(self.sums)

    def load(self) -> RaggedArray:
        """Read all rows.

        Raises:
            DamagedTextError: A document is damaged.
        """
        data = memoryview(self.source[:])
        ends = self.ends[::FIELD_COUNT] * _TERM.itemsize
        parts = (data[start:end] for start, end in pairwise(ends.tolist()))
        if len(data) != int(ends[-1]) or [*map(crc32, parts)] != self.sums.tolist():
            raise DamagedTextError("the order of the words changed since it was written")
        return RaggedArray(np.frombuffer(data, _TERM), self.ends)


def _read_leading_terms(
    ends: memoryview,
    sums: memoryview,
    source: Sliceable,
    restore: RestoreTerms | None,
    document: int,
) -> LeadingTerms:
    first = document * FIELD_COUNT
    stops = ends[first : first + FIELD_COUNT + 1].tolist()
    start, end = stops[0], stops[-1]
    try:
        found = source[start * _TERM.itemsize : end * _TERM.itemsize]
    except OSError:
        found = b""
    if crc32(found) != sums[document] or len(found) != (end - start) * _TERM.itemsize:
        if restore is None:
            raise DamagedTextError("the order of the words changed since it was written")
        found = restore(document)
    terms = np.frombuffer(found, _TERM)
    stops = [stop - start for stop in stops]
    if len(terms) <= MAX_FIELD_TERMS:
        return LeadingTerms(terms, tuple(stops))
    fields = [terms[one:other][:MAX_FIELD_TERMS] for one, other in pairwise(stops)]
    return LeadingTerms(np.concatenate(fields), tuple(accumulate(map(len, fields), initial=0)))


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


_WORD_CACHE_SIZE = 2**13  # tasks share their words, and a page has hundreds; some 5 MB


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
    mask: NDArray[np.bool_] | None = None
    """The visible documents, None for all; `span` covers the others, too."""
    counts: NDArray[np.int32] | None = None
    """With a mask, the visible documents of each term."""

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
        if self.counts is not None:
            return int(self.counts[term])
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
        if self.counts is not None:
            counts[is_known] = self.counts[known]
        else:
            counts[is_known] = self.documents.ends[known + 1] - self.documents.ends[known]
        return counts

    @property
    def total(self) -> int:
        return len(self.shares) if self.counts is None else int(self.counts.sum(dtype=np.int64))

    def read(self, span: slice) -> "PostedDocuments":
        return self.documents.values[span], self.shares[span], self.fields[span]

    def holders(self, term: int) -> "PostedDocuments":
        documents, shares, fields = self.read(self.span(term))
        if self.mask is None:
            return documents, shares, fields
        is_visible = self.mask[documents]
        return documents[is_visible], shares[is_visible], fields[is_visible]

    def seen(self, mask: NDArray[np.bool_]) -> "Postings":
        """Restrict the postings to visible documents."""
        is_seen = mask.view(np.uint8)[self.documents.values]
        # Every term has a document, so no row is empty.
        counts = np.add.reduceat(is_seen, self.documents.ends[:-1], dtype=np.int32)
        return replace(self, mask=mask, counts=counts)

    @classmethod
    def invert(cls, sequences: RaggedArray, term_count: int) -> "Postings":
        parts = list(_compute_batches(sequences))
        counts = np.zeros(term_count, np.int64)
        for part in parts:
            counts += np.bincount(part.terms, minlength=term_count)
        ends = row_offsets(counts)
        # Half the memory for what nearly all libraries are.
        is_small = len(sequences) <= _MAX_SMALL_INDEX * FIELD_COUNT
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


def _compute_batches(sequences: RaggedArray) -> Iterator[PostingEntries]:
    row_count = len(sequences)
    start = 0
    while start < row_count:
        limit = int(sequences.ends[start]) + _TERMS_PER_BATCH
        fitting = int(np.searchsorted(sequences.ends, limit, "right")) - 1
        end = max(fitting // FIELD_COUNT * FIELD_COUNT, start + FIELD_COUNT)
        ends = sequences.ends[start : end + 1]
        terms = sequences.values[ends[0] : ends[-1]]
        found = compute_entries(RaggedArray(terms, ends - ends[0]))
        first = np.uint32(start // FIELD_COUNT)
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
    bodies = sequences.ends[:-1].reshape(-1, FIELD_COUNT)[:, _BODY]
    lengths = np.diff(sequences.ends).reshape(-1, FIELD_COUNT)
    openings = np.minimum(lengths[:, _BODY], OPENING_LENGTH)
    # The opening is the end of a stretch, and the body behind it begins with it again.
    ends = sequences.ends[::FIELD_COUNT][:-1]
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


# In more than such a part of the documents, a bit for each of them is read faster than
# their numbers. The rows of 1,300 terms are kept of 50,000 documents, in 8 MB.
_FREQUENT_DIVISOR = 64
_PACKED_BITS = 2**26

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


_ORDINARY_COMPETITORS = 250  # no more than in the libraries that constants were chosen with
_CROWDING_EXPONENT = 0.25  # 0.15 to 0.4 are much the same; measured


class MatchingText(NamedTuple):
    """The part of an index with a term of some query."""

    documents: int
    postings: int

    @property
    def crowding(self) -> float:
        """How much less the rarest word and its repetition decide; 1 in ordinary libraries.

        Where thousands compete, the right skill is the one with most of the words: many have
        one of them often, and the rarest may be beside the point.
        """
        return float(max(self.documents / _ORDINARY_COMPETITORS, 1) ** _CROWDING_EXPONENT)


@dataclass(frozen=True, eq=False)
class TextIndex:
    """An inverted index; a document number is its position."""

    vocabulary: Vocabulary
    sequences: TermSequences
    postings: Postings
    priorities: NDArray[np.int32]
    order: DocumentNumbers | None = None
    """The visible documents in order; None for the order of numbers."""

    def __post_init__(self) -> None:
        """Validate; a damaged file is a ValueError."""
        rows = len(self.priorities)
        require_consistent(len(self.sequences) == rows, "documents are missing")
        require_consistent(
            len(self.postings.documents) == len(self.vocabulary), "terms are missing"
        )

    def __len__(self) -> int:
        mask = self.postings.mask
        return len(self.priorities) if mask is None else int(np.count_nonzero(mask))

    @cached_property
    def _term_counts(self) -> NDArray[np.int64]:
        """Distinct terms of each document."""
        return np.bincount(self.postings.documents.values, minlength=len(self.priorities))

    def measure_matching(self, terms: NDArray[np.int64]) -> "MatchingText":
        """Count the visible documents with any of the terms, and their postings."""
        total, rows = len(self.priorities), self.postings.documents
        known = terms[terms >= 0]
        starts, ends = rows.ends[known], rows.ends[known + 1]
        is_frequent = ends - starts > total // _FREQUENT_DIVISOR
        spans = zip(starts[~is_frequent].tolist(), ends[~is_frequent].tolist(), strict=True)
        rare = [rows.values[start:end] for start, end in spans]
        packed = _pack_flags(np.concatenate([rows.values[:0], *rare]), total)
        for term in known[is_frequent].tolist():
            packed |= self._packed_row(term)
        has_any = np.unpackbits(packed, count=total).view(np.bool_)
        if self.postings.mask is not None:
            has_any &= self.postings.mask
        return MatchingText(int(np.count_nonzero(has_any)), int(self._term_counts @ has_any))

    @cached_property
    def _packed_row(self) -> Callable[[int], NDArray[np.uint8]]:
        """The documents of a frequent term, a bit each."""
        total, rows = len(self.priorities), self.postings.documents
        remember = lru_cache(maxsize=_PACKED_BITS // (total or 1))
        return remember(lambda term: _pack_flags(rows.row(term), total))

    @property
    def cache_size(self) -> int:
        return _WORD_CACHE_SIZE if self.postings.mask is None else _WORD_CACHE_SIZE // 8

    @property
    def has_priorities(self) -> bool:
        mask = self.postings.mask
        return bool((self.priorities if mask is None else self.priorities[mask]).any())

    def find(self, term: str) -> int | None:
        [number] = self.find_all([term]).tolist()
        return None if number == UNKNOWN_TERM else number

    def find_all(self, terms: Sequence[str]) -> NDArray[np.int64]:
        """Find the numbers of many terms; `UNKNOWN_TERM` for those that are absent."""
        numbers = self.vocabulary.find_all(terms)
        if self.postings.mask is not None:
            numbers[self.postings.count_documents(numbers) == 0] = UNKNOWN_TERM
        return numbers

    def take_first(self, documents: DocumentNumbers, limit: int) -> DocumentNumbers:
        if self.order is None:
            return documents[:limit]
        is_candidate = np.zeros(len(self.priorities), np.bool_)
        is_candidate[documents] = True
        return self.order[is_candidate[self.order]][:limit]

    def seen(self, mask: NDArray[np.bool_], order: DocumentNumbers | None) -> "TextIndex":
        """Restrict the index to visible documents, which keep their numbers."""
        return replace(self, postings=self.postings.seen(mask), order=order)

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
        ranks = np.array([priorities[number] for number in numbers_in_known], np.int32)
        return cls(vocabulary, TermSequences.of(sequences), postings, ranks)

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


def _pack_flags(documents: Documents, total: int) -> NDArray[np.uint8]:
    flags = np.zeros(total, np.bool_)
    flags[documents] = True
    return np.packbits(flags)


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


PostedDocuments = tuple[Documents, Impacts, NDArray[np.uint8]]
"""Documents in order, their impacts, and a bit for each of `SCORED_FIELDS`."""

SHORT_FIELDS = np.uint8(7)
"""The name, the labels and the description: where a skill says what it is about."""

# A relative that many hold counts there. In a long text it is chance, and to follow it
# there would take most of the time.
_MANY_DOCUMENTS = 1000


def intersect(postings: Postings, terms: tuple[int, ...]) -> PostedDocuments:
    """Intersect postings; of each document the smallest impact, and the rarest term's fields."""
    first, *others = sorted(terms, key=postings.count)
    documents, shares, fields = _read_postings(postings, first)
    for term in others:
        other_documents, other_shares, _ = _read_postings(postings, term)
        is_both = _is_member(other_documents, documents)
        documents, shares, fields = documents[is_both], shares[is_both], fields[is_both]
        shares = np.minimum(shares, other_shares[other_documents.searchsorted(documents)])
    return documents, shares, fields


def _read_postings(postings: Postings, term: int) -> PostedDocuments:
    documents, shares, fields = postings.holders(term)
    if len(documents) <= _MANY_DOCUMENTS:
        return documents, shares, fields
    [short] = (fields & SHORT_FIELDS).nonzero()
    return documents[short], shares[short], fields[short]


def _is_member(documents: Documents, candidates: NDArray[np.unsignedinteger]) -> NDArray[np.bool_]:
    if not len(documents):
        return np.zeros(len(candidates), np.bool_)
    # Numbers of another type would make a copy of all documents, again and again.
    positions = documents.searchsorted(candidates.astype(documents.dtype, copy=False))
    found: NDArray[np.bool_] = documents.take(positions, mode="clip") == candidates
    return found
