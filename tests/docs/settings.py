"""Writes the schema, the example and the reference of the settings.

Run `python -m tests.docs.settings` after a change of a key; a test compares.
"""

import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import yaml
from pydantic.fields import FieldInfo

from skills_mcp.config.findings import SOURCE_RULES, SYNC_RULES
from skills_mcp.config.sections import (
    KEYS,
    Config,
    Grant,
    Rollout,
    RolloutTarget,
    Section,
    Source,
    is_section,
)
from skills_mcp.config.values import Option, SetBy
from skills_mcp.config.variables import VARIABLES
from tests.docs.pages import CONFIG_YAML, CONFIGURATION
from tests.support import PROJECT

SCHEMA = PROJECT / "config.schema.json"
EXAMPLE = PROJECT / "config.example.yaml"


def text_of(field: FieldInfo) -> str:
    return next((each for each in field.metadata if isinstance(each, str)), "")


def all_keys() -> Iterator[tuple[str, FieldInfo, SetBy]]:
    """Iterate over all keys, those of the items of lists too."""
    for path, key in KEYS.items():
        if is_section(key.field.annotation):
            continue
        yield ".".join(path), key.field, key.set_by
        for item in filter(is_section, typing.get_args(key.field.annotation)):
            for name, field in keys_of(item):
                yield f"{'.'.join(path)}[].{name}", field, key.set_by


def keys_of(section: type[Section]) -> Iterator[tuple[str, FieldInfo]]:
    """Iterate over the keys of an item, those of the sections in it too."""
    for name, field in section.model_fields.items():
        yield name, field
        inner = _without_none(field.annotation)
        for below, each in keys_of(inner) if is_section(inner) else ():
            yield f"{name}.{below}", each


def json_schema() -> dict[str, Any]:
    """The schema of a settings file, with the rules that join several keys."""
    for key in KEYS.values():
        if is_section(key.field.annotation):
            key.field.annotation.model_rebuild()  # its default is a part of the schema
    schema = _tidy(Config.model_json_schema())
    models: list[type[Section]] = [Config, Source, Rollout, RolloutTarget, Grant]
    models += [k.field.annotation for k in KEYS.values() if is_section(k.field.annotation)]
    for model in models:
        described = schema if model is Config else schema["$defs"][model.__name__]
        for name, field in model.model_fields.items():
            if text := text_of(field):
                described["properties"][name]["description"] = text
    for name in Config.model_fields:
        if name not in {"discover", "trust_content_config"}:
            schema["properties"][name] = _or_null(schema["properties"][name])
    schema["properties"]["share"]["anyOf"].append({"type": "boolean"})
    rules = [rule for group in SOURCE_RULES for rule in group]
    schema["$defs"]["Source"]["allOf"] = [{"not": r.refused} for r in rules if not r.among]
    schema["allOf"] = [
        *(
            {"if": rule.among, "then": _each_source({"not": rule.refused})}
            for rule in rules
            if rule.among
        ),
        *({"not": refused} for _, refused, _ in SYNC_RULES),
        {"properties": {"sources": _ONE_AT_THE_TOP}},
    ]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


_ONE_AT_THE_TOP = {
    "contains": {"properties": {"mount": {"const": ""}}},
    "minContains": 0,
    "maxContains": 1,
}
"""What JSON Schema can say of `mount`; it cannot compare items."""


def _each_source(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"properties": {"sources": {"items": schema}}}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Take a section without a value, as all of its keys may be commented out."""
    kept: dict[str, Any] = {k: schema.pop(k) for k in ("default", "description") if k in schema}
    return {**kept, "anyOf": [schema, {"type": "null"}]}


def _tidy(node: Any) -> Any:
    """Drop titles, as they only repeat the keys, and close maps with a pattern for keys."""
    if isinstance(node, list):
        return [_tidy(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    closed = {"additionalProperties": False} if "patternProperties" in node else {}
    return {key: _tidy(node[key]) for key in node if key != "title"} | closed


def render_schema() -> str:
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


_HEADER = """\
# yaml-language-server: $schema=./config.schema.json
#
# Every setting, with its default.  Keep what you change, and delete the rest.
# Yours: ~/.config/skills-mcp/config.yaml, or the file that --config names.
# The content's: config.yaml beside its skills.  Yours wins.
"""

_SAMPLE_SOURCE = {
    "repo": "https://github.com/example/skills.git",
    "branch": "main",
    "mount": "teams/web",
    "allowed_signers": "allowed_signers",
    "verify": "commit",
}

_SAMPLE_ACCESS = """\
# Two of them, with every key:
# access:
#   - allow: ["*"]
#     deny: [payments/*]
#   - when:
#       groups: [payments]
#     allow: [payments/*]
"""


def render_example() -> str:
    parts = [_HEADER]
    for name, field in Config.model_fields.items():
        lines = "".join(f"{line}\n" for line in _render_key(name, field))
        parts.append(lines + {"sources": _render_source(), "access": _SAMPLE_ACCESS}.get(name, ""))
    return "\n".join(parts)


def _render_key(name: str, field: FieldInfo, value: object = ...) -> Iterator[str]:
    value = field.default if value is ... else value
    if is_section(field.annotation):
        yield f"# {field.annotation.__doc__}"
        yield f"{name}:"
        for key, inner in field.annotation.model_fields.items():
            yield from (f"  {line}" for line in _render_key(key, inner))
        return
    yield f"# {text_of(field)}"
    if isinstance(value, dict) and value:
        yield f"{name}:"
        yield from (f"  {_scalar(key)}: {_scalar(inner)}" for key, inner in value.items())
        return
    yield f"{name}: {_scalar(value)}"


def _render_source() -> str:
    keys = [
        line
        for name, field in Source.model_fields.items()
        for line in _render_key(name, field, _SAMPLE_SOURCE.get(name, field.default))
    ]
    marks = ["- ", *["  "] * len(keys)]
    lines = (f"#   {mark}{line}\n" for mark, line in zip(marks, keys, strict=False))
    return "# One of them, with every key:\n# sources:\n" + "".join(lines)


def _scalar(value: object) -> str:
    """Write a value in a line of YAML, texts without quotation marks if they need none."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_scalar, value))}]"
    is_plain = isinstance(value, str) and re.fullmatch(r"(https://)?[\w./ -]+", value)
    return str(value) if is_plain and yaml.safe_load(str(value)) == value else json.dumps(value)


_TYPES: dict[object, str] = {
    float: "number",
    int: "whole number",
    bool: "true or false",
    str: "text",
    tuple: "list of texts",
    dict: "map of texts",
}


def describe_type(field: FieldInfo) -> str:
    kind = _without_none(field.annotation)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if is_section(kind):
        return "mapping"
    if origin is tuple and is_section(inner[0]):
        return "list of mappings"
    if origin is tuple and typing.get_origin(inner[0]) is Literal:
        return "list of " + " or ".join(f"`{v}`" for v in typing.get_args(inner[0]))
    if origin is dict and typing.get_origin(inner[1]) is tuple:
        return "map of lists"
    return _TYPES[origin or kind] + _describe_range(field)


def _without_none(kind: Any) -> Any:
    """Return what may be written down; None is what stands where nothing is."""
    if typing.get_origin(kind) not in {types.UnionType, typing.Union}:
        return kind
    [written] = [each for each in typing.get_args(kind) if each is not type(None)]
    return written


def _describe_range(field: FieldInfo) -> str:
    limits = [getattr(m, n) for n in ("ge", "le") for m in field.metadata if hasattr(m, n)]
    return f", {limits[0]:,} to {limits[1]:,}" if limits else ""


def render_keys() -> str:
    rows = (
        f"| `{key}` | {describe_type(field)} | {_default(field)} "
        f"| {set_by.value if not (own := _own(field)) else own.value} | {text_of(field)} |\n"
        for key, field, set_by in all_keys()
    )
    header = (
        "| Key | Type | Default | Remote content | Meaning |\n| --- | --- | --- | --- | --- |\n"
    )
    return header + "".join(rows)


def _default(field: FieldInfo) -> str:
    return "required" if field.is_required() else f"`{json.dumps(field.default)}`"


def _own(field: FieldInfo) -> SetBy | None:
    return next((each for each in field.metadata if isinstance(each, SetBy)), None)


_VALUES: Mapping[str, str] = {
    "list of texts": "Names separated by commas",
    "true or false": "`true` or `false`",
}


def render_variables() -> str:
    rows = []
    for variable in VARIABLES:
        field = KEYS[tuple(variable.key.split("."))].field
        kind = describe_type(field).partition(",")[0]
        value = _VALUES.get(kind, kind[0].upper() + kind[1:])
        switch = f"; sets `{variable.key.split('.')[0]}.enabled`, too"
        value += switch if variable.switches_on else ""
        rows.append(f"| `{variable.name}` | `{variable.key}` | {value} |\n")
    return "| Variable | Key | Value |\n| --- | --- | --- |\n" + "".join(rows)


def render_options() -> str:
    found = ((".".join(path), key.find(Option)) for path, key in KEYS.items())
    rows = (f"| `{option.name}` | `{key}` |\n" for key, option in found if option)
    return "| Option | Key |\n| --- | --- |\n" + "".join(rows)


def render_reference(page: str) -> str:
    tables = {
        "### Keys": render_keys(),
        "### Variables for settings": render_variables(),
        "### Options for settings": render_options(),
    }
    for heading, rows in tables.items():
        if f"\n{heading}\n" not in page:
            continue
        before, _, after = page.partition(f"\n{heading}\n")
        text, table = re.split(r"(?=^\|)", after, maxsplit=1, flags=re.MULTILINE)
        rest = re.sub(r"\A(\|.*\n)*", "", table)
        page = f"{before}\n{heading}\n{text}{rows}{rest}"
    return page


if __name__ == "__main__":
    SCHEMA.write_text(render_schema(), encoding="utf-8")
    EXAMPLE.write_text(render_example(), encoding="utf-8")
    for page in (CONFIGURATION, CONFIG_YAML):
        text = page.read_text(encoding="utf-8")
        page.write_text(render_reference(text), encoding="utf-8")
