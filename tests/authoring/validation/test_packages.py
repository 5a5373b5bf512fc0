"""A package as a whole: its main file and its body."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.authoring.validation.findings import HEAD, findings

ODD = st.sampled_from(
    (
        *("---\n", "name: pdf\n", "description: x\n", "metadata:\n", "  a: [1\n"),
        *("allowed-tools: [(\n", "<<: {a: 1}\n", "? \n", "- \n", "\r\n", "[a](b)\n"),
        *("\ufeff", "\0"),
    )
)


def test_the_main_file_is_called_exactly_so() -> None:
    [finding] = findings(f"---\n{HEAD}---\n\nDo it.\n", main="skill.md")

    assert finding.rule == "main-file"
    assert finding.hint == "rename it to SKILL.md"


@pytest.mark.parametrize("body", ["", "\n\n", "  \n"])
def test_a_package_says_what_to_do(body: str) -> None:
    [finding] = findings(f"---\n{HEAD}---\n{body}")

    assert finding.rule == "body-empty"


def test_a_body_has_at_most_500_lines() -> None:
    assert findings(f"---\n{HEAD}---\n" + "Do it.\n" * 500) == []

    [finding] = findings(f"---\n{HEAD}---\n" + "Do it.\n" * 501)

    assert finding.rule == "body-length"
    assert "501" in finding.reason


@given(st.binary(max_size=200))
def test_any_bytes_end_in_findings(raw: bytes) -> None:
    assert isinstance(findings(raw), list)


@given(st.lists(ODD, max_size=12))
def test_any_odd_frontmatter_ends_in_findings(parts: list[Any]) -> None:
    assert isinstance(findings("".join(parts)), list)
