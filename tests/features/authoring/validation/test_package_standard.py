"""A package compared with the Agent Skills standard, field by field."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.features.authoring.package_standard import derive_name
from skills_mcp.features.authoring.rules import RULE_LEVELS
from tests.features.authoring.validation.findings import HEAD, findings, of_head

DESCRIPTION = "description: Fill in PDF forms."
WIDE = "\uff50\uff44\uff46"
"""`pdf` in the letters of East Asian typography."""

ODD = st.sampled_from(
    (
        *("---\n", "name: pdf\n", "description: x\n", "metadata:\n", "  a: [1\n"),
        *("allowed-tools: [(\n", "<<: {a: 1}\n", "? \n", "- \n", "\r\n", "[a](b)\n"),
        *("\ufeff", "\0"),
    )
)


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
        ("license:", "license", "delete it"),
        ("compatibility: 3.11", "compatibility", 'compatibility: "3.11"'),
        ("compatibility: [a, b]", "compatibility", "compatibility: a, b"),
        ('compatibility: ""', "compatibility", "delete the field"),
        (f"compatibility: {'x' * 501}", "compatibility", "one sentence"),
        ("allowed-tools: [Read, Grep]", "allowed-tools", "allowed-tools: Read Grep"),
        ("allowed-tools: Read, Grep", "allowed-tools", "allowed-tools: Read Grep"),
        (
            "allowed-tools: Bash(git add:*),Read",
            "allowed-tools",
            "allowed-tools: Bash(git add:*) Read",
        ),
        ("allowed-tools:", "allowed-tools", "delete it"),
        ("metadata: text", "metadata", "metadata: and below it author: …"),
        ("metadata:", "metadata", "delete it"),
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
def test_an_unknown_key_is_an_error_that_says_where_it_belongs(line: str, hint: str) -> None:
    [finding] = of_head(HEAD + line)

    assert (finding.rule, finding.line) == ("unknown-key", 4)
    assert hint in finding.hint


def test_a_merged_map_is_no_reason_to_fail() -> None:
    rules = [finding.rule for finding in of_head(HEAD + "<<: {license: 3}")]

    assert rules == ["unknown-key"]


@pytest.mark.parametrize("name", ["pdf", "pdf-2", "a", "a" * 64, '"7"', WIDE])
def test_small_letters_digits_and_hyphens_are_a_name(name: str) -> None:
    folder = name.strip('"')

    assert of_head(f"name: {name}\n{DESCRIPTION}", folder=folder) == []


@pytest.mark.parametrize(
    "line, rule",
    [
        ("name:", "name"),
        ('name: ""', "name"),
        ("name: [pdf]", "name"),
        ("name: {a: b}", "name"),
        (f"name: {'a' * 65}", "name-length"),
        ("name: PDF", "name-characters"),
        ("name: pdf tools", "name-characters"),
        ("name: pdf_tools", "name-characters"),
        ("name: créer", "name-characters"),
        ("name: 技能", "name-characters"),
        ("name: -pdf", "name-hyphens"),
        ("name: pdf-", "name-hyphens"),
        ("name: pdf--tools", "name-hyphens"),
        ("name: word", "name-is-folder"),
    ],
)
def test_any_other_name_is_an_error_in_its_line(line: str, rule: str) -> None:
    [finding] = of_head(f"{DESCRIPTION}\n{line}")

    assert (finding.rule, finding.line) == (rule, 3)


def test_a_package_without_a_name_shall_be_called_as_its_folder() -> None:
    [finding] = of_head(DESCRIPTION, folder="PDF Tools")

    assert finding.rule == "name"
    assert finding.hint == "add name: pdf-tools"


def test_a_number_is_no_text() -> None:
    [finding] = of_head(f"name: 2024\n{DESCRIPTION}", folder="2024")

    assert finding.rule == "name"
    assert finding.hint == 'put it in quotation marks: name: "2024"'


def test_a_misspelt_name_is_advised_once_and_so_that_it_fits_the_folder() -> None:
    [finding] = of_head(f"name: PDF Tools\n{DESCRIPTION}", folder="pdf")

    assert finding.rule == "name-characters"
    assert finding.hint == "write name: pdf, the name of its folder"


def test_a_folder_that_can_be_no_name_is_renamed_with_it() -> None:
    [finding] = of_head(f"name: PDF Tools\n{DESCRIPTION}", folder="PDF Tools")

    assert finding.hint == "write name: pdf-tools, and give its folder the same name"


def test_a_name_without_latin_letters_gets_other_advice() -> None:
    [finding] = of_head(f"name: 技能\n{DESCRIPTION}", folder="技能")

    assert "Latin letters" in finding.hint


def test_either_the_name_or_the_folder_can_be_changed() -> None:
    [finding] = of_head(f"name: forms\n{DESCRIPTION}", folder="pdf")

    assert finding.hint == "write name: pdf, or rename the folder to forms"


def test_the_folder_is_compared_in_one_normal_form() -> None:
    assert of_head(HEAD, folder=WIDE) == []


def test_a_folder_that_the_author_does_not_choose_is_not_compared() -> None:
    assert of_head(HEAD, folder=None) == []


@given(st.text(max_size=80))
def test_every_name_that_is_suggested_is_allowed(text: str) -> None:
    name = derive_name(text)

    if name not in {"", "null"}:  # the reader takes null for nothing, also in quotes
        assert findings(f"---\nname: '{name}'\n{DESCRIPTION}\n---\nx", folder=name) == []


@pytest.mark.parametrize(
    "value, kind, hint",
    [
        ("1.0", "a number", 'version: "1.0"'),
        ("2026-01-31", "a date", 'version: "2026-01-31"'),
        ("yes", "true or false", 'version: "yes"'),
        ("", "empty", "delete it"),
        ("[a, b]", "a list", "version: a, b"),
        ("[[a], b]", "a list", "version: …"),
        ("{a: b}", "a map", "version: …"),
    ],
)
def test_a_value_that_is_no_text_is_named_in_its_line(value: str, kind: str, hint: str) -> None:
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
    assert RULE_LEVELS[finding.rule] == "warning"


def test_a_text_called_skillhub_is_as_good_as_any() -> None:
    assert of_head(f"{HEAD}metadata:\n  skillhub: yes please") == []


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
