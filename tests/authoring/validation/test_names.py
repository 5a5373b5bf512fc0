"""The name of a package: what the standard allows, and the folder's name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.authoring.validation.names import derive_name
from tests.authoring.validation.findings import HEAD, findings, of_head

DESCRIPTION = "description: Fill in PDF forms."
WIDE = "\uff50\uff44\uff46"
"""`pdf` in the letters of East Asian typography."""


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
    assert finding.hint == "write name: pdf, as its folder is called"


def test_a_folder_that_can_be_no_name_is_renamed_with_it() -> None:
    [finding] = of_head(f"name: PDF Tools\n{DESCRIPTION}", folder="PDF Tools")

    assert finding.hint == "write name: pdf-tools, and call its folder the same"


def test_a_name_without_latin_letters_gets_other_advice() -> None:
    [finding] = of_head(f"name: 技能\n{DESCRIPTION}", folder="技能")

    assert "Latin letters" in finding.hint


def test_either_the_name_or_the_folder_can_be_changed() -> None:
    [finding] = of_head(f"name: forms\n{DESCRIPTION}", folder="pdf")

    assert finding.hint == "write name: pdf, or rename the folder to forms"


def test_the_folder_is_compared_in_one_normal_form() -> None:
    assert of_head(HEAD, folder=WIDE) == []


def test_where_the_folder_is_nobodys_choice_it_is_not_compared() -> None:
    assert of_head(HEAD, folder=None) == []


@given(st.text(max_size=80))
def test_every_name_that_is_suggested_is_allowed(text: str) -> None:
    name = derive_name(text)

    if name not in {"", "null"}:  # the reader takes null for nothing, also in quotes
        assert (
            findings(f"---\nname: '{name}'\n{DESCRIPTION}\n---\nx", folder=name) == []
        )
