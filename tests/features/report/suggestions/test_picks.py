"""What a record of picks and feedback says about tasks."""

from typing import Any

import pytest

from skills_mcp.features.report.pick_evidence import (
    SESSION_HOURS,
    PickRecord,
    PickTally,
)
from tests.features.report.happenings import SPAN, judged, missed, served, torn

TASK = "check the grant of a partner"


def picked(task: str, path: str, day: int = 3, **more: Any) -> dict[str, Any]:
    """Return an event of a skill that was picked from a list."""
    return served(
        path,
        day,
        **{"context": task, "was_ambiguous": True, "was_picked": True, **more},
    )


def derive(*events: object, hide: Any = str) -> PickRecord:
    tally = PickTally(SPAN, hide)
    for each in events:
        tally.add(each)
    return tally.derive()


def test_a_pick_from_a_list_is_right_for_its_task() -> None:
    record = derive(torn(TASK, "a", "b", day=3), picked(TASK, "a"))

    [known] = record.tasks
    assert (known.task, [*known.right], known.wrong) == (TASK, ["a"], ())
    assert (record.picks, record.unreadable) == (1, 0)


def test_a_pick_from_near_misses_is_as_good() -> None:
    near = picked(TASK, "a", was_ambiguous=False, was_near=True)

    record = derive(missed(TASK, 3, near=["a"]), near)

    assert [*record.tasks[0].right] == ["a"]


def test_a_skill_that_was_named_from_no_list_is_right_only_if_it_helped() -> None:
    named = picked(TASK, "a", was_ambiguous=False, hour=9)

    silent = derive(named)
    helped = derive(named, judged("a", useful=True, day=3, hour=10))

    assert (silent.tasks, silent.answered, silent.picks) == ((), (), 0)
    assert helped.tasks[0].right["a"].picks == 1


@pytest.mark.parametrize(
    "hours, is_right", [(0.5, False), (SESSION_HOURS, False), (SESSION_HOURS + 1, True)]
)
def test_bad_feedback_of_the_same_session_says_that_it_was_wrong(
    hours: float,
    is_right: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    record = derive(picked(TASK, "a", hour=9), judged("a", useful=False, day=3, hour=9 + hours))

    [known] = record.tasks
    assert ("a" in known.right, known.wrong) == (is_right, () if is_right else ("a",))


def test_feedback_of_another_person_or_skill_or_before_says_nothing() -> None:
    record = derive(
        judged("a", useful=False, day=3, hour=8),
        picked(TASK, "a", hour=9),
        judged("a", useful=False, day=3, hour=10, person="dev-bob"),
        judged("b", useful=False, day=3, hour=10),
    )

    assert [*record.tasks[0].right] == ["a"]


def test_feedback_is_about_what_was_handed_out_last() -> None:
    record = derive(
        picked(TASK, "a", hour=9),
        served("a", 3, context="another task", hour=10),
        judged("a", useful=False, day=3, hour=11),
    )

    wrong = {each.task: each.wrong for each in record.tasks}
    assert wrong == {TASK: (), "another task": ("a",)}


def test_a_single_answer_that_helped_is_right_but_no_evidence() -> None:
    record = derive(served("a", 3, context=TASK, hour=9), judged("a", useful=True, day=3, hour=10))

    assert record.tasks[0].right["a"].picks == 0
    assert record.answered == ()


def test_a_single_answer_without_feedback_is_kept_apart() -> None:
    record = derive(*(served("a", day, context=TASK) for day in (3, 4)))

    [answered] = record.answered
    assert (answered.task, answered.skill, answered.count) == (TASK, "a", 2)
    assert record.tasks == ()


def test_a_task_is_the_same_in_any_order_of_its_words() -> None:
    record = derive(
        picked("check the grant", "a", 3, person="dev-ada"),
        picked("grant: check!", "a", 4, person="dev-bob"),
        picked("grant: check!", "a", 4, person="dev-bob", hour=13),
    )

    [known] = record.tasks
    counts = known.right["a"]
    assert known.task == "grant: check!"
    assert (counts.picks, len(counts.people), len(counts.days)) == (2, 2, 2)


def test_the_skill_that_was_picked_most_often_is_the_first() -> None:
    record = derive(picked(TASK, "a", 3), *(picked(TASK, "b", day) for day in (3, 4, 5)))

    assert [*record.tasks[0].right] == ["b", "a"]


def test_a_hash_or_nothing_is_counted_as_unreadable() -> None:
    record = derive(
        torn("hmac-sha256:00", "a", "b", day=3),
        picked("hmac-sha256:00", "a"),
        picked("", "a", 4),
        picked(None, "a", 5),  # type: ignore[arg-type]
    )

    assert (record.tasks, record.picks, record.unreadable) == ((), 3, 3)
    assert record.rivalries[0].skills == ("a", "b")
    assert record.rivalries[0].picks == (1, 0)


def test_what_may_not_be_shown_is_hidden_before_anything_else() -> None:
    record = derive(
        picked("log in\nas ada", "a"),
        hide=lambda text: text.replace("\nas ada", " ***"),
    )

    assert record.tasks[0].task == "log in ***"


def test_control_characters_and_lines_are_taken_out() -> None:
    record = derive(picked("log\nin \x1b[31mnow", "a"))

    assert record.tasks[0].task == "log in �[31mnow"


def test_events_of_other_days_and_repetitions_do_not_count() -> None:
    once = picked(TASK, "a")
    other = {**picked("late", "a"), "timestamp": "2026-12-01T00:00:00Z"}

    record = derive(once, once, other, {"type": "nonsense"}, None)

    assert (len(record.tasks), record.picks) == (1, 1)


def test_the_order_of_the_events_does_not_matter() -> None:
    events = [
        torn(TASK, "a", "b", day=3),
        picked(TASK, "a", hour=9),
        picked(TASK, "b", hour=11, person="dev-bob"),
        judged("b", useful=False, day=3, hour=12, person="dev-bob"),
        served("c", 3, context="another task"),
        picked("another task", "a", 4),
    ]
    mixed = [*events[3:], *reversed(events[:3])]

    assert derive(*mixed) == derive(*events)
