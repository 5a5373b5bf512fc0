"""Metadata is a map of texts."""

import pytest

from skills_mcp.authoring.validation.rules import LEVELS
from tests.authoring.validation.findings import HEAD, of_head


@pytest.mark.parametrize(
    "value, kind, hint",
    [
        ("1.0", "a number", 'version: "1.0"'),
        ("2026-01-31", "a date", 'version: "2026-01-31"'),
        ("yes", "true or false", 'version: "yes"'),
        ("", "empty", "take it away"),
        ("[a, b]", "a list", "version: a, b"),
        ("[[a], b]", "a list", "version: …"),
        ("{a: b}", "a map", "version: …"),
    ],
)
def test_a_value_that_is_no_text_is_named_in_its_line(
    value: str, kind: str, hint: str
) -> None:
    block = f"{HEAD}metadata:\n  author: Ada\n  version: {value}"

    [finding] = of_head(block)

    assert (finding.rule, finding.line) == ("metadata-value", 6)
    assert f"has metadata.version, which is {kind}" in finding.reason
    assert hint in finding.hint


def test_every_wrong_value_is_a_finding_of_its_own() -> None:
    found = of_head(f"{HEAD}metadata: {{a: 1, b: text, c: 2}}")

    assert [finding.reason.split(",")[0] for finding in found] == [
        "has metadata.a",
        "has metadata.c",
    ]


def test_keywords_of_triggers_have_a_place_that_the_standard_allows() -> None:
    block = f"{HEAD}metadata:\n  triggers:\n    keywords: [gradle, kts]\n"

    [finding] = of_head(block)

    assert "keywords: gradle, kts" in finding.hint


def test_tasks_have_a_form_that_the_standard_allows() -> None:
    [finding] = of_head(f"{HEAD}metadata:\n  examples: [add login, sign in]\n")

    assert "one text: examples: | and each task on a line" in finding.hint


def test_the_extension_of_skillhub_is_only_a_warning() -> None:
    block = f"{HEAD}metadata:\n  skillhub:\n    category: office\n    tags: [a, b]"

    [finding] = of_head(block)

    assert (finding.rule, finding.line) == ("metadata-skillhub", 5)
    assert LEVELS[finding.rule] == "warning"


def test_a_text_called_skillhub_is_as_good_as_any() -> None:
    assert of_head(f"{HEAD}metadata:\n  skillhub: yes please") == []
