"""How much of a task each skill explains."""

import numpy as np
import pytest
from hypothesis import given

from skills_mcp.routing.inverted_index import IndexedDocument
from skills_mcp.routing.ranked_matcher import PostingsLookup, compute_coverage
from tests.routing.documents import DOCUMENTS, TEXTS, read


@given(DOCUMENTS, TEXTS)
def test_no_document_explains_more_than_all_of_a_task(
    documents: list[IndexedDocument], text: str
) -> None:
    index, task = read(documents, text)

    explained = compute_coverage(task, PostingsLookup(index).find(task), len(index))

    assert np.all((explained >= 0) & (explained <= 1))
    texts = [" ".join(each.texts).split() for each in documents]
    for number, held in enumerate(texts):
        if set(held) & set(text.split()):
            assert explained[number] > 0


@pytest.mark.parametrize("many, found", [(1, [True, False, False]), (2, [True, True, False])])
def test_a_relative_that_many_hold_counts_where_a_skill_says_what_it_is_about(
    many: int, found: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skills_mcp.routing.inverted_index._MANY_DOCUMENTS", many)
    index, task = read(
        [
            IndexedDocument("", "", "kubernetes", "", ""),
            IndexedDocument("", "", "", "", "kubernetes"),
            IndexedDocument("", "", "", "", "ant"),
        ],
        "k8s",
    )

    explained = compute_coverage(task, PostingsLookup(index).find(task), len(index))

    assert (explained > 0).tolist() == found


@pytest.mark.parametrize("cells", [1, 2**18])
@pytest.mark.parametrize("silent_count", [0, 60])
def test_the_best_of_a_word_and_its_relatives_counts_once(
    cells: int, silent_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skills_mcp.routing.ranked_matcher._CELLS_PER_BATCH", cells)
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
    held = PostingsLookup(index).find(task)
    best = np.zeros((len(task.words), len(index)))
    places = np.arange(len(held.documents))
    for place, row in enumerate(held.find_rows(places).tolist()):
        its = held.terms[row], held.documents[place]
        best[its] = max(best[its], held.worth[place])
    expected = best.sum(axis=0) / task.whole

    assert compute_coverage(task, held, len(index)) == pytest.approx(expected)


@pytest.mark.parametrize("long", [0, 500])
@given(documents=DOCUMENTS, text=TEXTS)
def test_documents_are_found_in_the_rows_that_have_them(
    documents: list[IndexedDocument], text: str, long: int
) -> None:
    index, task = read(documents, text)
    held = PostingsLookup(index).find(task)
    wanted = np.arange(len(index))[::-2]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skills_mcp.routing.ranked_matcher._BINARY_SEARCH_LENGTH", long)
        places, which = held.find(wanted, len(index))

    assert wanted[which].tolist() == held.documents[places].tolist()
    assert sorted(places) == np.flatnonzero(np.isin(held.documents, wanted)).tolist()


@pytest.mark.parametrize("competitors, best", [(240, "x1 x1 x1 x1"), (3000, "ant bat cat")])
def test_among_thousands_most_words_decide_and_no_longer_the_rarest(
    competitors: int, best: str
) -> None:
    rows = [
        "ant bat cat",
        "x1 x1 x1 x1",
        *("ant", "bat", "cat") * (competitors // 3),
        *["x9"] * 3000,  # share no word with the task, and change nothing
    ]
    index, task = read([IndexedDocument("", "", row, "", "") for row in rows], "ant bat cat x1")

    explained = compute_coverage(task, PostingsLookup(index).find(task), len(index))

    assert rows[int(explained.argmax())] == best


@pytest.mark.parametrize("competitors, best", [(240, "body"), (3000, "description")])
@pytest.mark.parametrize("task", ["kubernetes", "k8s"])
def test_among_thousands_what_a_skill_says_of_itself_decides(
    competitors: int, best: str, task: str
) -> None:
    described = IndexedDocument("", "", "kubernetes", "", "")
    mentioned = IndexedDocument("", "", "", "", "kubernetes " * 3)
    others = [IndexedDocument("", "", "x1 x2 x3", "", "")] * competitors
    index, query = read([described, mentioned, *others], f"{task} x1 x2 x3")

    explained = compute_coverage(query, PostingsLookup(index).find(query), len(index))

    assert ("description", "body")[int(explained[:2].argmax())] == best
