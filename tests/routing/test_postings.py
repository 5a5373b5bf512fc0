"""The index against the formulas of BM25F, written down as they are."""

import math
from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skills_mcp.routing.postings import Postings

WEIGHTS = (5.0, 1.0, 0.1)
K1 = 2.5
B = 0.75

Document = tuple[str, ...]


def literal_share(documents: Sequence[Document], number: int, term: str) -> float:
    """Return how well a document explains a term, without any index."""
    frequency = 0.0
    for field, weight in enumerate(WEIGHTS):
        lengths = [len(document[field].split()) for document in documents]
        filled = [length for length in lengths if length]
        if lengths[number]:
            mean = sum(filled) / len(filled)
            relative = 1 - B + B * lengths[number] / mean
            count = Counter(documents[number][field].split())[term]
            frequency += weight * count / relative
    return frequency / (K1 + frequency)


def literal_information(documents: Sequence[Document], term: str) -> float:
    found = sum(term in " ".join(document).split() for document in documents)
    return math.log(1 + (len(documents) - found + 0.5) / (found + 0.5))


WORDS = ("ant", "bat", "cat", "dog", "eel")
FIELDS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
DOCUMENTS = st.lists(st.tuples(*[FIELDS] * len(WEIGHTS)), max_size=6)


@settings(deadline=None, max_examples=300)
@given(DOCUMENTS)
def test_the_index_equals_the_formulas(documents: list[Document]) -> None:
    postings = Postings(documents, WEIGHTS)

    for term in (*WORDS, "unknown"):
        shares = dict(postings.shares(term))
        expected = {
            number: literal_share(documents, number, term)
            for number in range(len(documents))
        }
        assert shares == pytest.approx({n: s for n, s in expected.items() if s})
        assert list(postings.holders(term)) == sorted(shares)
        assert postings.information(term) == pytest.approx(
            literal_information(documents, term)
        )


@given(DOCUMENTS, st.randoms(use_true_random=False))
def test_the_order_of_the_documents_changes_nothing(
    documents: list[Document], random: Random
) -> None:
    numbers = list(range(len(documents)))
    random.shuffle(numbers)

    before = Postings(documents, WEIGHTS)
    after = Postings([documents[number] for number in numbers], WEIGHTS)

    for term in WORDS:
        moved = {numbers[number]: share for number, share in after.shares(term)}
        assert moved == dict(before.shares(term))
        assert after.information(term) == before.information(term)


def test_words_are_compared_as_terms() -> None:
    postings = Postings([("Queries",), ("a pill",), ("querying it",)], (1,))

    assert list(postings.holders("queri")) == [0, 2]
    assert list(postings.holders("query")) == []
