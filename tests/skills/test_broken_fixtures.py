"""Every defect in fixtures/broken is found, named, and costs nothing else."""

from datetime import UTC, datetime
from typing import Literal, NamedTuple

import pytest

from skills_mcp.config import Settings
from skills_mcp.content.source import Checkout
from skills_mcp.errors import MissingFileError
from skills_mcp.skills.assets import read_file
from skills_mcp.snapshot import Snapshot, take_snapshot
from tests.support import BROKEN


class Finding(NamedTuple):
    file: str
    level: Literal["error", "warning"]
    reason: str
    """Part of what is said."""


FINDINGS = {
    "no-frontmatter": Finding("review.md", "error", "has no frontmatter"),
    "unclosed-frontmatter": Finding("review.md", "error", "never ends"),
    "invalid-yaml": Finding(
        "review.md", "error", "not allowed in this context in line"
    ),
    "yaml-alias": Finding("review.md", "error", "uses an alias"),
    "nested-too-deep": Finding("review.md", "error", "nested deeper than 32 levels"),
    "frontmatter-is-a-list": Finding(
        "review.md", "error", "without `key: value` lines"
    ),
    "missing-keywords": Finding("review.md", "error", "has no keywords"),
    "empty-keywords": Finding("review.md", "error", "has no keywords"),
    "keywords-as-text": Finding("review.md", "error", "has keywords, not a list"),
    "missing-description": Finding("review.md", "error", "has no description"),
    "blank-description": Finding("review.md", "error", "has no description"),
    "not-utf8": Finding("review.md", "error", "is not UTF-8 text (byte "),
    "duplicate-keyword": Finding("review.md", "warning", "empty, repeated or no text"),
    "wrong-inherit": Finding("review.md", "warning", "has inherit: 'sometimes'"),
    "wrong-priority": Finding("review.md", "warning", "has priority: 'high'"),
    "wrong-execution": Finding("review.md", "warning", "has execution: 'srever'"),
    "asset-without-file": Finding("review.md", "warning", "in assets without file"),
    "asset-outside-folder": Finding("review.md", "warning", "is not inside its folder"),
    "assets-without-folder": Finding("review.md", "warning", "has no folder for them"),
    "asset-missing-on-disk": Finding("review.md", "warning", "is not in its folder"),
    "category-hidden-by-file": Finding("ui/_index.md", "error", "is not served: its"),
    "config-unknown-key": Finding("config.yaml", "warning", "did you mean min_score?"),
    "config-wrong-value": Finding("config.yaml", "warning", "less than or equal to 1"),
    "config-not-yaml": Finding("config.yaml", "warning", "cannot be read"),
}


def take(defect: str) -> Snapshot:
    checkout = Checkout(BROKEN / defect, None, datetime.now(UTC))
    return take_snapshot(checkout, Settings(), trusted=True)


def test_every_folder_is_in_the_table() -> None:
    folders = {folder.name for folder in BROKEN.iterdir()}

    assert folders == FINDINGS.keys()


@pytest.mark.spec("4.2")
@pytest.mark.spec("13")
@pytest.mark.parametrize("defect", FINDINGS)
def test_a_defect_is_found_and_named(defect: str) -> None:
    expected = FINDINGS[defect]

    [problem] = take(defect).problems

    assert problem.file == expected.file
    assert problem.level == expected.level
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

    served = {skill.file for skill in take(defect).index}

    assert served == files - ({finding.file} if finding.level == "error" else set())
    assert served, "beside the defect, something is served"


@pytest.mark.spec("13")
@pytest.mark.spec("7.4")
def test_a_declared_file_that_is_not_there_is_missed_when_it_is_read() -> None:
    snapshot = take("asset-missing-on-disk")
    skill = snapshot.index.require("review")

    assert [asset.file for asset in skill.assets] == ["checklist.md"]
    with pytest.raises(MissingFileError):
        read_file(skill, "checklist.md", max_bytes=1000)
