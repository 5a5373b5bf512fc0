"""Events become a report, in any order."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.month import LAST_DAY, simulate
from skills_mcp.features.report.figure_queries import derive_current_skills
from skills_mcp.features.report.usage_report import Answers, Span, UsageReport
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
from tests.support import SKILLS_CONTENT, open_library, write_skill

PAIR = ("ui/auth", "ui/react")

EVENTS: tuple[dict[str, Any], ...] = (
    served("ui/auth", 3, commit=NEW),
    served("ui/auth", 3, was_ambiguous=True, context="a page"),
    served("ui/forms", 30, hour=23.9, person="dev-grace"),
    torn("a page", *PAIR, day=3, matched_keywords=[["auth"], ["auth"]]),
    torn("a page", *PAIR, day=5, person="dev-grace"),
    missed("bake a cake", 2),
    missed("cake: bake!", 4, person="dev-grace"),
    judged("ui/auth", useful=False, day=3, comment="No."),
    judged("ui/auth", useful=True, day=4, commit=NEW, comment="Yes."),
    ran("a.sh", 3),
    ran("a.sh", 4, success=False, exit_code=1, commit=NEW, duration_ms=20),
    event("asset_served", 3, skill_path="ui/auth", file="x"),
    event("refresh", 4, success=False),
    event("refresh", 4, success=True),
    event("events_dropped", 6, count=17),
)


def test_everything_is_counted_once() -> None:
    report = aggregate(EVENTS)

    assert report.counts.events == len(EVENTS)
    assert report.answers == Answers(served=2, ambiguous=2, no_match=2)
    assert report.people == 2
    assert (report.refreshes.count, report.refreshes.failures) == (2, 1)
    assert report.counts.dropped == 17
    assert report.counts.newest == date(2026, 11, 30)


def test_answers_stand_on_their_day_from_the_first_one_on() -> None:
    report = aggregate(EVENTS)

    days = {each.start.day: each for each in report.periods if each.answers.tasks}
    assert report.period == "day"
    assert [report.periods[0].start.day, report.periods[-1].start.day] == [2, 30]
    assert {day: each.answers for day, each in days.items()} == {
        2: Answers(0, 0, 1),
        3: Answers(1, 1, 0),
        4: Answers(0, 0, 1),
        5: Answers(0, 1, 0),
        30: Answers(1, 0, 0),
    }
    assert {day: each.people for day, each in days.items()} == {
        **dict.fromkeys((2, 3, 5, 30), 1),
        4: 2,
    }


def test_commits_stand_in_the_order_in_which_they_came() -> None:
    releases = aggregate(EVENTS).releases

    assert [(each.commit, each.first_seen.day) for each in releases] == [
        (OLD, 2),
        (NEW, 3),
    ]


@given(st.permutations(EVENTS))
def test_the_order_of_events_does_not_matter(
    shuffled: Sequence[dict[str, Any]],
) -> None:
    assert aggregate(shuffled) == aggregate(EVENTS)


@given(st.lists(st.sampled_from(EVENTS)))
def test_an_event_that_comes_again_does_not_count(
    again: list[dict[str, Any]],
) -> None:
    once, twice = aggregate(EVENTS), aggregate([*EVENTS, *again])

    assert twice.counts.repeated == len(again)
    assert _without_counts(twice) == _without_counts(once)


def test_an_event_without_an_identifier_is_known_by_everything_in_it() -> None:
    plain = {k: v for k, v in missed("bake a cake").items() if k != "event_id"}

    report = aggregate([plain, dict(plain), {**plain, "server_id": "dev-grace"}])

    assert (report.answers.no_match, report.counts.repeated) == (2, 1)


def test_an_event_that_is_nested_too_deep_to_be_known_hides_no_other() -> None:
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    plain = {k: v for k, v in missed("x", more=deep).items() if k != "event_id"}

    report = aggregate([plain, plain, *EVENTS])

    assert report.counts.events == 1 + len(EVENTS)


def test_what_is_no_event_is_counted_and_hides_nothing() -> None:
    garbage = [None, 7, {"type": "new"}, {**missed("x"), "timestamp": "?"}]

    report = aggregate([*garbage, *EVENTS])

    assert report.counts.unreadable == 4
    assert report.counts.events == len(EVENTS)


def test_other_days_are_left_out() -> None:
    span = Span(date(2026, 11, 3), date(2026, 11, 4))

    report = aggregate(EVENTS, span=span)

    inside = [e for e in EVENTS if e["timestamp"][8:10] in {"03", "04"}]
    assert (report.since, report.until) == (span.first, span.last)
    assert report.counts.events == len(inside)
    assert report.counts.outside == len(EVENTS) - len(inside)
    assert [each.start.day for each in report.periods] == [3, 4]


def test_an_empty_record_is_an_empty_report() -> None:
    report = aggregate([])

    assert (report.counts.events, report.counts.newest) == (0, None)
    assert report.periods == ()
    assert report.answers.tasks == 0


@pytest.mark.parametrize("person", ["", "dev"])
def test_anonymous_events_count_no_people(person: str) -> None:
    assert aggregate([missed("x", person=person)]).people == 0


def test_a_month_is_told_apart_as_it_was_made_up() -> None:
    events = simulate()
    kinds = [each["type"] for each in events]

    report = aggregate(events, span=Span(date(2026, 10, 24), LAST_DAY))

    picked = sum(each["data"].get("was_ambiguous") is True for each in events)
    assert report.counts.events == len(events) >= 5_000
    assert report.answers == Answers(
        kinds.count("skill_served") - picked,
        kinds.count("ambiguous"),
        kinds.count("no_match"),
    )
    [broken] = [use for use in report.scripts if use.is_broken_since]
    assert (broken.file, broken.commit) == (
        "scripts/check-migration.sh",
        report.releases[-1].commit,
    )
    gone = next(each for each in report.rivalries if "api/go/timeouts" in each.skills)
    assert gone.last_seen < report.releases[1].first_seen


def _without_counts(report: UsageReport) -> tuple[object, ...]:
    names = (name for name in UsageReport.__slots__ if name != "counts")
    return tuple(getattr(report, name) for name in names)


def test_the_skills_of_the_content_are_what_could_have_been_served() -> None:
    offer = derive_current_skills(open_library(SKILLS_CONTENT).view().snapshot)

    report = aggregate([served("ui/react/auth"), served("ui/react/_index")], offer)

    assert report.unserved is not None
    paths = [each.skill for each in report.unserved]
    assert "api/pagination" in paths
    assert "ui/react/auth" not in paths
    assert not [path for path in paths if path.rpartition("/")[2].startswith("_")]
    assert {use.is_offered for use in report.skills} == {True}


def test_a_task_gets_today_what_get_skill_would_give_it() -> None:
    offer = derive_current_skills(open_library(SKILLS_CONTENT).view().snapshot)
    tasks = ["bake a cake", "write a database migration", "fix the auth"]

    report = aggregate(
        [*map(missed, tasks), torn("fix the auth", "api/auth", "ui/react/auth")], offer
    )

    assert {gap.task: gap.today for gap in report.gaps} == {
        "bake a cake": (),
        "write a database migration": ("data/postgres/migrations",),
        "fix the auth": ("api/auth", "ui/react/auth"),
    }
    assert [pair.is_still for pair in report.rivalries] == [True]


def test_what_a_skill_says_of_itself_is_fit_to_show(tmp_path: Path) -> None:
    hostile = "Red \x1b[31m\u202e text"
    write_skill(tmp_path, "a.md", description=hostile, keywords=["one", "two"])

    [skill] = derive_current_skills(open_library(tmp_path).view().snapshot).skills

    assert (skill.path, skill.keywords) == ("a", ("one", "two"))
    assert "\x1b" not in skill.description
    assert "\u202e" not in skill.description


def test_tokens_are_counted_by_skill_and_by_period() -> None:
    report = aggregate(
        [served("pdf", 1, tokens=1200), served("pdf", 2, tokens=40), served("ci", 2)]
    )

    assert {use.skill: use.tokens for use in report.skills} == {"pdf": 1240, "ci": 0}
    assert [period.tokens for period in report.periods if period.tokens] == [1200, 40]
