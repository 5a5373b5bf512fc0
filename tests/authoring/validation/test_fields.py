"""The other fields of a package's frontmatter."""

import pytest

from tests.authoring.validation.findings import HEAD, of_head


@pytest.mark.parametrize(
    "line",
    [
        "license: Apache-2.0",
        "compatibility: Needs Python 3.11",
        f"compatibility: {'x' * 500}",
        "allowed-tools: Read Grep Bash(git:*)",
        "allowed-tools: Bash(git add:*, git commit:*) Read",
        'metadata: {author: Ada, version: "1.0"}',
    ],
)
def test_what_the_standard_allows_is_no_finding(line: str) -> None:
    assert of_head(HEAD + line) == []


@pytest.mark.parametrize("line", ["description:", 'description: "  "', "license: MIT"])
def test_a_package_needs_a_description(line: str) -> None:
    [finding] = of_head(f"name: pdf\n{line}")

    assert finding.rule == "description"
    assert finding.reason == "has no description"


@pytest.mark.parametrize("value", ["42", "2026-01-31", "true", "[a, b]", "{a: b}"])
def test_a_description_is_a_text(value: str) -> None:
    [finding] = of_head(f"name: pdf\ndescription: {value}")

    assert (finding.rule, finding.line) == ("description", 3)
    assert "not a text" in finding.reason


def test_a_description_has_at_most_1024_characters() -> None:
    assert of_head(f"name: pdf\ndescription: {'x' * 1024}") == []

    [finding] = of_head(f"name: pdf\ndescription: {'x' * 1025}")

    assert finding.rule == "description-length"
    assert "1,025" in finding.reason


@pytest.mark.parametrize(
    "line, rule, hint",
    [
        ("license: 2.0", "license", 'license: "2.0"'),
        ("license: [MIT, Apache-2.0]", "license", "license: MIT, Apache-2.0"),
        ("license:", "license", "take it away"),
        ("compatibility: 3.11", "compatibility", 'compatibility: "3.11"'),
        ("compatibility: [a, b]", "compatibility", "compatibility: a, b"),
        ('compatibility: ""', "compatibility", "take it away"),
        (f"compatibility: {'x' * 501}", "compatibility", "a sentence"),
        ("allowed-tools: [Read, Grep]", "allowed-tools", "allowed-tools: Read Grep"),
        ("allowed-tools: Read, Grep", "allowed-tools", "allowed-tools: Read Grep"),
        (
            "allowed-tools: Bash(git add:*),Read",
            "allowed-tools",
            "allowed-tools: Bash(git add:*) Read",
        ),
        ("allowed-tools:", "allowed-tools", "take it away"),
        ("metadata: text", "metadata", "metadata: / author: …"),
        ("metadata:", "metadata", "take it away"),
    ],
)
def test_a_field_of_the_wrong_kind_is_an_error_that_says_what_to_write(
    line: str, rule: str, hint: str
) -> None:
    [finding] = of_head(HEAD + line)

    assert (finding.rule, finding.line) == (rule, 4)
    assert hint in finding.hint


@pytest.mark.parametrize(
    "line, hint",
    [
        ("version: 1.0", 'move it below metadata: version: "1.0"'),
        ("author: Ada", "move it below metadata: author: …; allowed at the top"),
        ("keywords: [a, b, c, d]", "keywords: a, b, c, …; it means the same"),
        ("tags: [a, b]", "tags: a, b; it means the same there"),
        ("triggers: [a, b]", "move them below metadata: keywords: a, b"),
        ("examples: [a]", "move them below metadata: examples: | and each task on a"),
        ("category: tools", "category: …; it means the same there"),
        ("inherit: false", 'inherit: "false"; it means the same there'),
        ("priority: 5", 'priority: "5"; it means the same there'),
        ("entry: run.py", "move it below metadata: entry: …; it means the same"),
        ("runtime: node", "move it below metadata: runtime: …; allowed"),
        ("licence: MIT", "did you mean license?"),
        ("allowed_tools: Read", "did you mean allowed-tools?"),
        ("user-invocable: true", "Claude Code"),
    ],
)
def test_an_unknown_key_is_an_error_that_says_where_it_belongs(
    line: str, hint: str
) -> None:
    [finding] = of_head(HEAD + line)

    assert (finding.rule, finding.line) == ("unknown-key", 4)
    assert hint in finding.hint


def test_a_merged_map_is_no_reason_to_fail() -> None:
    rules = [finding.rule for finding in of_head(HEAD + "<<: {license: 3}")]

    assert rules == ["unknown-key"]
