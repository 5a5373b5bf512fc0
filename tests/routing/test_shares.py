"""How much of a task each skill explains."""

import numpy as np
import pytest
from hypothesis import given

from skills_mcp.routing.shares import Shares, explain_shares
from skills_mcp.routing.text_index.inverted_index import IndexedDocument
from tests.routing.documents import DOCUMENTS, TEXTS, read


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


@pytest.mark.parametrize(
    "many, found", [(1, [True, False, False]), (2, [True, True, False])]
)
def test_a_relative_that_many_hold_counts_where_a_skill_says_what_it_is_about(
    many: int, found: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skills_mcp.routing.text_index.intersection._MANY", many)
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
