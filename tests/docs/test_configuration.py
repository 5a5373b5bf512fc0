"""Settings, variables and runners in the pages are those of the program."""

import re
import typing
from collections.abc import Iterator
from typing import Literal

import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from skills_mcp.config import REMOTE_SECTIONS, Config
from skills_mcp.config.trust import LOWER_ONLY
from skills_mcp.scripts.policy import ENVIRONMENT_ALLOWED
from tests.docs.pages import (
    CONFIGURATION,
    DOCS,
    SOURCES,
    code,
    codes,
    prose,
    section,
    table,
)

_TYPES: dict[object, str] = {
    float: "number, 0 to 1",
    int: "whole number, 1 or more",
    bool: "true or false",
    str: "text",
    tuple: "list of texts",
    dict: "map of texts",
}


def settings() -> Iterator[tuple[str, FieldInfo]]:
    for name, field in Config.model_fields.items():
        if isinstance(field.default, BaseModel):
            for key, inner in type(field.default).model_fields.items():
                yield f"{name}.{key}", inner
        else:
            yield name, field


def described_type(field: FieldInfo) -> str:
    origin = typing.get_origin(field.annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in typing.get_args(field.annotation))
    return _TYPES[origin or field.annotation]


def who_may_set(key: str) -> str:
    section_name, _, name = key.partition(".")
    if not name:
        return "never"
    if (section_name, name) in LOWER_ONLY:
        return "may lower it"
    return "may set it" if section_name in REMOTE_SECTIONS else "if trusted"


@pytest.mark.spec("11.2")
def test_every_setting_is_documented_with_its_type_default_and_meaning() -> None:
    documented = table(section(CONFIGURATION, "### Keys"))

    assert [
        {**row, "Default": yaml.safe_load(code(row["Default"]))} for row in documented
    ] == [
        {
            "Key": f"`{key}`",
            "Type": described_type(field),
            "Default": list(value) if isinstance(value, tuple) else value,
            "Remote content": who_may_set(key),
            "Meaning": field.description,
        }
        for key, field in settings()
        for value in [field.default]
    ]


_VARIABLE_IN_CODE = re.compile(
    r'(?:environ(?:ment)?\.(?:get|pop)\(\s*|envvar=)"([A-Z_]+)"'
)


@pytest.mark.spec("11.1")
def test_every_environment_variable_is_documented_and_no_other() -> None:
    used = {
        name
        for source in SOURCES
        for name in _VARIABLE_IN_CODE.findall(source.read_text(encoding="utf-8"))
    }
    documented = table(section(CONFIGURATION, "## Environment variables"))

    assert {code(row["Variable"]) for row in documented} == used


def test_scripts_see_the_variables_and_runners_that_are_documented() -> None:
    page = DOCS / "how-to" / "run-scripts.md"
    [line] = [line for line in prose(page).splitlines() if "also sees" in line]
    rows = table(section(page, "## Choose the runner"))

    assert codes(line) == list(ENVIRONMENT_ALLOWED)
    assert {code(r["Extension"]): code(r["Command"]) for r in rows} == (
        Config().scripts.runners
    )
