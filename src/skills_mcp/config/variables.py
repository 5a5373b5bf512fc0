"""Environment variables of settings, and misspelt ones.

Every key has `SKILLS_MCP__SECTION__KEY`; a variable with a name of its own wins over it.
Rule: no variable with a name of its own grants more rights; none switches commands on,
trusts content or a proxy, or lets callers in without sign-in.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from skills_mcp.config.findings import (
    REMOVED_KEYS,
    describe_allowed_value,
    describe_validation_error,
    find_error_path,
    quote_input,
    quote_value,
)
from skills_mcp.config.layers import Layer, merge_layers, nest
from skills_mcp.config.sections import KEYS, Config, is_section
from skills_mcp.config.values import Option, SetBy, Variable
from skills_mcp.errors import ConfigError

_MAX_DIGITS = 100  # more are outside of every range, and Python may refuse them


def _whole_number(text: str) -> object:
    is_number = text.strip().isdecimal() and len(text) <= _MAX_DIGITS
    return int(text) if is_number else text


def _number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


def _switch(text: str) -> object:
    return {"true": True, "false": False}.get(text.strip().casefold(), text)


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _names(text: str) -> object:
    if text.lstrip().startswith("["):
        return _json(text)
    # An empty list would allow more than its author meant.
    return tuple(filter(None, map(str.strip, text.split(",")))) or text


_PARSERS: Mapping[object, Callable[[str], object]] = {
    int: _whole_number,
    float: _number,
    bool: _switch,
    tuple: _names,
    dict: _json,
}
"""Converters of texts by the type of a key; invalid text is passed through."""


@dataclass(frozen=True, slots=True)
class KeyVariable:
    """An environment variable for a key."""

    name: str
    key: str
    """Dotted path of the setting."""
    switches_on: bool = False
    """Whether it also sets `enabled` of the section."""

    def values(self, text: str) -> dict[str, Any]:
        """Nested values, as in `config.yaml`."""
        *sections, name = self.key.split(".")
        values: dict[str, Any] = {"enabled": True} if self.switches_on else {}
        values[name] = self._parse(text)
        return nest(sections, values)

    def _parse(self, text: str) -> object:
        kind = _LEAVES[self.key]
        if get_origin(kind) is UnionType:
            [kind] = (each for each in get_args(kind) if each is not NoneType)
        return _PARSERS.get(get_origin(kind) or kind, str)(text)


_LEAVES = {
    ".".join(path): key.field.annotation
    for path, key in KEYS.items()
    if not is_section(key.field.annotation)
}

VARIABLES = tuple(
    KeyVariable(variable.name, ".".join(path), variable.switches_on)
    for path, key in KEYS.items()
    if (variable := key.find(Variable))
)
"""Variables with a name of their own."""

_GENERIC_PREFIX = "SKILLS_MCP__"


def name_generic_variable(key: str) -> str:
    """Name the variable of any key.

    >>> name_generic_variable("http.auth.issuer")
    'SKILLS_MCP__HTTP__AUTH__ISSUER'
    """
    return _GENERIC_PREFIX + key.replace(".", "__").upper()


_GENERIC = {
    name: KeyVariable(name, key) for key in _LEAVES for name in [name_generic_variable(key)]
}


def is_tracking_refused(environment: Mapping[str, str]) -> bool:
    """Whether `DO_NOT_TRACK` forbids the recording of events.

    >>> is_tracking_refused({"DO_NOT_TRACK": "1"})
    True
    >>> is_tracking_refused({"DO_NOT_TRACK": "0"})
    False
    """
    return environment.get("DO_NOT_TRACK", "").strip() not in {"", "0"}


def parse_environment(environment: Mapping[str, str]) -> Layer:
    """Parse environment variables; empty ones are ignored.

    Raises:
        ConfigError: Lists all variables with unknown names or invalid values.
    """
    texts = {name: text for name, text in environment.items() if text}
    generic = sorted(name for name in texts if name.startswith(_GENERIC_PREFIX))
    findings = [_describe_unknown(name) for name in generic if name not in _GENERIC]
    findings += [
        f"{name} is an unreplaced placeholder. Write its value"
        for name in generic
        if _PLACEHOLDER.fullmatch(texts[name])
    ]
    known = (*(_GENERIC[name] for name in generic if name in _GENERIC), *VARIABLES)
    single = [
        Layer(variable.name, variable.values(texts[variable.name]))
        for variable in known
        if variable.name in texts
    ]
    for layer in single:
        findings += _find_errors(layer, texts[layer.origin])
    if findings:
        raise ConfigError("\n".join(f"environment: {finding}" for finding in findings))
    if is_tracking_refused(environment):
        single.append(Layer("DO_NOT_TRACK", {"analytics": {"enabled": False}}))
    return Layer("environment", merge_layers(tuple(single)))


def _describe_unknown(name: str) -> str:
    key = name.removeprefix(_GENERIC_PREFIX).replace("__", ".").lower()
    if key in REMOVED_KEYS:
        return f"{name}: {REMOVED_KEYS[key]}"
    keys = [known.removeprefix(_GENERIC_PREFIX) for known in _GENERIC]
    near = get_close_matches(name.removeprefix(_GENERIC_PREFIX), keys, n=1)
    hint = f"Did you mean {_GENERIC_PREFIX}{near[0]}?" if near else "See config.example.yaml."
    return f"{name} is the name of no setting. {hint}"


def _find_errors(layer: Layer, text: str) -> Iterator[str]:
    try:
        Config.model_validate(merge_layers((layer,)))
    except ValidationError as error:
        for detail in error.errors():
            yield _describe_error(layer.origin, text, detail)


def _describe_error(name: str, text: str, detail: ErrorDetails) -> str:
    *_, last = path = find_error_path(detail)
    if isinstance(last, int):
        got = quote_value(detail["input"])
        return f"every name in {name} must be {describe_allowed_value(detail)} (got {got})"
    if ".".join(map(str, path)) not in _LEAVES:
        return f"{name}: {describe_validation_error(detail)}"
    is_list = detail["type"] == "tuple_type"
    allowed = "names separated by commas" if is_list else describe_allowed_value(detail)
    return f"{name} must be {allowed} (got {quote_input(detail, text)})"


_OPTIONS = (
    *("SKILLS_BRANCH", "SKILLS_DIR", "SKILLS_EVERYWHERE", "SKILLS_MCP_HOME"),
    *("SKILLS_MCP_LOG_LEVEL", "SKILLS_MCP_PROJECT_ROOT", "SKILLS_MCP_TOKEN_FILE"),
    *(
        "SKILLS_MCP_RUNTIME_DIR",
        "SKILLS_MCP_SHARE",
        "SKILLS_MCP_TRANSPORT",
        "SKILLS_PLUGINS",
        "SKILLS_REF",
        "SKILLS_REPO",
        "SKILLS_SUBFOLDER",
    ),
    *(option.variable for key in KEYS.values() if (option := key.find(Option))),
)
"""Variables that the command line reads, and those of folders."""

_PREFIX = "SKILLS_MCP_"
_SIMILAR_PREFIX = re.compile(r"(?:SKILLS?_MCP|SKILLS?HUB|SKILLS?)_", re.IGNORECASE)
_LONG_NAMES = {"REPOSITORY": "SKILLS_REPO", "DIRECTORY": "SKILLS_DIR"}

_MIN_SIMILARITY = 0.8  # one or two letters of a word


@dataclass(frozen=True, slots=True)
class UnknownVariable:
    """A variable no code reads."""

    name: str
    suggestion: str
    """Suggested variable; empty if none is similar."""

    def __str__(self) -> str:
        if self.suggestion:
            return f"{self.name} is not read. Did you mean {self.suggestion}?"
        return f"{self.name} is not read: there is no such variable."


def find_unknown_variables(environment: Mapping[str, str]) -> tuple[UnknownVariable, ...]:
    """Find probable misspellings, sorted.

    Other programs may use `SKILLS_`, too, so those names count only if similar to a known one.
    Wrong names of `SKILLS_MCP__` are errors of `parse_environment`.
    """
    known = {*_OPTIONS, *(variable.name for variable in VARIABLES)}
    unknown = [
        name
        for name in sorted(filter(_SIMILAR_PREFIX.match, environment))
        if environment[name] and name not in known and not name.startswith(_GENERIC_PREFIX)
    ]
    bare = _LONG_NAMES | {_strip_prefix(name): name for name in sorted(known)}
    found = []
    for name in unknown:
        near = get_close_matches(_strip_prefix(name), bare, n=1, cutoff=_MIN_SIMILARITY)
        if near or name.startswith(_PREFIX):
            found.append(UnknownVariable(name, bare[near[0]] if near else ""))
    return tuple(found)


def _strip_prefix(name: str) -> str:
    return _SIMILAR_PREFIX.sub("", name, count=1).replace("_", "").upper()


# As hosts, shells and templates write a reference: ${NAME}, ${env:NAME}, {env:NAME},
# {{NAME}}, $NAME, $env:NAME, %NAME% and $(command), also at the beginning of a path.
_PLACEHOLDER = re.compile(
    r"\$\{[^{}]*\}|\{\{[^{}]*\}\}|\{(?:env|file):[^{}]*\}|^\$\(.*\)$"
    r"|^(?:\$(?:env:)?[A-Z_][A-Z0-9_]*|%[A-Z_][A-Z0-9_]*%)(?=[/\\]|$)"
)

# Those of others are theirs; and a placeholder in `DO_NOT_TRACK` forbids the recording.
_SHARED = frozenset(
    {
        *("GITHUB_TOKEN", "ANALYTICS_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY"),
        *("LOG_LEVEL", "CODELIA_AGENTS_ROOT"),
    }
)


def clear_placeholders(environment: MutableMapping[str, str]) -> tuple[str, ...]:
    """Empty the variables with an unreplaced placeholder, and describe them.

    A key that only the operator may set may guard something, so it keeps its value, and
    `parse_environment` refuses it.
    """
    ours = _SHARED | {*_OPTIONS, *(variable.name for variable in VARIABLES)}
    unset = [
        name
        for name, text in sorted(environment.items())
        if (name in ours and _PLACEHOLDER.search(text))
        or (name in _GENERIC and _PLACEHOLDER.fullmatch(text) and not _is_guard(name))
    ]
    environment.update(dict.fromkeys(unset, ""))
    return tuple(
        f"{name} is an unreplaced placeholder, so it counts as unset. Write "
        "its value, or the notation of your host"
        for name in unset
    )


def _is_guard(name: str) -> bool:
    return KEYS[tuple(_GENERIC[name].key.split("."))].set_by is SetBy.OPERATOR
