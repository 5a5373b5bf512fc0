"""Which recorded tasks are tried again, and which become examples."""

from datetime import date
from pathlib import Path

import pytest

from skills_mcp.features.report.pick_evidence import (
    AnsweredTask,
    KnownTask,
    MissingWord,
    PickCounts,
    PickRecord,
)
from skills_mcp.features.report.skill_additions import (
    AcceptedAddition,
    WordAddition,
)
from skills_mcp.features.report.suggestion_review import (
    collect_answered,
    collect_known,
    derive_origin,
    find_example_tasks,
)
from skills_mcp.library import Snapshot
from skills_mcp.text.redaction import REDACTED
from tests.support import open_library, write_skill

EXAMPLE = "a login page"


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    write_skill(tmp_path, "api.md", keywords=["auth", "api"])
    write_skill(tmp_path, "web.md", keywords=["auth", "login"], examples=[EXAMPLE])
    return open_library(tmp_path).view().snapshot


def counts(picks: int = 1) -> PickCounts:
    days = frozenset(date(2026, 11, day) for day in range(1, picks + 1))
    return PickCounts(picks, frozenset({"dev-ada"}), days)


def known(task: str, *wrong: str, **right: int) -> KnownTask:
    picked = {path: counts(number) for path, number in right.items()}
    return KnownTask(task, picked, wrong)


def record(*tasks: KnownTask, answered: tuple[AnsweredTask, ...] = ()) -> PickRecord:
    return PickRecord(tasks=tasks, answered=answered, picks=0, unreadable=0, rivalries=())


def test_what_an_author_says_of_a_task_counts_more_than_picks(
    snapshot: Snapshot,
) -> None:
    found = collect_known(snapshot.index, record(known(EXAMPLE, api=9)))

    assert [(each.query, each.expect) for each in found] == [(EXAMPLE, ("web",))]
    assert derive_origin(found[0]) == "library"


def test_a_skill_that_is_picked_a_quarter_as_often_is_right_as_well(
    snapshot: Snapshot,
) -> None:
    tasks = known("auth one", web=8, api=1), known("auth two", web=8, api=3)

    _, one, two = collect_known(snapshot.index, record(*tasks))

    assert (one.is_ambiguous, two.is_ambiguous) == (False, True)
    assert derive_origin(one) == "picked"


def test_a_task_is_left_out_if_none_of_its_skills_is_served(
    snapshot: Snapshot,
) -> None:
    tasks = known("auth", gone=2), known("sso", "gone"), known("auth sso", "api")

    _, *found = collect_known(snapshot.index, record(*tasks))

    assert [(each.query, each.avoid) for each in found] == [("auth sso", ("api",))]


def test_only_what_has_its_answer_now_can_lose_it(snapshot: Snapshot) -> None:
    answered = AnsweredTask("the login", "web", 2), AnsweredTask("auth", "web", 1)

    found = collect_answered(snapshot, record(answered=answered))

    assert [each.query for each in found] == ["the login"]
    assert derive_origin(found[0]) == "answered"


def test_examples_show_a_new_word_or_are_frequent(snapshot: Snapshot) -> None:
    tasks = (
        known("auth at the kiosk", web=1),
        known("auth of a badge", web=1),
        known("auth of visitors", web=2),
    )
    words = [
        MissingWord("web", word, (task.task,), counts())
        for word, task in zip(("kiosk", "badge"), tasks, strict=False)
    ]
    kept = [AcceptedAddition(WordAddition("web", ("kiosk",)), ())]

    found = find_example_tasks(snapshot.index, record(*tasks), words, kept)

    assert [each.task for each in found] == ["auth at the kiosk", "auth of visitors"]


@pytest.mark.parametrize("task", [EXAMPLE, "auth " * 41, f"auth with {REDACTED}"])
def test_what_is_known_long_or_private_is_no_example(snapshot: Snapshot, task: str) -> None:
    tasks = record(known(task, web=5))

    assert [*find_example_tasks(snapshot.index, tasks, [], [])] == []
