"""The terms of documents that stay on the disk: read in parts, and never believed."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.files.arrays import DamagedTextError, row_offsets
from skills_mcp.routing.inverted_index import (
    FIELD_COUNT,
    MAX_FIELD_TERMS,
    LeadingTerms,
    RaggedArray,
    TermSequences,
)

ROW = st.lists(st.integers(0, 99), max_size=4)
DOCUMENTS = st.lists(st.lists(ROW, min_size=FIELD_COUNT, max_size=FIELD_COUNT))
SOME = ((1, 2), (3,), (), (4,), (5, 6)), ((7,), (), (8, 9), (), (10,))


def made(documents: Sequence[Sequence[Sequence[int]]]) -> TermSequences:
    rows = [row for document in documents for row in document]
    values = np.array([term for row in rows for term in row], np.uint32)
    return TermSequences.of(RaggedArray(values, row_offsets(np.array([*map(len, rows)], int))))


def fields(text: LeadingTerms) -> list[list[int]]:
    return [text.field(number).tolist() for number in range(FIELD_COUNT)]


@given(DOCUMENTS)
def test_each_document_is_read_as_it_was_written(
    documents: list[list[list[int]]],
) -> None:
    sequences = made(documents)

    read = [fields(sequences.read(number)) for number in range(len(sequences))]

    assert read == documents
    assert sequences.load().values.tolist() == [
        term for document in documents for row in document for term in row
    ]


def test_of_a_text_without_an_end_the_beginning_is_read() -> None:
    long = range(MAX_FIELD_TERMS + 9)
    sequences = made([((1,), (), (2,), long, long)])

    name, _, description, headings, body = fields(sequences.read(0))

    assert (name, description) == ([1], [2])
    assert headings == body == [*range(MAX_FIELD_TERMS)]


@pytest.mark.parametrize("damage", [b"", b"!", b"x" * 44])
def test_a_damaged_document_is_restored_and_the_others_are_read(damage: bytes) -> None:
    whole = made(SOME)
    sums, good = whole.sums, bytes(whole.source[:])
    asked: list[int] = []

    class Changed(bytes):
        __slots__ = ()

        def __getitem__(self, part: slice) -> bytes:  # type: ignore[override]
            return damage if part.start else good[part]

    def restore(document: int) -> bytes:
        asked.append(document)
        return good[6 * 4 :]

    sequences = TermSequences(whole.ends, sums, Changed(good), restore)

    assert [fields(sequences.read(n)) for n in (0, 1, 1)] == [
        [[*row] for row in SOME[n]] for n in (0, 1, 1)
    ]
    assert asked == [1]
    with pytest.raises(DamagedTextError):
        TermSequences(whole.ends, sums, Changed(good)).read(1)


def test_what_is_damaged_is_not_loaded() -> None:
    whole = made(SOME)
    good = bytes(whole.source[:])

    for source in (b"!" + good[1:], Cut(good)):
        with pytest.raises(DamagedTextError):
            TermSequences(whole.ends, whole.sums, source).load()


class Cut(bytes):
    """A file that another process has cut off since it was opened."""

    __slots__ = ()

    def __getitem__(self, part: slice) -> bytes:  # type: ignore[override]
        return super().__getitem__(part)[:-1]
