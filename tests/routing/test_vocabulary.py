"""The terms of an index: found as they are, and with an error in them."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.routing.inverted_index import UNKNOWN_TERM, RaggedArray, Vocabulary

TERMS = st.lists(st.text("abcé0認", min_size=1, max_size=7), unique=True).map(sorted)
ASKED = st.lists(st.text("abc", min_size=5, max_size=6), unique=True)


def letters_are_near(one: str, other: str) -> bool:
    """Whether two words are within the promise of `find_similar`."""
    letters = (set(each) for each in (one, other))
    size = len(other.encode())
    return (
        one[:2] == other[:2]
        and abs(len(one) - size) <= 1
        and len(set.symmetric_difference(*letters)) <= 2
    )


@given(terms=TERMS, asked=st.lists(st.text("abcé0認", max_size=7)))
def test_terms_are_found_together(terms: list[str], asked: list[str]) -> None:
    known = {term: number for number, term in enumerate(terms)}
    every = [*terms, *asked]

    found = Vocabulary.join(terms).find_all(every)

    assert found.tolist() == [known.get(term, UNKNOWN_TERM) for term in every]


def test_two_terms_with_one_checksum_are_two_terms() -> None:
    vocabulary = Vocabulary.join(["buckeroo", "other", "plumless"])

    assert crc32(b"buckeroo") == crc32(b"plumless")
    assert vocabulary.find_all(["plumless", "none", "buckeroo"]).tolist() == [2, UNKNOWN_TERM, 0]


@given(TERMS, ASKED)
def test_what_may_be_an_error_is_found_in_order(terms: list[str], asked: list[str]) -> None:
    found = [*Vocabulary.join(terms).find_similar(asked)]

    assert found == sorted(found, key=lambda pair: (asked.index(pair[0]), pair[1]))
    assert len(found) == len({*found})
    for one in asked:
        near = {other for other in terms if letters_are_near(one, other)}
        assert near <= {other for term, other in found if term == one}
        assert all(other[:2] == one[:2] for term, other in found if term == one)


def test_a_vocabulary_whose_parts_do_not_fit_is_refused() -> None:
    whole = Vocabulary.join(["ant", "bat"])

    with pytest.raises(ValueError, match="words are missing"):
        Vocabulary(RaggedArray.of([b"ant"]), whole.hashes, whole.order)
