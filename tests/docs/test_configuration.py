"""Settings, variables and runners in the pages are those of the program."""

import re
import types
import typing
from collections.abc import Iterator
from typing import Any, Literal

import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from skills_mcp.config import (
    OPERATOR_ONLY,
    OPERATOR_ONLY_KEYS,
    REMOTE_SECTIONS,
    VARIABLES,
    Config,
)
from skills_mcp.config.trust import LOWER_ONLY
from skills_mcp.config.variables import Variable
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
    float: "number",
    int: "whole number",
    bool: "true or false",
    str: "text",
    tuple: "list of texts",
    dict: "map of texts",
}


def settings() -> Iterator[tuple[str, FieldInfo]]:
    """Yield every key with its field: of sections, and of the items of lists."""
    yield from _fields(Config, "")


def _fields(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if not _is_section(kind):
            yield f"{prefix}{name}", field
        for inner, mark in ((kind, "."), *((i, "[].") for i in typing.get_args(kind))):
            if _is_section(inner):
                yield from _fields(inner, f"{prefix}{name}{mark}")


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def described_type(field: FieldInfo) -> str:
    kind = _without_none(field.annotation)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if origin is tuple and _is_section(inner[0]):
        return "list of mappings"
    if origin is tuple and typing.get_origin(inner[0]) is Literal:
        return "list of " + " or ".join(f"`{v}`" for v in typing.get_args(inner[0]))
    if origin is dict and typing.get_origin(inner[1]) is tuple:
        return "map of lists"
    return _TYPES[origin or kind] + _described_range(field)


def _without_none(kind: Any) -> Any:
    """Return what may be written down; None is what stands where nothing is."""
    if typing.get_origin(kind) not in {types.UnionType, typing.Union}:
        return kind
    [written] = [each for each in typing.get_args(kind) if each is not type(None)]
    return written


def _described_range(field: FieldInfo) -> str:
    limits = [getattr(m, n) for n in ("ge", "le") for m in field.metadata if hasattr(m, n)]
    return f", {limits[0]:,} to {limits[1]:,}" if limits else ""


def who_may_set(key: str) -> str:
    section_name, _, name = key.partition(".")
    if section_name.removesuffix("[]") in OPERATOR_ONLY:
        return "never"
    if (section_name, name) in OPERATOR_ONLY_KEYS:
        return "never"
    if (section_name, name) in LOWER_ONLY:
        return "may lower it"
    return "may set it" if section_name in REMOTE_SECTIONS else "if trusted"


@pytest.mark.spec("11.2")
def test_every_setting_is_documented_with_its_type_default_and_meaning() -> None:
    documented = table(section(CONFIGURATION, "### Keys"))

    assert [{**row, "Default": yaml.safe_load(code(row["Default"]))} for row in documented] == [
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
    r'(?:(?:environ(?:ment)?|variables)\.(?:get|pop)\(\s*|envvar=)"([A-Z_]+)"'
)


@pytest.mark.spec("11.1")
def test_every_environment_variable_is_documented_and_no_other() -> None:
    used = {
        name
        for source in SOURCES
        for name in _VARIABLE_IN_CODE.findall(source.read_text(encoding="utf-8"))
    }
    documented = table(section(CONFIGURATION, "## Environment variables"))

    assert {code(row["Variable"]) for row in documented} == (
        used | {variable.name for variable in VARIABLES}
    )


def test_every_variable_for_a_setting_is_documented_with_all_that_it_sets() -> None:
    documented = table(section(CONFIGURATION, "### Variables for settings"))

    assert [
        (code(row["Variable"]), [code(row["Key"]), *codes(row["Value"])]) for row in documented
    ] == [(variable.name, keys_set_by(variable)) for variable in VARIABLES]


def keys_set_by(variable: Variable) -> list[str]:
    section_name, _, _ = variable.key.partition(".")
    switch = [f"{section_name}.enabled"] if variable.switches_on else []
    return [variable.key, *switch]


def test_scripts_see_the_variables_and_runners_that_are_documented() -> None:
    page = DOCS / "how-to" / "run-scripts.md"
    [line] = [line for line in prose(page).splitlines() if "also sees" in line]
    rows = table(section(page, "## Choose the runner"))

    assert codes(line) == list(ENVIRONMENT_ALLOWED)
    assert {code(r["Extension"]): code(r["Command"]) for r in rows} == (Config().scripts.runners)
