"""Which words are suggested for which skill."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.features.report.pick_evidence import (
    KnownTask,
    MissingWord,
    PickCounts,
    derive_missing_words,
)
from skills_mcp.library import Snapshot
from tests.packages import write_package
from tests.support import open_library, write_skill

ONCE = PickCounts(1, frozenset({"dev-ada"}), frozenset({date(2026, 11, 3)}))
NEVER = PickCounts(0, frozenset(), frozenset())


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    write_skill(tmp_path, "auth.md", keywords=["login"], description="Who signs in")
    write_skill(
        tmp_path,
        "forms.md",
        keywords=["form"],
        description="Fields",
        examples=["a kiosk shows a form", "the kiosk has no keyboard"],
    )
    for name in ("a", "b", "c"):
        write_skill(tmp_path, f"{name}.md", keywords=["deploy"])
    return open_library(tmp_path).view().snapshot


def known(task: str, *paths: str, counts: PickCounts = ONCE) -> KnownTask:
    return KnownTask(task, dict.fromkeys(paths, counts), ())


def suggest(
    snapshot: Snapshot, *tasks: KnownTask, settled: tuple[str, ...] = ()
) -> tuple[MissingWord, ...]:
    unsettled = {each.task for each in tasks} - set(settled)
    index, matcher = snapshot.index, snapshot.matcher
    return derive_missing_words(tasks, unsettled, index, matcher)


def words(*suggestions: MissingWord) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in suggestions:
        found.setdefault(each.skill, []).append(each.word)
    return found


def test_a_word_of_two_tasks_is_suggested_in_its_most_common_form(
    snapshot: Snapshot,
) -> None:
    tasks = (
        known("tickets of the gate", "auth"),
        known("print one ticket", "auth"),
        known("ticket without a code", "auth"),
    )

    [found] = suggest(snapshot, *tasks)

    assert (found.skill, found.word) == ("auth", "ticket")
    assert found.tasks == tuple(each.task for each in tasks)
    assert found.counts.picks == 3


@pytest.mark.parametrize(
    "first, second, why",
    [
        ("ticket of the gate", "print a badge", "no word is in both"),
        ("a login of a gate", "login at two doors", "it is a keyword"),
        ("it signs a badge", "signs too late", "it is in the description"),
        ("auth at a gate", "auth of a door", "it is the name"),
        ("please do it on monday", "monday is bad", "it is a common word"),
        ("a react gate", "react to a badge", "it is a technology"),
        ("db of the gate", "the db of a door", "it is too short"),
        ("gate 404 of badges", "404 at a door", "it is a number"),
        ("deploy a gate", "deploy the door", "many skills have it"),
        ("a kiosk at the gate", "kiosk beside a door", "examples of another have it"),
    ],
)
def test_a_word_is_not_suggested_if(snapshot: Snapshot, first: str, second: str, why: str) -> None:
    assert not suggest(snapshot, known(first, "auth"), known(second, "auth")), why


def test_a_word_belongs_to_the_skill_with_most_tasks(snapshot: Snapshot) -> None:
    two = known("ticket of the gate", "auth"), known("print one ticket", "auth")
    one = known("ticket in a field", "forms")

    more = suggest(snapshot, *two, one)
    as_many = suggest(snapshot, *two, one, known("another ticket", "forms"))

    assert words(*more) == {"auth": ["ticket"]}
    assert words(*as_many) == {}


def test_tasks_that_are_answered_need_no_word(snapshot: Snapshot) -> None:
    tasks = known("ticket of the gate", "auth"), known("print one ticket", "auth")
    every = tuple(each.task for each in tasks)

    assert not suggest(snapshot, *tasks, settled=every)
    assert suggest(snapshot, *tasks, settled=every[:1])


def test_only_picks_are_evidence_and_only_of_skills_that_are_served(
    snapshot: Snapshot,
) -> None:
    tasks = ("ticket of the gate", "print one ticket")

    assert not suggest(snapshot, *(known(t, "auth", counts=NEVER) for t in tasks))
    assert not suggest(snapshot, *(known(t, "gone/since") for t in tasks))


def test_the_strongest_evidence_comes_first(snapshot: Snapshot) -> None:
    found = suggest(
        snapshot,
        known("badge ticket", "auth"),
        known("print one ticket", "auth"),
        known("a badge for a ticket", "auth"),
    )

    assert [each.word for each in found] == ["ticket", "badge"]


def test_packages_are_looked_at_with_all_their_words(tmp_path: Path) -> None:
    fields: Mapping[str, Any] = {"description": "Fill in PDF forms."}
    write_package(tmp_path, "pdf-forms", **fields, metadata={"keywords": "customs"})
    snapshot = open_library(tmp_path).view().snapshot
    tasks = known("stamp customs forms", "pdf-forms"), known("stamp it", "pdf-forms")

    found = suggest(snapshot, *tasks)

    assert words(*found) == {"pdf-forms": ["stamp"]}
