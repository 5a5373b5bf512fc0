"""The second look against the same, written down as it is."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import exp, log1p

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.routing.lexicon import find_thesaurus
from skills_mcp.routing.rerank import Weight, combine, compare_pairs, cover_names
from skills_mcp.routing.task import Shares, Task, TaskReader, explain_shares
from skills_mcp.routing.text_index.inverted_index import IndexedDocument, TextIndex

# Two of them stand for each other: k8s and kubernetes.
_FOUND = find_thesaurus().expand(["k8s"])
[_RELATED] = (r for r in _FOUND["k8s"] if r.terms == ("kubernet",))
NEAR = _RELATED.weight
WORDS = ("ant", "bat", "cat", "k8s", "kubernetes", "x1", "x2", "x3", "x4", "x5")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
DOCUMENTS = st.lists(
    st.builds(IndexedDocument, TEXTS, TEXTS, TEXTS, st.just(""), TEXTS, st.just(0)),
    min_size=1,
    max_size=5,
)

_REACH_IN_TASK = 2
_REACH_IN_SKILL = 6


def read(documents: Sequence[IndexedDocument], text: str) -> tuple[TextIndex, Task]:
    index = TextIndex.build(documents)
    return index, TaskReader(index).read(text)


def near(word: str, other: str) -> float:
    """Return how far one word stands for another."""
    if word == other:
        return 1
    return NEAR if {word, other} == {"k8s", "kubernetes"} else 0


def nearest(word: str, task: Sequence[str]) -> tuple[str, float]:
    """Return the word of a task that a word of a skill stands for."""
    return max(((own, near(word, own)) for own in task), key=lambda each: each[1])


def pairs(words: Sequence[str]) -> Iterator[tuple[frozenset[str], int]]:
    for one, other in combinations(range(len(words)), 2):
        if words[one] != words[other]:
            yield frozenset((words[one], words[other])), other - one


def literal_nearness(
    document: IndexedDocument, task: Sequence[str], pair: frozenset[str]
) -> float:
    best = 0.0
    for text in (document.name, document.labels, document.description, document.body):
        found = [nearest(word, task) for word in text.split()]
        for one, other in combinations(range(len(found)), 2):
            worth = found[one][1] * found[other][1] / (other - one)
            is_pair = worth and frozenset((found[one][0], found[other][0])) == pair
            if is_pair and other - one <= _REACH_IN_SKILL:
                best = max(best, worth)
    return best


def literal_information(documents: Sequence[IndexedDocument], word: str) -> float:
    held = sum(word in " ".join(each.texts).split() for each in documents)
    return log1p((len(documents) - held + 0.5) / (held + 0.5))


@given(DOCUMENTS, TEXTS)
def test_nearness_equals_a_look_at_every_pair(
    documents: list[IndexedDocument], text: str
) -> None:
    index, task = read(documents, text)
    words = [word.typed for word in task.words]
    distances: dict[frozenset[str], int] = {}
    for pair, distance in pairs(text.split()):
        if distance <= _REACH_IN_TASK:
            distances[pair] = min(distance, distances.get(pair, distance))
    wanted = [frozenset(words[term] for term in pair) for pair in task.pairs.tolist()]
    weights = np.array(
        [
            sum(literal_information(documents, word) ** 0.8 for word in pair)
            / distances[pair]
            for pair in wanted
        ]
    )

    found = compare_pairs(index, task, np.arange(len(documents)))

    assert set(wanted) == set(distances)
    assert found.weights == pytest.approx(weights / (weights.sum() or 1))
    assert found.pairs.tolist() == [
        pytest.approx([literal_nearness(document, words, pair) for pair in wanted])
        for document in documents
    ]
    assert np.all(found.scores <= 1 + 1e-9)


@given(DOCUMENTS, TEXTS)
def test_coverage_equals_a_look_at_every_word_of_the_name(
    documents: list[IndexedDocument], text: str
) -> None:
    index, task = read(documents, text)
    words = [word.typed for word in task.words]
    expected = []
    for document in documents:
        name = {
            word: literal_information(documents, word) for word in document.name.split()
        }
        covered = (
            worth * max((near(word, own) for own in words), default=0)
            for word, worth in name.items()
        )
        expected.append(sum(covered) / (sum(name.values()) or 1))

    found = cover_names(index, task, np.arange(len(documents)))

    assert found.tolist() == pytest.approx(expected)


@given(DOCUMENTS, TEXTS)
def test_no_document_explains_more_than_all_of_a_task(
    documents: list[IndexedDocument], text: str
) -> None:
    index, task = read(documents, text)

    explained = explain_shares(task, Shares(index).find(task), len(index))

    assert np.all((explained >= 0) & (explained <= 1))
    texts = [" ".join(each.texts).split() for each in documents]
    for number, held in enumerate(texts):
        if set(held) & set(text.split()):
            assert explained[number] > 0


def test_a_phrase_is_held_by_who_holds_all_of_its_words() -> None:
    index = TextIndex.build(
        IndexedDocument(name, "", "", "", "")
        for name in ("ant bat", "ant", "bat", "cat bat ant")
    )
    numbers = tuple(index.vocabulary.find(word) or 0 for word in ("ant", "bat"))

    documents, least = Shares(index)._hold(numbers)

    assert documents.tolist() == [0, 3]
    assert least[0] > least[1]


@pytest.mark.parametrize(
    "many, found", [(1, [True, False, False]), (2, [True, True, False])]
)
def test_a_relative_that_many_hold_counts_where_a_skill_says_what_it_is_about(
    many: int, found: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skills_mcp.routing.task._MANY", many)
    index, task = read(
        [
            IndexedDocument("", "", "kubernetes", "", ""),
            IndexedDocument("", "", "", "", "kubernetes"),
            IndexedDocument("", "", "", "", "ant"),
        ],
        "k8s",
    )

    explained = explain_shares(task, Shares(index).find(task), len(index))

    assert (explained > 0).tolist() == found


@pytest.mark.parametrize("feature", [{}, {"covered": 1.0}, {"near": 1.0}])
def test_features_are_absolute_and_each_of_them_counts(
    feature: dict[str, float],
) -> None:
    [half, whole] = combine(np.array([0.5, 1]), **feature)
    [most] = combine(np.array([1.0]), covered=1.0, near=1.0)

    assert half < whole <= most == 1


def test_a_task_without_an_end_is_read_up_to_a_point() -> None:
    index, task = read(
        [IndexedDocument("ant", "", "", "", "")], " ".join(f"w{n}" for n in range(9999))
    )

    assert len(task.words) == task.size == 96
    assert len(compare_pairs(index, task, np.array([0])).weights) == 189


def test_a_long_field_is_read_up_to_a_point() -> None:
    far = "word " * 5000
    index, task = read([IndexedDocument("", "", "", "", f"{far} ant bat")], "ant bat")

    assert compare_pairs(index, task, np.array([0])).scores.tolist() == [0]


@pytest.mark.parametrize("silent_count", [0, 60])
def test_the_best_of_a_word_and_its_relatives_counts_once(silent_count: int) -> None:
    silent = [IndexedDocument("", "", "zebra", "", "")] * silent_count
    index, task = read(
        [
            IndexedDocument("k8s", "kubernetes", "database", "", ""),
            IndexedDocument("", "", "kubernetes", "", ""),
            IndexedDocument("ant", "db", "", "", ""),
            IndexedDocument("kubernetes", "", "", "", "db and many more of such words"),
            *silent,
        ],
        "k8s ant database",
    )
    held = Shares(index).find(task)
    expected = np.zeros(len(index))
    for holders in held:
        best = np.zeros(len(index))
        for documents, worth, _ in holders:
            best[documents] = np.maximum(best[documents], worth)
        expected += best / task.whole

    assert explain_shares(task, held, len(index)) == pytest.approx(expected)


def test_however_much_is_missing_an_eighth_of_the_evidence_is_left() -> None:
    some, most = (Weight(16, missing=(1,), share=share) for share in (0.1, 0.9))

    assert some.value == pytest.approx(16 * exp(-0.6))
    assert most.value == 2
