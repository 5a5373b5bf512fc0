"""Every defect in fixtures/broken-packages is found and named, and repaired or lost."""

from typing import Literal, NamedTuple

import pytest

from tests.skills.contents import take
from tests.support import PROJECT

BROKEN_PACKAGES = PROJECT / "fixtures" / "broken-packages"
FILE = "forms/SKILL.md"


class Finding(NamedTuple):
    level: Literal["error", "warning"]
    rule: str
    line: int
    reason: str
    """Part of what is said."""
    file: str = FILE


def lost(rule: str, line: int, reason: str, file: str = FILE) -> Finding:
    return Finding("error", rule, line, reason, file)


def repaired(rule: str, line: int, reason: str) -> Finding:
    return Finding("warning", rule, line, reason)


NO_DESCRIPTION = "has no description, so its first heading and sentence are used"
NO_FIELDS = (
    repaired("frontmatter", 1, "without `key: value` lines"),
    repaired("description", 1, NO_DESCRIPTION),
    repaired("name", 1, "has no name, so forms is used"),
)

FINDINGS: dict[str, Finding | tuple[Finding, ...]] = {
    "anchor": repaired("yaml", 1, "uses an alias"),
    "at-sign-in-a-list": repaired("yaml", 5, "cannot start any token in line 5"),
    "binary": lost("encoding", 1, "is not UTF-8 text (byte 0)"),
    "blank-description": repaired("description", 3, NO_DESCRIPTION),
    "block-on-one-line": repaired("yaml", 3, "in line 3; it was repaired"),
    "control-character": repaired("control-characters", 1, "are left out"),
    "description-is-a-list": repaired("description", 3, "more than a text; it was"),
    "duplicate-key": repaired("duplicate-key", 4, "has description twice"),
    "empty-file": (
        repaired("no-frontmatter", 1, "has no frontmatter"),
        lost("description", 1, "no text to take one from"),
    ),
    "empty-frontmatter": NO_FIELDS,
    "frontmatter-is-a-list": NO_FIELDS,
    "frontmatter-is-text": NO_FIELDS,
    "missing-description": repaired("description", 1, NO_DESCRIPTION),
    "missing-name": repaired("name", 1, "has no name, so forms is used"),
    "name-is-a-list": repaired("name", 2, "has no name, so forms is used"),
    "no-frontmatter": (
        repaired("no-frontmatter", 1, "has no frontmatter"),
        repaired("description", 1, NO_DESCRIPTION),
        repaired("name", 1, "has no name, so forms is used"),
    ),
    "outside-homes": Finding(
        *("warning", "outside-homes", 1, "holds 1 package outside of the folders"),
        "forms",
    ),
    "old-encoding": repaired("encoding", 1, "so it was guessed"),
    "quotes-in-quotes": repaired("yaml", 3, "in line 3; it was repaired"),
    "same-path-as-a-rule": lost("same-path", 1, "forms.md has the same path"),
    "template-placeholder": repaired("yaml", 2, "in line 2; it was repaired"),
    "text-in-front": repaired("frontmatter", 1, "has text in front"),
    "unclosed-frontmatter": lost("frontmatter", 1, "never ends"),
    "unquoted-colon": repaired("yaml", 3, "in line 3; it was repaired"),
    "utf-16": repaired("encoding", 1, "so it was guessed"),
    "wrong-inherit": repaired("inherit-type", 4, "has inherit: 'sometimes'"),
    "wrong-priority": repaired("priority-type", 1, "has priority: 'high'"),
}

SENTENCE = "Ask which form it is before you fill it in."
DESCRIPTIONS = {
    "blank-description": SENTENCE,
    "block-on-one-line": "Fills in forms: all of them",
    "control-character": "Fills in[1m forms",
    "description-is-a-list": "- Fills in forms",
    "empty-frontmatter": SENTENCE,
    "frontmatter-is-a-list": SENTENCE,
    "frontmatter-is-text": SENTENCE,
    "missing-description": SENTENCE,
    "no-frontmatter": f"Forms: {SENTENCE}",
    "old-encoding": "Füllt Formulare aus",
    "quotes-in-quotes": 'Fills in "all" forms',
    "unquoted-colon": "Use when: a task names a form",
}
"""What is understood, where it is not the usual sentence."""


def findings_of(defect: str) -> tuple[Finding, ...]:
    found = FINDINGS[defect]
    return (found,) if isinstance(found, Finding) else found


def is_lost(defect: str) -> bool:
    return any(
        finding.level == "error" or finding.rule == "outside-homes"
        for finding in findings_of(defect)
    )


REPAIRED = [defect for defect in FINDINGS if not is_lost(defect)]


def test_every_folder_is_in_the_table() -> None:
    folders = {folder.name for folder in BROKEN_PACKAGES.iterdir()}

    assert folders == FINDINGS.keys()


@pytest.mark.parametrize("defect", FINDINGS)
def test_a_defect_is_found_and_named(defect: str) -> None:
    problems = take(BROKEN_PACKAGES / defect).problems

    for problem, expected in zip(problems, findings_of(defect), strict=True):
        assert problem.file == expected.file
        assert problem.level == expected.level
        assert problem.rule == expected.rule
        assert problem.line == expected.line
        assert expected.reason in problem.reason
        assert problem.hint


@pytest.mark.parametrize("defect", FINDINGS)
def test_a_defect_costs_at_most_the_package_that_has_it(defect: str) -> None:
    served = {skill.file for skill in take(BROKEN_PACKAGES / defect).index}

    assert (FILE in served) is not is_lost(defect)
    assert served & {"spreadsheets/SKILL.md", "skills/spreadsheets/SKILL.md"}, (
        "beside the defect, something is served"
    )


@pytest.mark.parametrize("defect", REPAIRED)
def test_what_is_repaired_says_what_its_author_meant(defect: str) -> None:
    skill = take(BROKEN_PACKAGES / defect).index.require("forms")

    usual = "Fills in forms. Use when a task names a form."
    assert skill.description == DESCRIPTIONS.get(defect, usual)
    assert skill.name == ("{{name}}" if defect == "template-placeholder" else "forms")
    assert skill.body.endswith("Ask which form it is before you fill it in.")
