"""The page about LangChain names the tools and parameters that there are."""

import inspect
import re

from skills_mcp.features.frameworks.skill_toolkit import (
    ENTRY_TOOL,
    EXTRA_TOOLS,
    TOOLS,
    SkillToolkit,
    build_skill_capability,
)
from tests.docs.pages import DOCS, NOTHING, section, table

_PAGE = DOCS / "how-to" / "langchain.md"


def test_the_tools_are_those_of_the_toolkit() -> None:
    rows = table(section(_PAGE, "## The tools"))

    named = {row["Tool"]: row["Arguments"] for row in rows}
    assert list(named) == [f"`{name}`" for name in (*TOOLS, ENTRY_TOOL, *EXTRA_TOOLS)]
    for tool, arguments in named.items():
        method = getattr(SkillToolkit, tool.strip("`"))
        _, *expected = inspect.signature(method).parameters
        assert arguments == (", ".join(f"`{each}`" for each in expected) or NOTHING)


def test_the_parameters_are_those_of_both_ways_to_build_one() -> None:
    rows = table(section(_PAGE, "## The parameters"))

    shown = {row["Parameter"]: row["Default"] for row in rows}
    for function in (build_skill_capability, SkillToolkit):
        parameters = inspect.signature(function).parameters.values()
        assert shown == {f"`{each.name}`": f"`{each.default}`" for each in parameters}


def test_every_row_about_the_other_toolkit_says_what_differs() -> None:
    rows = table(section(_PAGE, "## Coming from skill_meta_toolkit"))

    assert len(rows) >= 14
    assert all(re.search(r"\w", row["What differs, and why"]) for row in rows)
