"""Every defect in fixtures/broken is found, named, and costs nothing else."""

from typing import Literal, NamedTuple

import pytest

from skills_mcp.errors import MissingFileError
from skills_mcp.skills.skill_files import read_skill_file
from tests.skills.contents import take
from tests.support import BROKEN


class Finding(NamedTuple):
    file: str
    level: Literal["error", "warning"]
    rule: str
    line: int
    reason: str
    """Part of what is said."""


UI = "ui/_index.md"
CONFIG = "config.yaml"

FINDINGS = {
    "no-frontmatter": Finding("review.md", "error", "no-frontmatter", 1, "has no frontmatter"),
    "unclosed-frontmatter": Finding("review.md", "error", "frontmatter", 1, "never ends"),
    "invalid-yaml": Finding(
        "review.md", "error", "yaml", 2, "not allowed in this context in line 2"
    ),
    "yaml-alias": Finding("review.md", "error", "yaml", 1, "uses an alias"),
    "nested-too-deep": Finding("review.md", "error", "yaml", 1, "nested deeper than 32 levels"),
    "frontmatter-is-a-list": Finding(
        "review.md", "error", "frontmatter", 1, "without `key: value` lines"
    ),
    "missing-keywords": Finding("review.md", "error", "no-keywords", 1, "has no keywords"),
    "empty-keywords": Finding("review.md", "error", "keywords", 3, "has no keywords"),
    "keywords-as-text": Finding("review.md", "error", "keywords", 3, "has keywords, not a list"),
    "missing-description": Finding("review.md", "error", "description", 1, "has no description"),
    "blank-description": Finding("review.md", "error", "description", 2, "has no description"),
    "not-utf8": Finding("review.md", "error", "encoding", 1, "is not UTF-8 text (byte "),
    "duplicate-keyword": Finding(
        "review.md", "warning", "keywords", 3, "empty, repeated or no text"
    ),
    "wrong-inherit": Finding("review.md", "warning", "inherit-type", 4, "has inherit: 'sometimes'"),
    "wrong-priority": Finding("review.md", "warning", "priority-type", 4, "has priority: 'high'"),
    "wrong-execution": Finding("review.md", "warning", "execution", 4, "has execution: 'srever'"),
    "asset-without-file": Finding(
        "review.md", "warning", "assets-entry", 4, "in assets without file"
    ),
    "asset-outside-folder": Finding(
        "review.md", "warning", "file-outside", 4, "is not inside its folder"
    ),
    "assets-without-folder": Finding(
        "review.md", "warning", "resource-folder", 4, "has no folder for them"
    ),
    "asset-missing-on-disk": Finding(
        "review.md", "warning", "file-missing", 1, "is not in its folder"
    ),
    "category-hidden-by-file": Finding(UI, "error", "hidden-skill", 1, "is not served: its"),
    "config-unknown-key": Finding(CONFIG, "warning", "config", 1, "did you mean min_score?"),
    "config-wrong-value": Finding(CONFIG, "warning", "config", 1, "must be a number from 0 to 1"),
    "config-not-yaml": Finding(CONFIG, "warning", "config", 1, "cannot be read"),
}


def test_every_folder_is_in_the_table() -> None:
    folders = {folder.name for folder in BROKEN.iterdir()}

    assert folders == FINDINGS.keys()


@pytest.mark.spec("4.2")
@pytest.mark.spec("13")
@pytest.mark.parametrize("defect", FINDINGS)
def test_a_defect_is_found_and_named(defect: str) -> None:
    expected = FINDINGS[defect]

    [problem] = take(BROKEN / defect).problems

    assert problem.file == expected.file
    assert problem.level == expected.level
    assert problem.rule == expected.rule
    assert problem.line == expected.line
    assert expected.reason in problem.reason
    assert problem.hint


@pytest.mark.spec("13")
@pytest.mark.parametrize("defect", FINDINGS)
def test_a_defect_costs_only_the_file_that_has_it(defect: str) -> None:
    finding = FINDINGS[defect]
    folder = BROKEN / defect
    resources = {path.with_suffix("") for path in folder.glob("*.md")}
    files = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.md")
        if path.parent not in resources
    }

    served = {skill.file for skill in take(folder).index}

    assert served == files - ({finding.file} if finding.level == "error" else set())
    assert served, "beside the defect, something is served"


@pytest.mark.spec("13")
@pytest.mark.spec("7.4")
def test_a_declared_file_that_is_not_there_is_missed_when_it_is_read() -> None:
    snapshot = take(BROKEN / "asset-missing-on-disk")
    skill = snapshot.index.require("review")

    assert [asset.file for asset in skill.assets] == ["checklist.md"]
    with pytest.raises(MissingFileError):
        read_skill_file(skill, "checklist.md", max_bytes=1000)
