"""The index against the formulas of BM25F, and what is known against what is read."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.routing import inverted_index as text_index
from skills_mcp.routing.inverted_index import (
    IMPACT_UNIT,
    UNKNOWN_TERM,
    IndexedDocument,
    TextIndex,
)
from skills_mcp.routing.lexicon import split_raw_tokens

# As the documentation has them, in the order of the places.
WEIGHTS = (5, 2, 1, 0.5, 0.35, 0.1)
USUAL_LENGTHS = (3, 8, 40, 40, 180, 600)
OPENING = 180
K1 = 2.5
B = 0.75

WORDS = ("ant", "bat", "cat", "dog", "eel", "認証")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
# Some longer than an opening, whose end is in a place of its own.
BODIES = st.tuples(TEXTS, st.sampled_from((0, 1, 90, 250))).map(
    lambda parts: f"{'fox ' * parts[1]}{parts[0]}"
)
DOCUMENTS = st.builds(IndexedDocument, *[TEXTS] * 4, BODIES, st.integers(-1000, 1000))


def literal_places(document: IndexedDocument) -> list[list[str]]:
    """Return the words of each place; the opening is the beginning of the body."""
    *others, body = [text.split() for text in document.texts]
    return [*others, body[:OPENING], body]


def literal_share(document: IndexedDocument, term: str) -> float:
    """Return how well a document explains a term, without any index."""
    frequency = 0.0
    places = zip(literal_places(document), WEIGHTS, USUAL_LENGTHS, strict=True)
    for words, weight, usual_length in places:
        relative = 1 - B + B * len(words) / usual_length
        frequency += weight * Counter(words)[term] / relative
    return frequency / (K1 + frequency)


def literal_fields(document: IndexedDocument, term: str) -> int:
    held = (term in words for words in literal_places(document))
    return sum(2**n for n, is_held in enumerate(held) if is_held)


def same(one: TextIndex, other: TextIndex) -> bool:
    assert one.arrays.keys() == other.arrays.keys()
    return all(
        array.dtype == other.arrays[name].dtype and np.array_equal(array, other.arrays[name])
        for name, array in one.arrays.items()
    )


def long_documents(count: int, seed: int = 1) -> list[IndexedDocument]:
    """Return documents of 400 words each."""
    random = Random(seed)  # noqa: S311 - the same documents each time

    def text(length: int) -> str:
        return " ".join(f"w{random.randrange(2000)}x" for _ in range(length))

    return [
        IndexedDocument(f"name {n}", text(5), text(20), text(5), text(370)) for n in range(count)
    ]


@given(st.lists(DOCUMENTS, max_size=6))
def test_the_index_equals_the_formulas(documents: list[IndexedDocument]) -> None:
    index = TextIndex.build(documents)

    for term in WORDS:
        number = index.find(term)
        expected = {
            n: (literal_share(document, term), literal_fields(document, term))
            for n, document in enumerate(documents)
            if literal_fields(document, term)
        }
        assert (number is not None) is bool(expected)
        if number is not None:
            its = index.postings.span(number)
            shares = index.postings.shares[its] / IMPACT_UNIT
            assert index.postings.documents.values[its].tolist() == list(expected)
            assert list(zip(shares, index.postings.fields[its], strict=True)) == [
                (pytest.approx(share, abs=0.51 / IMPACT_UNIT), fields)
                for share, fields in expected.values()
            ]


@given(st.lists(DOCUMENTS, max_size=6))
def test_the_words_of_every_field_are_kept_in_their_order(
    documents: list[IndexedDocument],
) -> None:
    index = TextIndex.build(documents)

    whole = index.sequences.load()
    rows = [
        " ".join(index.vocabulary.term(int(term)) for term in whole.row(row))
        for row in range(len(whole))
    ]

    expected = [" ".join(text.split()) for each in documents for text in each.texts]
    assert rows == expected
    assert index.priorities.tolist() == [each.priority for each in documents]


def test_terms_are_in_order_whatever_they_consist_of() -> None:
    texts = ["zebra ant", "Öl ähnlich", "認証 ant", "добавить c++ c# .net", "z" * 200]
    index = TextIndex.build(IndexedDocument(text, "", "", "", "") for text in texts)

    terms = [index.vocabulary.term(number) for number in range(len(index.vocabulary))]

    assert terms == sorted(set(terms))
    assert [index.find(term) for term in terms] == list(range(len(terms)))
    assert {index.find(f"{term}!") for term in ("", *terms)} == {None}
    assert {"ol", "認証", "c++", "z" * 64} <= set(terms)


# --- from another index ---------------------------------------------------------


@given(st.lists(DOCUMENTS, max_size=6), st.data())
def test_what_is_known_changes_nothing_in_an_index(
    documents: list[IndexedDocument], data: st.DataObject
) -> None:
    kept = st.integers(0, len(documents) - 1) if documents else st.nothing()
    wanted = data.draw(st.lists(kept | DOCUMENTS, max_size=8))
    whole = [documents[each] if isinstance(each, int) else each for each in wanted]

    built = TextIndex.build(wanted, TextIndex.build(documents))

    assert same(built, TextIndex.build(whole))


def test_what_is_known_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = long_documents(100)
    known = TextIndex.build(documents)
    split: list[str] = []

    def noting(text: str) -> list[bytes]:
        split.append(text)
        return split_raw_tokens(text)

    monkeypatch.setattr(text_index, "split_raw_tokens", noting)

    TextIndex.build([*range(50), documents[0], *range(51, 100)], known)

    assert split == list(documents[0].texts)


def test_changes_add_up() -> None:
    documents = long_documents(20)
    index = TextIndex.build(documents)

    for number, document in enumerate(long_documents(20, seed=2)):
        place = number * 7 % len(documents)
        documents[place] = document
        changed: list[IndexedDocument | int] = list(range(len(documents)))
        changed[place] = document
        index = TextIndex.build(changed, index)

    assert same(index, TextIndex.build(documents))


# --- a file ---------------------------------------------------------------------


def test_an_index_is_what_its_arrays_are() -> None:
    index = TextIndex.build(long_documents(3))

    again = TextIndex.from_arrays(dict(index.arrays), index.sequences.source)

    assert same(again, index)
    assert len(again) == 3


NAMES = sorted(TextIndex.build([]).arrays)


@pytest.mark.parametrize("name", NAMES)
def test_arrays_that_do_not_fit_together_are_refused(name: str) -> None:
    index = TextIndex.build(long_documents(3))
    arrays, source = index.arrays, index.sequences.source
    array = arrays[name]
    damaged = [
        {n: each for n, each in arrays.items() if n != name},
        {**arrays, f"{name}2": array},
        {**arrays, name: array[:-1]},
        {**arrays, name: array[:0]},
        {**arrays, name: array.astype(np.float32)},
        {**arrays, name: array[np.newaxis]},
    ]
    if name.endswith("_ends"):
        falling = array.copy()
        falling[1] = array[-1] + 1
        damaged += [{**arrays, name: array + 1}, {**arrays, name: falling}]

    for each in damaged:
        with pytest.raises(ValueError, match="no index"):
            TextIndex.from_arrays(each, source)
    with pytest.raises(ValueError, match="no index"):
        TextIndex.from_arrays(arrays, source[:-4])


def test_a_build_reads_documents_one_after_the_other() -> None:
    alive: Counter[str] = Counter()

    class Text(str):
        __slots__ = ()

        def __del__(self) -> None:
            alive["now"] -= 1

    def documents() -> Sequence[IndexedDocument]:  # type: ignore[misc]
        for number in range(50):
            alive["now"] += 1
            alive["most"] = max(alive.values())
            yield IndexedDocument("a", "", "", "", Text(f"text {number}"))

    TextIndex.build(documents())

    assert alive["most"] <= 3


def test_the_text_with_any_of_some_terms_is_counted_for_frequent_and_rare_ones() -> None:
    texts = ["broker " * (n % 2) + f"queue{n % 150} shard" * (n % 3) for n in range(300)]
    index = TextIndex.build(
        IndexedDocument(f"skill{n}", "", "", "", text) for n, text in enumerate(texts)
    )
    numbers = [index.find(term) for term in ("broker", "queue7", "skill40", "nothing")]
    terms = np.array([UNKNOWN_TERM if n is None else n for n in numbers], np.int64)

    measured = index.measure_matching(terms)

    holders = {d for n in numbers if n is not None for d in index.postings.holders(n)[0].tolist()}
    every = np.concatenate([index.postings.holders(n)[0] for n in range(len(index.vocabulary))])
    assert measured.documents == len(holders) > len(texts) / 2
    assert measured.postings == int(np.isin(every, sorted(holders)).sum())
