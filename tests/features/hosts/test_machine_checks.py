"""What a machine lacks is said in plain words, with a command."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from skills_mcp.features.hosts.commands.doctor import (
    check_clock,
    check_disk,
    check_sandbox,
)
from skills_mcp.library import Choice

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_disk_without_room_is_found(tmp_path: Path) -> None:
    full = check_disk(tmp_path / "not" / "yet", needed_bytes=10**18)
    empty = check_disk(tmp_path, needed_bytes=1)

    assert not full.is_ok
    assert "SKILLS_MCP_HOME" in full.fix
    assert empty.is_ok


REFUSED = Choice("none", refusal="This machine has no sandbox that works.")


@pytest.mark.parametrize(
    "choice, is_ok, said",
    [
        (Choice("bubblewrap"), True, "Scripts run in bubblewrap"),
        (Choice("limits", ("no bwrap",)), False, "NOT confined"),
        (Choice("limits", ("no bwrap",)), False, "(no bwrap)"),
        (Choice("none"), True, "scripts.sandbox is off"),
        (REFUSED, False, "No script runs"),
        (None, True, "it is off"),
    ],
)
def test_a_script_that_is_not_confined_is_said_to_be(
    choice: Choice | None,
    is_ok: bool,  # noqa: FBT001
    said: str,
) -> None:
    found = check_sandbox(choice)

    assert found.is_ok is is_ok
    assert said in found.message
    assert bool(found.fix) is not is_ok


@pytest.mark.parametrize(
    "minutes, is_ok, said",
    [(1, True, "agrees"), (-9, False, "540 s behind"), (9, False, "540 s ahead of")],
)
def test_a_clock_is_compared_with_that_of_the_remote(
    minutes: int,
    is_ok: bool,  # noqa: FBT001
    said: str,
) -> None:
    found = check_clock(NOON, NOON + timedelta(minutes=minutes))

    assert found.is_ok is is_ok
    assert said in found.message
