"""Environment variables that look like ours."""

import pytest

from skills_mcp.config.variables import VARIABLES, find_unknown_variables
from tests.docs.pages import CONFIGURATION, code, section, table


@pytest.mark.parametrize(
    "name, meant",
    [
        ("SKILLS_MCP_LOGLEVEL", "SKILLS_MCP_LOG_LEVEL"),
        ("SKILL_REPO", "SKILLS_REPO"),
        ("SKILLS_MCP_REPO", "SKILLS_REPO"),
        ("SKILLS_BRANCHE", "SKILLS_BRANCH"),
        ("SKILLS_HTTP_PORT", "SKILLS_MCP_HTTP_PORT"),
        ("SKILLHUB_ENABLED_SKILL", "SKILLHUB_ENABLED_SKILLS"),
        ("SKILLS_MCP_COLOUR", ""),
    ],
)
def test_a_name_that_nothing_reads_is_found(name: str, meant: str) -> None:
    [found] = find_unknown_variables({name: "x", "PATH": "/bin"})

    assert (found.name, found.suggestion) == (name, meant)
    assert (f"Did you mean {meant}?" in str(found)) is bool(meant)


@pytest.mark.parametrize("name", ["SKILLS_TOKEN", "SKILLSET", "SKILL_TREE_DEPTH"])
def test_a_variable_of_another_program_is_left_alone(name: str) -> None:
    assert find_unknown_variables({name: "x"}) == ()


def test_every_documented_variable_is_known() -> None:
    rows = table(section(CONFIGURATION, "## Environment variables"))
    documented = {code(row["Variable"]): "x" for row in rows}

    assert documented.keys() >= {variable.name for variable in VARIABLES}
    assert find_unknown_variables(documented) == ()


def test_an_empty_variable_says_nothing() -> None:
    assert find_unknown_variables({"SKILLS_MCP_REPO": ""}) == ()
