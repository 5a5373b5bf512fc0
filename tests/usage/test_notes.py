from datetime import date

import pytest

from skills_mcp.usage import Counting, Report, Span, derive_notes, describe_emptiness
from tests.usage.happenings import event, missed, reckon, torn


def notes(*events: object, without_skills: str = "") -> tuple[str, ...]:
    return derive_notes(reckon(events), without_skills=without_skills)


def test_a_report_with_everything_needs_no_note() -> None:
    assert notes(missed("bake a cake")) == ()


@pytest.mark.parametrize(
    "event, words",
    [
        (missed("hmac-sha256:12"), "Set it to redacted"),
        (torn("", "a", "b"), "1 task without a clear answer"),
        (missed("x", person="dev"), "analytics.identity is none"),
        (event("events_dropped", count=1200), "1,200 events were lost"),
    ],
)
def test_what_is_missing_is_said_with_what_to_do(event: object, words: str) -> None:
    assert [words in note for note in notes(event)] == [True]


def test_lines_that_are_no_events_are_said() -> None:
    [note] = notes(None, 7, missed("x"))

    assert note.startswith("2 lines left out")


def test_an_event_that_came_again_is_said() -> None:
    again = missed("x")

    assert notes(again, again) == ("1 event came again; each counts once.",)


def test_an_empty_report_misses_nothing() -> None:
    assert notes(without_skills="Set SKILLS_REPO.") == ()


def test_without_skills_the_reason_is_said() -> None:
    [note] = notes(missed("x"), without_skills="Set SKILLS_REPO.")

    assert note.startswith("Without the skills")
    assert note.endswith("Set SKILLS_REPO.")


def empty(
    report: Report, counting: Counting = "off", *, is_collected: bool = False
) -> str:
    return describe_emptiness(report, counting, is_collected=is_collected)


def test_an_empty_record_says_how_to_turn_analytics_on() -> None:
    assert "analytics:\n  enabled: true\n  context: redacted" in empty(reckon([]))


def test_an_empty_record_with_analytics_on_says_that_they_are() -> None:
    assert "Analytics are on" in empty(reckon([]), "on")


def test_who_is_not_to_be_tracked_gets_no_advice_that_leads_nowhere() -> None:
    said = empty(reckon([]), "refused")

    assert said == "No event: DO_NOT_TRACK is set here, so nothing is counted."


def test_files_without_events_say_so() -> None:
    assert empty(reckon([]), is_collected=True) == "There is no event in these files."


def test_events_of_other_days_say_of_which() -> None:
    span = Span(date(2026, 11, 20), date(2026, 11, 30))
    report = reckon([missed("x", 3), missed("x", 5)], span=span)

    said = empty(report, is_collected=True)

    assert "the newest of 2 events is of 2026-11-05" in said
    assert "--since" in said
