"""What the reference says of the files of skills."""

import inspect
import re
from pathlib import Path

import pytest

from skills_mcp import snapshot
from skills_mcp.skills import discovery, frontmatter
from skills_mcp.skills.frontmatter import derive_path, parse_skill
from skills_mcp.skills.index import derive_parent_path
from tests.docs.pages import (
    NOTHING,
    PAGES,
    REFERENCE,
    blocks,
    code,
    section,
    table,
    templates,
)

FORMAT = REFERENCE / "skill-format.md"


@pytest.mark.spec("4.2")
def test_every_problem_of_a_file_is_documented_and_no_other() -> None:
    reasons = {
        text
        for module in (discovery, frontmatter, snapshot)
        for text in templates(module)
        if re.match(r"(?:has|is|declares|cannot) ", text) and "\n" not in text
    }
    rows = table(section(FORMAT, "## Problems"))

    assert {code(row["What is wrong"]) for row in rows} == reasons


def test_every_field_of_a_skill_is_documented_and_no_other() -> None:
    source = inspect.getsource(frontmatter)
    read = re.findall(r'(?:fields\.get\(|_(?:text|flag)\(\w+, )"(\w+)"', source)
    listed = re.findall(r'_(?:entries|mappings)\(\w+, "(\w+)"(?:, "(\w+)")?', source)
    rows = table(section(FORMAT, "## Fields"))

    documented = {re.split(r"[\[\].]+", code(row["Field"]))[-1] for row in rows}

    assert documented == {*read, *(n for pair in listed for n in pair if n)} | {"file"}


@pytest.mark.spec("4.3")
@pytest.mark.spec("4.4")
def test_paths_and_parents_are_derived_as_documented() -> None:
    for row in table(section(FORMAT, "## Paths")):
        path = derive_path(code(row["File"]))
        parent = derive_parent_path(path)

        assert path == code(row["Path"])
        assert (f"`{parent}`" if parent else NOTHING) == row["Parent"]


def test_every_head_of_a_skill_is_valid(tmp_path: Path) -> None:
    heads = [
        f"---\n{each.text}---\n"
        for page in PAGES
        for each in blocks(page, "yaml", "skill")
    ]
    whole = [
        each.text
        for page in PAGES
        for each in blocks(page, "markdown")
        if each.text.startswith("---")
        # The tutorial breaks a file on purpose.
        and each.title != "skills/ui/react/forms.md"
    ]

    problems = [
        parse_skill(text, file="x.md", directory=tmp_path)[1] for text in heads + whole
    ]

    assert problems == [()] * len(problems)
