"""A frontmatter that only a lenient reader gets over is an error."""

import pytest

from tests.features.authoring.validation.findings import HEAD, findings

WELL = f"---\n{HEAD}---\n\nDo it.\n"


def test_a_well_formed_package_has_no_findings() -> None:
    assert findings(WELL) == []


def test_line_ends_of_dos_are_no_finding() -> None:
    assert findings(WELL.replace("\n", "\r\n")) == []


@pytest.mark.parametrize(
    "text, reason",
    [
        ("\ufeff" + WELL, "begins with a byte order mark"),
        ("\n" + WELL, "does not begin with a line of ---"),
        ("# PDF\n\n" + WELL, "does not begin with a line of ---"),
        (f"---\n{HEAD}", "has a frontmatter that never ends"),
        ("---\n- one\n---\n", "has a frontmatter without `key: value` lines"),
        ("---\n---\n", "has a frontmatter without `key: value` lines"),
    ],
)
def test_a_frontmatter_begins_at_the_first_byte_and_ends(text: str, reason: str) -> None:
    [finding] = findings(text)

    assert finding.rule == "frontmatter"
    assert reason in finding.reason
    assert "keywords" not in finding.hint, "that is for rule files"


@pytest.mark.parametrize("text", ["Just text.", ""])
def test_without_a_frontmatter_nothing_else_is_said_of_a_package(text: str) -> None:
    [finding] = findings(text)

    assert (finding.rule, finding.reason) == ("no-frontmatter", "has no frontmatter")
    assert "keywords" not in finding.hint, "that is for rule files"


def test_other_encodings_are_named_and_nothing_is_guessed() -> None:
    [finding] = findings(WELL.replace("it", "Größe").encode("cp1252"))

    assert finding.rule == "encoding"
    assert "byte" in finding.reason


def test_what_yaml_cannot_read_is_an_error_in_its_line() -> None:
    text = "---\nname: pdf\ndescription: Use when: a form\n---\n\nDo it.\n"

    [finding] = findings(text)

    assert (finding.rule, finding.line) == ("yaml", 3)
    assert "repaired" not in finding.reason


def test_beside_invalid_yaml_everything_else_is_said_at_once() -> None:
    text = "---\nname: PDF\ndescription: Use when: a form\nversion: 1\n---\n\nDo it.\n"

    rules = [finding.rule for finding in findings(text)]

    assert rules == ["name-characters", "unknown-key", "yaml"]


def test_a_key_that_is_there_twice_is_an_error() -> None:
    [finding] = findings(f"---\n{HEAD}description: Another.\n---\n\nDo it.\n")

    assert (finding.rule, finding.line) == ("duplicate-key", 4)
    assert "description" in finding.reason


def test_behind_a_byte_order_mark_lines_are_still_right() -> None:
    [finding, _] = findings("\ufeff---\nname: pdf\ndescription: 42\n---\n\nDo it.\n")

    assert (finding.rule, finding.line) == ("description", 3)
