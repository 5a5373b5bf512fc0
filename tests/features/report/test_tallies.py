"""Tasks, pairs of skills, skills, feedback and scripts are counted."""

from datetime import date
from typing import Any

import pytest

from skills_mcp.features.report.figure_queries import CurrentSkill, CurrentSkills
from skills_mcp.features.report.usage_report import UsageReport
from tests.features.report.happenings import (
    NEW,
    OLD,
    aggregate,
    event,
    judged,
    missed,
    ran,
    served,
    torn,
)

AUTH, FORMS, NEVER = (
    CurrentSkill(path, f"About {path}", ("word",)) for path in ("ui/auth", "ui/forms", "ui/never")
)
ABOVE = CurrentSkill("ui/_index", "Everything", (), is_above_others=True)
CURRENT = CurrentSkills((NEVER, AUTH, ABOVE, FORMS), lambda _: ())

FAILED: dict[str, Any] = {"success": False, "exit_code": 2}
LATE: dict[str, Any] = {"success": False, "exit_code": 137, "timed_out": True}
CANCELLED: dict[str, Any] = {"success": False, "exit_code": None}

REACT = ("ui/auth", "ui/react")


def test_a_skill_is_counted_with_how_it_was_reached() -> None:
    report = aggregate(
        [
            served("ui/auth", 3),
            served("ui/auth", 7, was_ambiguous=True),
            served("ui/auth", 5, unchanged=True),
            event("asset_served", 8, skill_path="ui/auth", file="a.txt"),
            served("ui/forms"),
        ],
        CURRENT,
    )

    first, second = report.skills
    assert (first.skill, first.served, first.picked, first.unchanged) == (
        *("ui/auth", 3),
        *(1, 1),
    )
    assert (first.files, first.last_seen) == (1, date(2026, 11, 8))
    assert (second.skill, second.served) == ("ui/forms", 1)


def test_a_skill_that_is_gone_says_so() -> None:
    events = [served("ui/old"), served("ui/auth"), served("ui/_index")]

    with_skills, without = aggregate(events, CURRENT), aggregate(events)

    assert {use.skill: use.is_offered for use in with_skills.skills} == {
        "ui/old": False,
        "ui/auth": True,
        "ui/_index": True,
    }
    assert {use.is_offered for use in without.skills} == {None}


def test_skills_that_were_never_served_are_named_with_their_keywords() -> None:
    report = aggregate(
        [
            served("ui/auth"),
            torn("x", "ui/auth", "ui/never"),
            event("asset_served", skill_path="ui/forms", file="a.txt"),
        ],
        CURRENT,
    )

    assert report.unserved is not None
    forms, never = report.unserved
    assert (forms.skill, forms.candidate) == ("ui/forms", 0)
    assert (never.skill, never.candidate) == ("ui/never", 1)
    assert (never.description, never.keywords) == ("About ui/never", ("word",))


def test_without_skills_it_is_unknown_what_was_never_served() -> None:
    assert aggregate([served("ui/auth")]).unserved is None


def test_feedback_is_told_commit_by_commit() -> None:
    report = aggregate(
        [
            judged("ui/forms", useful=True, day=9, commit=NEW),
            judged("ui/forms", useful=False, day=2, comment="Too old."),
            judged("ui/forms", useful=True, day=3),
            served("ui/forms", 4),
            served("ui/auth", 4),
            judged("ui/auth", useful=True, day=1),
        ]
    )

    old, new, auth = report.feedback
    assert (old.skill, old.commit, old.served) == ("ui/forms", OLD, 1)
    assert (old.useful, old.not_useful, old.comments) == (1, 1, ("Too old.",))
    assert (old.first_seen, old.last_seen) == (date(2026, 11, 2), date(2026, 11, 4))
    assert (new.commit, new.useful, new.not_useful) == (NEW, 1, 0)
    assert (auth.skill, auth.served, auth.useful) == ("ui/auth", 1, 1)


def test_complaints_come_first_each_once_and_not_all_of_them() -> None:
    events = [
        judged("a", useful=True, day=20, comment="Good."),
        *(judged("a", useful=False, day=n, comment=f"No {n}.") for n in range(1, 9)),
        judged("a", useful=False, day=10, comment="No 1."),
    ]

    [forward], [back] = aggregate(events).feedback, aggregate(reversed(events)).feedback

    assert forward.comments == ("No 1.", "No 8.", "No 7.", "No 6.", "No 5.")
    assert forward == back


def test_events_without_a_commit_stand_together() -> None:
    report = aggregate([judged("a", useful=True, commit=None)])

    assert [each.commit for each in report.feedback] == [""]
    assert report.releases == ()


def test_a_run_goes_well_fails_runs_out_of_time_or_is_cancelled() -> None:
    report = aggregate(
        [
            ran("a.sh", duration_ms=10),
            ran("a.sh", duration_ms=30, **FAILED),
            ran("a.sh", duration_ms=3000, **LATE),
            ran("a.sh", duration_ms=None, **CANCELLED),
        ]
    )

    [use] = report.scripts
    assert (use.skill, use.file, use.runs) == ("tools", "a.sh", 4)
    assert (use.failures, use.timeouts, use.cancelled) == (1, 1, 1)
    assert use.median_ms == 30


def test_a_script_whose_duration_is_not_told_has_none() -> None:
    [use] = aggregate([ran("a.sh", duration_ms="long")]).scripts

    assert use.median_ms is None


def breaks(report: UsageReport) -> list[str]:
    return [use.commit for use in report.scripts if use.is_broken_since]


def test_a_script_is_broken_since_the_commit_that_broke_it() -> None:
    report = aggregate(
        [
            ran("a.sh", 1, commit="first"),
            ran("a.sh", 3, commit="second", **FAILED),
            ran("a.sh", 3, commit="second"),
            ran("a.sh", 5, commit="third", **LATE),
            ran("a.sh", 5, commit="third", **CANCELLED),
            ran("b.sh", 5, commit="third"),
        ]
    )

    assert breaks(report) == ["second"]
    assert [(use.file, use.commit) for use in report.scripts] == [
        *(("a.sh", "first"), ("a.sh", "second"), ("a.sh", "third")),
        ("b.sh", "third"),
    ]


@pytest.mark.parametrize("newest", [{}, CANCELLED], ids=["went well again", "was only cancelled"])
def test_a_script_that_was_repaired_is_not_broken(newest: dict[str, Any]) -> None:
    report = aggregate([ran("a.sh", 1, **FAILED), ran("a.sh", 3, commit=NEW, **newest)])

    assert breaks(report) == []


def test_a_script_that_has_always_failed_is_broken_from_the_start() -> None:
    assert breaks(aggregate([ran("a.sh", 1, **FAILED)])) == [OLD]


def offering(**answers: list[str]) -> CurrentSkills:
    """Return skills that answer some tasks, by their first word."""
    return CurrentSkills((), lambda task: tuple(answers.get(task.split()[0], ())))


def test_tasks_of_the_same_words_are_one() -> None:
    report = aggregate(
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
    report = aggregate([missed("???"), missed("the"), missed("???")])

    assert [(gap.task, gap.count) for gap in report.gaps] == [("???", 2), ("the", 1)]


def test_a_gap_names_the_near_misses_of_its_newest_time() -> None:
    report = aggregate(
        [
            missed("bake a cake", 3, near=["new"]),
            missed("bake a cake", 2, near=["old"]),
            missed("post-mortem", 4, near=[]),
            missed("before near misses", 4),
        ]
    )

    assert {gap.task: gap.near for gap in report.gaps} == {
        "bake a cake": ("new",),
        "post-mortem": (),
        "before near misses": (),
    }


def test_who_takes_a_near_miss_asks_no_second_task() -> None:
    report = aggregate([missed("x", near=["a"]), served("a", was_near=True)])

    assert (report.answers.tasks, report.answers.no_match) == (1, 1)
    assert report.skills[0].served == 1


def test_a_gap_says_what_its_task_would_get_today() -> None:
    offer = offering(translate=["i18n"], deploy=["a", "b"])
    tasks = ["translate it", "deploy it", "bake it", "hmac-sha256:12"]

    report = aggregate(map(missed, tasks), offer)

    assert {gap.task: gap.today for gap in report.gaps} == {
        "translate it": ("i18n",),
        "deploy it": ("a", "b"),
        "bake it": (),
        "": None,
    }


def test_tasks_that_are_hashed_are_counted_without_words() -> None:
    report = aggregate([missed("hmac-sha256:12"), missed("hmac-sha256:12"), missed("")])

    [gap] = report.gaps
    assert (gap.task, gap.count) == ("", 2)
    assert report.answers.no_match == 3
    assert report.counts.untold_tasks == 3


def test_a_pair_counts_in_either_order() -> None:
    report = aggregate([torn("a page", *REACT), torn("pages", *reversed(REACT), day=9)])

    [pair] = report.rivalries
    assert (pair.skills, pair.count) == (REACT, 2)
    assert (pair.task, pair.last_seen) == ("pages", date(2026, 11, 9))
    assert pair.days == ((date(2026, 11, 1), 1), (date(2026, 11, 9), 1))


def test_three_candidates_are_three_pairs_and_one_twice_is_none() -> None:
    report = aggregate([torn("x", "a", "b", "c"), torn("y", "a", "a")])

    assert [pair.skills for pair in report.rivalries] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
    ]


def test_the_keywords_of_a_pair_are_those_that_both_matched_by() -> None:
    words = [["react", "auth"], ["auth"]]
    more = [["auth", "page"], ["page", "auth"]]

    report = aggregate(
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


def test_a_pick_counts_for_the_person_who_asked() -> None:
    pick: dict[str, Any] = {"was_ambiguous": True, "context": "a page"}

    report = aggregate(
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


def test_picks_are_unknown_where_tasks_are_not_recorded() -> None:
    report = aggregate([torn("", *REACT), served("ui/auth", context="", was_ambiguous=True)])

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
    report = aggregate([torn("login page", *REACT)], offering(login=answer))

    assert report.rivalries[0].is_still is is_still


def test_without_skills_it_is_unknown_whether_a_pair_is_still_ambiguous() -> None:
    assert aggregate([torn("login page", *REACT)]).rivalries[0].is_still is None
