"""Reminders after a compaction: what they say, what they leave out, and for which window."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.features.hosts.prompt_socket import (
    MAX_REMINDER_BYTES,
    HookedSession,
    SkillReminder,
    compose_reminder,
    find_session,
)
from skills_mcp.library import SkillLibrary
from skills_mcp.server.parts import Window
from skills_mcp.skills.composition import Outline
from skills_mcp.skills.model import SkillPath

texts = st.lists(st.text(min_size=1, max_size=200), max_size=40).map(tuple)
reminders = st.lists(
    st.builds(
        SkillReminder,
        st.text(min_size=1, max_size=60).map(SkillPath),
        st.just("0123456789abcdef"),
        st.builds(Outline, st.just(()), texts, texts),
    ),
    max_size=20,
    unique_by=lambda reminder: reminder.skill_path,
)


def a_reminder(path: str, own: tuple[str, ...], inherited: tuple[str, ...] = ()) -> SkillReminder:
    return SkillReminder(SkillPath(path), "0123456789abcdef", Outline((), own, inherited))


@given(reminders)
def test_a_reminder_keeps_its_limit(reminders: list[SkillReminder]) -> None:
    assert len(compose_reminder(reminders, has_core=True).encode()) <= MAX_REMINDER_BYTES


def test_a_reminder_names_each_skill_with_its_lines_and_the_call() -> None:
    newest = a_reminder("ui/auth", ("Never log a token.",), ("You must test.",))
    oldest = a_reminder("api/auth", ("Do not trust a header.",), ("You must test.",))

    *lines, call = compose_reminder([newest, oldest], has_core=True).splitlines()

    assert lines == [
        "Skills of this session, compacted away. Keep following them.",
        "ui/auth (digest 0123456789abcdef):",
        "- Never log a token.",
        "api/auth (digest 0123456789abcdef):",
        "- Do not trust a header.",
        "Inherited:",
        "- You must test.",
    ]
    assert "get_skill with the task and skill_path" in call


def test_inherited_lines_go_first_and_then_those_of_the_oldest_skill() -> None:
    def lines(name: str, count: int) -> tuple[str, ...]:
        return tuple(f"Never {name} {number} {'x' * 80}" for number in range(count))

    newest = a_reminder("new", lines("mine", 4), lines("inherited", 4))
    oldest = a_reminder("old", lines("older", 9))

    reminder = compose_reminder([newest, oldest], has_core=True)

    assert [reminder.count(word) for word in ("mine", "older", "inherited")] == [4, 3, 0]
    assert "old (digest" in reminder
    assert "And 11 more must-lines." in reminder


def a_session(number: int, folder: Path, **environment: str) -> HookedSession:
    # Only what is found by is looked at.
    library = cast("SkillLibrary", None)
    window = Window(library=library, process_id=number, folder=folder, environment=environment)
    return HookedSession(window)


def test_the_window_of_a_hook_is_found_by_identifier_then_by_project_and_process(
    tmp_path: Path,
) -> None:
    gone = 2**22 + 1  # no system gives such a number
    named = a_session(gone, tmp_path / "a", CLAUDE_CODE_SESSION_ID="one")
    ours = a_session(os.getpid(), tmp_path / "b")
    other = a_session(gone, tmp_path / "b")
    alone = a_session(gone, tmp_path / "c")
    sessions = [named, ours, other, alone]

    def find(identifier: str, folder: str) -> HookedSession | None:
        return find_session(sessions, identifier, os.getpid(), str(tmp_path / folder))

    assert find("one", "b") is named
    assert find("two", "b") is ours  # of two, the one with the same parent
    assert find("two", "c") is alone
    assert find("two", "d") is None


class _Library:
    """What a session asks its library."""

    def __init__(self) -> None:
        self.forgotten = 0

    def forget_served(self) -> None:
        self.forgotten += 1


def test_another_conversation_in_a_window_has_no_skills_yet(tmp_path: Path) -> None:
    library: Any = _Library()
    variables: Mapping[str, str] = {}
    session = HookedSession(
        Window(library=library, process_id=1, folder=tmp_path, environment=variables)
    )

    for identifier in ("one", "one", "", "two"):
        session.follow(identifier)

    assert library.forgotten == 1
