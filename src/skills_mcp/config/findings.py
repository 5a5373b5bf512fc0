"""What is wrong with a setting, in one line for a person who writes YAML."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from skills_mcp.config.model import Config
from skills_mcp.config.values import IN_WORDS, MAY_BE_SECRET
from skills_mcp.errors import shorten

Step = str | int
"""A key of a mapping, or the number of an item in a list, from 0."""

_IN_YAML = {
    "bool_type": "true or false",
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "dict_type": "a mapping of `key: value` lines",
    "model_type": "a section of `key: value` lines",
    "tuple_type": "a list",
    "too_short": "a list that is not empty",
}
"""What pydantic says in the words of Python."""

_NUMBERS: dict[object, str] = {int: "a whole number", float: "a number"}
_USERINFO = re.compile(r"//[^/\s]*@")
_OF_A_KEY = "[key]"  # how pydantic marks that a key is wrong, not its value


def name_key(path: Sequence[Step]) -> str:
    """Return how a person would write down where a value stands.

    >>> name_key(("sources", 1, "repo"))
    'sources[1].repo'
    """
    named = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(named).removeprefix(".")


def parse_key(name: str) -> tuple[Step, ...]:
    """Undo `name_key`.  A dot right after a dot belongs to an extension.

    >>> parse_key("sources[1].repo"), parse_key("scripts.runners..sh")
    (('sources', 1, 'repo'), ('scripts', 'runners', '.sh'))
    """
    steps = re.split(r"(?<!\.)\.|(?=\[\d+\])", name)
    return tuple(
        int(step[1:-1]) if re.fullmatch(r"\[\d+\]", step) else step for step in steps
    )


def path_of(detail: ErrorDetails) -> tuple[Step, ...]:
    """Return where the wrong value or key stands."""
    path = detail["loc"]
    return path[:-1] if path[-1] == _OF_A_KEY else path


def describe(detail: ErrorDetails) -> str:
    """Say which key is wrong and what is allowed there."""
    *section, name = path_of(detail)
    key = name_key([*section, name])
    if detail["type"] == "extra_forbidden":
        allowed = sorted(_fields_at(section))
        guess = get_close_matches(str(name), allowed, n=1)
        hint = f"did you mean {guess[0]}? " if guess else ""
        return f"unknown key {key}; {hint}allowed here: {', '.join(allowed)}"
    is_shown = detail.get("ctx", {}).get("pattern") not in MAY_BE_SECRET
    got = show(detail["input"]) if is_shown else "what may be a secret"
    return f"{key}: must be {wanted(detail)} (got {got})"


def wanted(detail: ErrorDetails) -> str:
    """Return what is allowed where the wrong value stands."""
    pattern = detail.get("ctx", {}).get("pattern")
    if pattern in IN_WORDS:
        return IN_WORDS[pattern]
    message = detail["msg"].removeprefix("Input should be ")
    return _number_at(path_of(detail)) or _IN_YAML.get(detail["type"], message)


def show(value: object) -> str:
    """Return a wrong value as a person wrote it, but never a secret of theirs."""
    try:
        has_secret = _USERINFO.search(repr(value)) is not None
    except ValueError:  # a number of more digits than Python prints
        has_secret = False
    if has_secret:
        return "an address with a secret in it"
    return shorten(list(value) if isinstance(value, tuple) else value)


def _number_at(path: Sequence[Step]) -> str:
    """Return which numbers are allowed; an empty text where none are."""
    field = _fields_at(path[:-1]).get(str(path[-1]))
    if field is None or field.annotation not in _NUMBERS:
        return ""
    limits = {
        name: getattr(rule, name)
        for rule in field.metadata
        for name in ("ge", "le")
        if hasattr(rule, name)
    }
    return f"{_NUMBERS[field.annotation]} from {limits['ge']} to {limits['le']}"


def _fields_at(path: Sequence[Step]) -> Mapping[str, FieldInfo]:
    """Return the settings below a path; there are none outside of sections."""
    fields: Mapping[str, FieldInfo] = Config.model_fields
    for step in path:
        if isinstance(step, str):  # the items of a list are all alike
            fields = _fields_of(fields[step]) if step in fields else {}
    return fields


def _fields_of(field: FieldInfo) -> Mapping[str, FieldInfo]:
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind.model_fields
    return {}
