"""The guide for whole repositories prints what it says, and so do its tables."""

import json
from pathlib import Path

import pytest

from repositories.layouts import package
from tests.docs.pages import DOCS, SOURCES, blocks, code, codes, section, table
from tests.docs.test_tutorial import normalised, run_page, steps
from tests.skills.contents import take
from tests.support import write

PAGE = DOCS / "how-to" / "whole-repositories.md"
MARKETPLACE = ".claude-plugin/marketplace.json"


def test_the_guide_prints_what_it_says(tmp_path: Path, shell_path: str) -> None:
    folder = tmp_path / "ada"
    folder.mkdir()
    shown = [step for each in blocks(PAGE, "console") for step in steps(each)]

    printed = run_page(PAGE, folder, shell_path)

    for (command, expected), real in zip(shown, printed, strict=True):
        assert normalised(real) == normalised(expected), command
    assert shown


@pytest.mark.parametrize("row", table(section(PAGE, "## Where skills begin")))
def test_a_skill_has_the_path_that_the_table_says(tmp_path: Path, row: dict[str, str]) -> None:
    file, *manifest = codes(row["In the repository"])
    write(tmp_path / file, package("pdf"))
    if MARKETPLACE in manifest:
        listed = {"name": manifest[2], "source": manifest[1]}
        write(tmp_path / MARKETPLACE, json.dumps({"plugins": [listed]}))

    snapshot = take(tmp_path)

    assert [skill.path for skill in snapshot.index] == [code(row["Path of the skill"])]
    assert snapshot.problems == ()


def test_every_rule_of_the_table_is_one_of_a_problem() -> None:
    source = "\n".join(file.read_text(encoding="utf-8") for file in SOURCES)
    rows = table(section(PAGE, "## What the problems mean"))

    named = [rule for row in rows for rule in codes(row["Rule"])]

    assert [rule for rule in named if f'"{rule}"' not in source] == []
    assert len(named) > 10
