"""Error codes in the pages are those of the program."""

import re
from collections.abc import Iterator
from pathlib import Path

from skills_mcp import errors
from skills_mcp.errors import SkillsError
from skills_mcp.scripts.policy import ENVIRONMENT_ALLOWED
from tests.docs.pages import (
    CONFIGURATION,
    REFERENCE,
    TOOLS_PAGE,
    code,
    codes,
    every_page,
    prose,
    section,
    table,
)


def error_classes() -> Iterator[type[SkillsError]]:
    waiting = [SkillsError]
    while waiting:
        each = waiting.pop()
        waiting += each.__subclasses__()
        if each.__module__.startswith("skills_mcp."):  # not one that a test made up
            yield each


def test_every_error_code_is_documented_and_no_other() -> None:
    # A class that only gives an existing code another cause is no new code.
    raised = {each.code for each in error_classes()} - {SkillsError.code}
    documented = table(section(REFERENCE / "errors.md", "## Codes"))

    assert {code(row["Code"]) for row in documented} == raised
    assert all(all(row.values()) for row in documented)


def test_whose_turn_it_is_agrees_with_the_tree_of_errors() -> None:
    drawn = re.findall(r"Error +([A-Z_]+) +([a-z]+)", errors.__doc__ or "")
    documented = table(section(REFERENCE / "errors.md", "## Codes"))

    assert [
        (code(row["Code"]), row["Whose turn"].split()[0]) for row in documented
    ] == drawn


def test_every_tool_names_only_errors_that_exist_and_every_error_has_a_tool() -> None:
    raised = {each.code for each in error_classes()} - {SkillsError.code}
    named = {word for word in codes(prose(TOOLS_PAGE)) if word.isupper()}

    assert named == raised - {"CONFIG_INVALID"}


@every_page
def test_names_in_capitals_are_codes_or_variables_that_exist(page: Path) -> None:
    variables = table(section(CONFIGURATION, "## Environment variables"))
    known = {each.code for each in error_classes()}
    known |= {code(row["Variable"]) for row in variables}
    known |= {*ENVIRONMENT_ALLOWED, "SSH_AUTH_SOCK", "REMOTE_SECTIONS"}
    used = [
        word for word in codes(prose(page)) if re.fullmatch(r"[A-Z]+_[A-Z_]+", word)
    ]

    assert [
        word
        for word in used
        if word not in known and not word.startswith(("SKILL_ARG_", "GIT_"))
    ] == []
