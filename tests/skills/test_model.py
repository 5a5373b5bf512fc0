"""The values that everything else speaks of."""

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.skills.inheritance import (
    LocatedEntry,
    find_in_lineage,
    find_script_in_lineage,
)
from skills_mcp.skills.model import (
    Argument,
    Asset,
    Problem,
    ProblemList,
    Script,
    escape_unprintable,
)
from skills_mcp.skills.skill_index import SkillIndex
from tests.support import make_skill

ASSET = Asset("x.sh", "as a text", "other")
SCRIPT = Script("x.sh", "as a program", "server", (Argument("name", "", required=True),))


@pytest.mark.spec("7.5")
def test_a_file_that_is_asset_and_script_is_found_as_what_is_looked_for() -> None:
    skill = make_skill("a", assets=(ASSET,), scripts=(SCRIPT,))
    index = SkillIndex([skill])

    assert find_in_lineage(index, skill, "x.sh") == LocatedEntry(ASSET, skill, None)
    assert find_script_in_lineage(index, skill, "x.sh") == LocatedEntry(SCRIPT, skill, None)


@pytest.mark.parametrize("file", ["X.sh", "./x.sh", "x", "", "dir/x.sh"])
def test_only_the_exact_name_is_found(file: str) -> None:
    skill = make_skill("a", assets=(ASSET,))

    assert find_in_lineage(SkillIndex([skill]), skill, file) is None


def test_a_problem_reads_as_one_line() -> None:
    problem = Problem("ui/react.md", "has no keywords", "write a list")

    assert str(problem) == "ui/react.md: has no keywords (write a list)"
    assert problem.level == "error"


def test_a_skill_never_changes() -> None:
    skill = make_skill("a")

    with pytest.raises(FrozenInstanceError):
        skill.priority = 9  # type: ignore[misc]


def test_problems_are_kept_in_the_order_in_which_they_were_found() -> None:
    report = ProblemList("a.md")
    report.lines = {"priority": 4}

    report.warn("priority-type", "has a priority", "write a number", key="priority")
    report.fail("keywords", "has no keywords", "write some", key="keywords")

    assert report.problems == (
        Problem(
            "a.md",
            "has a priority",
            "write a number",
            "warning",
            rule="priority-type",
            line=4,
        ),
        Problem("a.md", "has no keywords", "write some", "error", rule="keywords"),
    )


def test_a_reason_is_one_short_line_whatever_a_file_says() -> None:
    report = ProblemList("a.md")

    report.fail("yaml", f"has \x1b[2J\n{'x' * 5000}", "write less")

    [problem] = report.problems
    assert problem.reason.startswith("has \\x1b[2J\\nxxx")
    assert problem.reason.endswith("x…")
    assert len(problem.reason) == 300


def test_warnings_have_an_end_and_errors_are_always_said() -> None:
    report = ProblemList("a.md")

    for number in range(1000):
        report.warn("duplicate-key", f"has {number}", "take it away")
    report.fail("description", "has no description", "add one")

    assert len(report.problems) == 51
    assert report.problems[-1].level == "error"


@pytest.mark.parametrize(
    "text, shown",
    [
        ("ui/créer 認証.md", "ui/créer 認証.md"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("é\n", "é\\n"),
        ("\udcff", "\\udcff"),
        ("\u202eexe", "\\u202eexe"),
        ("", ""),
    ],
)
def test_only_what_cannot_be_printed_is_written_differently(text: str, shown: str) -> None:
    assert escape_unprintable(text) == shown


@given(st.text(st.characters()))
def test_what_is_printable_can_be_printed(text: str) -> None:
    shown = escape_unprintable(text)

    assert shown.isprintable()
    shown.encode()
