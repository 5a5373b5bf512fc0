"""The second look against the same, written down as it is."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import exp, log1p

import numpy as np
import pytest
from hypothesis import given

from skills_mcp.routing.inverted_index import IndexedDocument
from skills_mcp.routing.lexicon import build_thesaurus
from skills_mcp.routing.ranked_matcher import (
    EvidenceWeight,
    combine_features,
    name_coverage,
    term_proximity,
)
from tests.routing.documents import DOCUMENTS, TEXTS, read

# Two of them stand for each other: k8s and kubernetes.
_FOUND = build_thesaurus().expand(["k8s"])
[_RELATED] = (r for r in _FOUND["k8s"] if r.terms == ("kubernet",))
NEAR = _RELATED.weight

_REACH_IN_TASK = 2
_REACH_IN_SKILL = 6


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


def literal_nearness(document: IndexedDocument, task: Sequence[str], pair: frozenset[str]) -> float:
    best = 0.0
    for text in (document.name, document.labels, document.description, document.body):
        found = [nearest(word, task) for word in text.split()]
        for one, other in combinations(range(len(found)), 2):
            worth = found[one][1] * found[other][1] / (other - one)
            is_pair = worth and frozenset((found[one][0], found[other][0])) == pair
            if is_pair and other - one <= _REACH_IN_SKILL:
                best = max(best, worth)
    return best


def literal_information(
    documents: Sequence[IndexedDocument], words: Sequence[str], word: str
) -> float:
    texts = [" ".join(each.texts).split() for each in documents]
    held = sum(word in text for text in texts)
    matching = sum(not set(text).isdisjoint(words) for text in texts)
    return log1p((max(matching, 30) - held + 0.5) / (held + 0.5))


@given(DOCUMENTS, TEXTS)
def test_nearness_equals_a_look_at_every_pair(documents: list[IndexedDocument], text: str) -> None:
    index, task = read(documents, text)
    words = [word.typed for word in task.words]
    distances: dict[frozenset[str], int] = {}
    for pair, distance in pairs(text.split()):
        if distance <= _REACH_IN_TASK:
            distances[pair] = min(distance, distances.get(pair, distance))
    wanted = [frozenset(words[term] for term in pair) for pair in task.pairs.tolist()]
    weights = np.array(
        [
            sum(literal_information(documents, words, word) ** 0.8 for word in pair)
            / distances[pair]
            for pair in wanted
        ]
    )

    found = term_proximity(index, task, np.arange(len(documents)))

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
        name = {word: literal_information(documents, words, word) for word in document.name.split()}
        covered = (
            worth * max((near(word, own) for own in words), default=0)
            for word, worth in name.items()
        )
        expected.append(sum(covered) / (sum(name.values()) or 1))

    found = name_coverage(index, task, np.arange(len(documents)))

    assert found.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("feature", [{}, {"name_share": 1.0}, {"proximity": 1.0}])
def test_features_are_absolute_and_each_of_them_counts(
    feature: dict[str, float],
) -> None:
    [half, whole] = combine_features(np.array([0.5, 1]), **feature)
    [most] = combine_features(np.array([1.0]), name_share=1.0, proximity=1.0)

    assert half < whole <= most == 1


def test_a_task_without_an_end_is_read_up_to_a_point() -> None:
    index, task = read(
        [IndexedDocument("ant", "", "", "", "")], " ".join(f"w{n}" for n in range(9999))
    )

    assert len(task.words) == task.size == 96
    assert len(term_proximity(index, task, np.array([0])).weights) == 189


def test_a_long_field_is_read_up_to_a_point() -> None:
    far = "word " * 5000
    index, task = read([IndexedDocument("", "", "", "", f"{far} ant bat")], "ant bat")

    assert term_proximity(index, task, np.array([0])).scores.tolist() == [0]


def test_however_much_is_missing_an_eighth_of_the_evidence_is_left() -> None:
    some, most = (EvidenceWeight(16, missing=(1,), share=share) for share in (0.1, 0.9))

    assert some.value == pytest.approx(16 * exp(-0.6))
    assert most.value == 2
