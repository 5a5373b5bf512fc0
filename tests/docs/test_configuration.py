"""Settings, variables and runners in the pages are those of the program."""

import re

import pytest

from skills_mcp.config import VARIABLES, Config
from skills_mcp.config.sections import KEYS
from skills_mcp.config.values import Option
from skills_mcp.features.embeddings import client
from skills_mcp.scripts.policy import ENVIRONMENT_ALLOWED
from tests.docs import settings
from tests.docs.help_texts import run
from tests.docs.pages import (
    CONFIG_YAML,
    CONFIGURATION,
    DOCS,
    SOURCES,
    code,
    codes,
    prose,
    section,
    table,
)
from tests.docs.settings import EXAMPLE, SCHEMA

# A setting is a question to every operator: a new one takes the place of another.
MAX_KEYS = 137

REMEDY = "run .venv/bin/python -m tests.docs.settings"


def test_the_schema_is_the_one_that_the_keys_give() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == settings.render_schema(), REMEDY


def test_the_example_is_the_one_that_the_keys_give() -> None:
    assert EXAMPLE.read_text(encoding="utf-8") == settings.render_example(), REMEDY


@pytest.mark.spec("11.2")
def test_the_tables_of_the_reference_are_those_that_the_keys_give() -> None:
    whole = "".join(page.read_text(encoding="utf-8") for page in (CONFIGURATION, CONFIG_YAML))

    assert whole == settings.render_reference(whole), REMEDY


def test_there_are_no_more_keys_than_there_were() -> None:
    kinds = [settings.describe_type(field) for _, field, _ in settings.all_keys()]

    assert len(kinds) - kinds.count("mapping") <= MAX_KEYS


def test_each_key_has_a_text_that_is_a_sentence() -> None:
    texts = {key: settings.text_of(field) for key, field, _ in settings.all_keys()}

    assert [key for key, text in texts.items() if not re.fullmatch(r"\S[^\n|]*\.", text)] == []


def test_the_command_line_has_each_option_of_a_key() -> None:
    helps = run("serve", "--help").output + run("test", "--help").output
    named = [option.name for key in KEYS.values() if (option := key.find(Option))]

    assert [name for name in named if not re.search(rf"{name}\b", helps)] == []


_VARIABLE_IN_CODE = re.compile(
    r'(?:(?:environ(?:ment)?|variables)\.(?:get|pop)\(\s*|envvar=)"([A-Z_]+)"'
)


@pytest.mark.spec("11.1")
def test_every_environment_variable_is_documented_and_no_other() -> None:
    used = {
        name
        for source in SOURCES
        for name in _VARIABLE_IN_CODE.findall(source.read_text(encoding="utf-8"))
    }
    used |= {*client._KEY_NAMES.values()}
    documented = table(section(CONFIGURATION, "## Environment variables"))

    assert {code(row["Variable"]) for row in documented} == (
        used | {variable.name for variable in VARIABLES}
    )


def test_scripts_see_the_variables_and_runners_that_are_documented() -> None:
    page = DOCS / "how-to" / "run-scripts.md"
    [line] = [line for line in prose(page).splitlines() if "also sees" in line]
    rows = table(section(page, "## Choose the runner"))

    assert codes(line) == list(ENVIRONMENT_ALLOWED)
    assert {code(r["Extension"]): code(r["Command"]) for r in rows} == (Config().scripts.runners)
