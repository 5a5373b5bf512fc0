"""The parts of a report that people read, and the notes above it."""

from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.features.report.report_text import (
    RecordingState,
    derive_report_notes,
    describe_commit,
    describe_empty_report,
    describe_share,
    describe_unrecorded,
    fold_weeks,
    select_feedback,
    select_gaps,
    select_scripts,
)
from skills_mcp.features.report.usage_report import Answers, PeriodAnswers, Span, UsageReport
from tests.features.report.happenings import (
    NEW,
    aggregate,
    event,
    judged,
    missed,
    ran,
    torn,
)


def test_only_the_newest_commits_of_a_skill_and_of_a_script_are_shown() -> None:
    commits = [f"{n}" * 40 for n in range(1, 8)]
    report = aggregate(
        [
            *(judged("a", useful=False, day=n, commit=commits[n - 1]) for n in (1, 2)),
            *(judged("a", useful=True, day=n, commit=commits[n - 1]) for n in (3, 4, 5)),
            judged("b", useful=True),
            *(ran("a.sh", n, commit=commits[n - 1]) for n in range(1, 8)),
            ran("b.sh"),
        ]
    )

    feedback, scripts = select_feedback(report), select_scripts(report)

    assert [each.commit for each in feedback if each.skill == "a"] == commits[1:5]
    assert [each.skill for each in feedback][-1] == "b"
    assert [each.commit for each in scripts if each.file == "a.sh"] == commits[3:]


def test_tasks_without_recorded_text_are_counted_in_one_sentence() -> None:
    hashes = [missed(f"hmac-sha256:{n}") for n in (1, 2, 2)]
    report = aggregate([missed("bake a cake"), *hashes, missed("")])

    assert [gap.task for gap in select_gaps(report)] == ["bake a cake"]
    assert describe_unrecorded(report) == (
        "Unmatched tasks whose text was not recorded: 4. Different tasks: 2; most frequent: 2."
    )
    assert describe_unrecorded(aggregate([missed("")])).endswith("not recorded: 1.")
    assert describe_unrecorded(aggregate([missed("bake a cake")])) == ""


@given(st.lists(st.integers(0, 50), max_size=40))
def test_weeks_have_everything_that_their_days_had(served: list[int]) -> None:
    first = date(2026, 11, 1)
    days = [
        PeriodAnswers(first + timedelta(days=n), Answers(each, 1, 2), 3)
        for n, each in enumerate(served)
    ]

    weeks = fold_weeks(days)

    assert all(monday.weekday() == 0 for monday in weeks)
    assert sum(each.served for each in weeks.values()) == sum(served)
    assert sum(each.tasks for each in weeks.values()) == sum(served) + 3 * len(served)


def test_nothing_has_no_share_and_no_commit_is_a_dash() -> None:
    assert describe_share(0, 0) == describe_commit("") == "\N{EN DASH}"
    assert describe_commit(NEW) == "bbbbbbbb"


def notes(*events: object, without_skills: str = "") -> tuple[str, ...]:
    return derive_report_notes(aggregate(events), without_skills=without_skills)


def test_a_report_with_everything_needs_no_note() -> None:
    assert notes(missed("bake a cake")) == ()


@pytest.mark.parametrize(
    "event, words",
    [
        (missed("hmac-sha256:12"), "Set analytics.context: redacted"),
        (torn("", "a", "b"), "1 ambiguous or unmatched task"),
        (missed("x", person="dev"), "analytics.identity is none"),
        (event("events_dropped", count=1200), "Lost: 1,200 events."),
    ],
)
def test_what_is_missing_is_said_with_what_to_do(event: object, words: str) -> None:
    assert [words in note for note in notes(event)] == [True]


def test_lines_that_are_no_events_are_said() -> None:
    [note] = notes(None, 7, missed("x"))

    assert note.startswith("Left out: 2 lines")


def test_an_event_that_came_again_is_said() -> None:
    again = missed("x")

    assert notes(again, again) == ("Repeated: 1 event. Each counts once.",)


def test_an_empty_report_misses_nothing() -> None:
    assert notes(without_skills="Set SKILLS_REPO.") == ()


def test_without_skills_the_reason_is_said() -> None:
    [note] = notes(missed("x"), without_skills="Set SKILLS_REPO.")

    assert note.startswith("The skills could not be loaded")
    assert note.endswith("Set SKILLS_REPO.")


def empty(
    report: UsageReport, counting: RecordingState = "off", *, is_collected: bool = False
) -> str:
    settings = Path("/home/ada/config.yaml")
    return describe_empty_report(report, counting, settings, is_collected=is_collected)


def test_an_empty_record_says_how_to_turn_analytics_on() -> None:
    told = empty(aggregate([]))

    assert "Write into /home/ada/config.yaml" in told
    assert "analytics:\n  enabled: true\n  context: redacted" in told


def test_an_empty_record_with_analytics_on_says_that_they_are() -> None:
    assert "Analytics are on" in empty(aggregate([]), "on")


def test_who_is_not_to_be_tracked_gets_no_advice_that_leads_nowhere() -> None:
    said = empty(aggregate([]), "refused")

    assert said == "No event: DO_NOT_TRACK is set here, so nothing is recorded."


def test_files_without_events_say_so() -> None:
    assert empty(aggregate([]), is_collected=True) == "There is no event in these files."


def test_events_of_other_days_say_of_which() -> None:
    span = Span(date(2026, 11, 20), date(2026, 11, 30))
    report = aggregate([missed("x", 3), missed("x", 5)], span=span)

    said = empty(report, is_collected=True)

    assert "the newest of 2 events is from 2026-11-05" in said
    assert "--since" in said
