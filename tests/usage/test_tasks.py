from datetime import date
from typing import Any

import pytest

from skills_mcp.usage import Offer
from tests.usage.happenings import missed, reckon, served, torn

REACT = ("ui/auth", "ui/react")


def offering(**answers: list[str]) -> Offer:
    """Return skills that answer some tasks, by their first word."""
    return Offer((), lambda task: tuple(answers.get(task.split()[0], ())))


def test_tasks_of_the_same_words_are_one() -> None:
    report = reckon(
        [
            missed("Translate the page into German", 3),
            missed("into German: translate the page!", 5, person="dev-grace"),
            missed("translate the page into GERMAN", 4),
            missed("bake a cake", 9),
        ]
    )

    first, second = report.gaps
    assert (first.task, first.count, first.people) == (
        "into German: translate the page!",
        3,
        2,
    )
    assert first.last_seen == date(2026, 11, 5)
    assert (second.task, second.count) == ("bake a cake", 1)


def test_tasks_without_any_word_are_told_apart() -> None:
    report = reckon([missed("???"), missed("the"), missed("???")])

    assert [(gap.task, gap.count) for gap in report.gaps] == [("???", 2), ("the", 1)]


def test_a_gap_says_what_its_task_would_get_today() -> None:
    offer = offering(translate=["i18n"], deploy=["a", "b"])
    tasks = ["translate it", "deploy it", "bake it", "hmac-sha256:12"]

    report = reckon(map(missed, tasks), offer)

    assert {gap.task: gap.today for gap in report.gaps} == {
        "translate it": ("i18n",),
        "deploy it": ("a", "b"),
        "bake it": (),
        "": None,
    }


def test_tasks_that_are_hashed_are_counted_without_words() -> None:
    report = reckon([missed("hmac-sha256:12"), missed("hmac-sha256:12"), missed("")])

    [gap] = report.gaps
    assert (gap.task, gap.count) == ("", 2)
    assert report.answers.no_match == 3
    assert report.counts.untold_tasks == 3


def test_a_pair_counts_whatever_comes_first() -> None:
    report = reckon([torn("a page", *REACT), torn("pages", *reversed(REACT), day=9)])

    [pair] = report.rivalries
    assert (pair.skills, pair.count) == (REACT, 2)
    assert (pair.task, pair.last_seen) == ("pages", date(2026, 11, 9))
    assert pair.days == ((date(2026, 11, 1), 1), (date(2026, 11, 9), 1))


def test_three_candidates_are_three_pairs_and_one_twice_is_none() -> None:
    report = reckon([torn("x", "a", "b", "c"), torn("y", "a", "a")])

    assert [pair.skills for pair in report.rivalries] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
    ]


def test_the_keywords_of_a_pair_are_those_that_both_matched_by() -> None:
    words = [["react", "auth"], ["auth"]]
    more = [["auth", "page"], ["page", "auth"]]

    report = reckon(
        [
            torn("x", *REACT, matched_keywords=words),
            torn("y", *REACT, matched_keywords=more),
            torn("z", *REACT, matched_keywords=[["react"]]),
            torn("z", *REACT),
        ]
    )

    [pair] = report.rivalries
    shared = [(each.keyword, each.count) for each in pair.keywords]
    assert shared == [("auth", 2), ("page", 1)]


def test_what_was_taken_counts_for_whoever_had_asked() -> None:
    pick: dict[str, Any] = {"was_ambiguous": True, "context": "a page"}

    report = reckon(
        [
            served("ui/auth", **pick),  # the order of events does not matter
            torn("a page", *REACT),
            torn("a page", *REACT, person="dev-grace"),
            served("ui/react", **pick, person="dev-grace"),
            torn("a page", *REACT, person="dev-edsger"),
            served("ui/auth", context="another", was_ambiguous=True),
        ]
    )

    [pair] = report.rivalries
    assert (pair.count, pair.picks) == (3, (1, 1))


def test_what_was_taken_is_not_known_where_tasks_are_left_out() -> None:
    report = reckon(
        [torn("", *REACT), served("ui/auth", context="", was_ambiguous=True)]
    )

    [pair] = report.rivalries
    assert pair.picks is None
    assert pair.task == ""


@pytest.mark.parametrize(
    "answer, is_still",
    [(["ui/auth", "ui/react"], True), (["ui/auth"], False), ([], False)],
)
def test_a_pair_says_whether_its_newest_task_is_still_ambiguous(
    answer: list[str], is_still: object
) -> None:
    report = reckon([torn("login page", *REACT)], offering(login=answer))

    assert report.rivalries[0].is_still is is_still


def test_without_skills_nobody_knows_whether_a_pair_is_still_ambiguous() -> None:
    assert reckon([torn("login page", *REACT)]).rivalries[0].is_still is None
