"""Configuration layers, their precedence, and what content may set.

Rule: content gets never more than the operator allows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pydantic import ValidationError

from skills_mcp.config.findings import (
    Finding,
    Step,
    describe_validation_error,
    find_error_path,
    source_findings,
    sync_findings,
)
from skills_mcp.config.sections import KEYS, Config
from skills_mcp.config.values import SetBy
from skills_mcp.errors import ConfigError
from skills_mcp.text import safe_yaml

REMOTE_SECTIONS = tuple(
    path[0] for path, key in KEYS.items() if len(path) == 1 and key.set_by is SetBy.CONTENT
)
"""Sections an untrusted repository may set."""

LOWER_ONLY = tuple(path for path, key in KEYS.items() if key.set_by is SetBy.LOWERING)
"""Limits an untrusted repository may lower, never raise."""

SLOWEST_REFRESH_MINUTES = 60
"""Longest fetch interval a repository may set for itself.

A bad commit that switched the timer off would never be replaced by a good one.
"""

OPERATOR_ONLY = tuple(
    path[0] for path, key in KEYS.items() if len(path) == 1 and key.set_by is SetBy.OPERATOR
)
"""Keys no content may set: sources, visibility, rights, recipients of texts.

Limits are among these because they apply before any content is read.
"""

OPERATOR_ONLY_KEYS = tuple(
    path
    for path, key in KEYS.items()
    if key.set_by is SetBy.OPERATOR and path[0] not in OPERATOR_ONLY
)
"""Single keys no content may set, in sections open to trusted content.

Those of `scripts` confine a script, so the content of the script may not loosen them.
Those of `analytics` decide how much of people's texts is recorded, and for how long.
"""


def permitted_part(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Remove operator-only keys, for trusted content, too."""
    permitted = dict(values)
    refused = [name for name in OPERATOR_ONLY if name in permitted]
    for name in refused:
        del permitted[name]
    for section, key in OPERATOR_ONLY_KEYS:
        inner = permitted.get(section)
        if isinstance(inner, Mapping) and key in inner:
            permitted[section] = {k: v for k, v in inner.items() if k != key}
            refused.append(f"{section}.{key}")
        if permitted.get(section) == {}:
            del permitted[section]  # or the empty section would be reported again
    findings = [f"{name} is ignored: only the operator may set it" for name in refused]
    return permitted, findings


def valid_part(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Split values into valid keys and errors."""
    valid: dict[str, Any] = {}
    findings: list[str] = []
    for path, value in _leaves(values):
        try:
            Config.model_validate(nest(path, value))
        except ValidationError as error:
            findings += [describe_validation_error(detail) for detail in error.errors()]
            continue
        section, *keys = path
        for key in keys:
            valid.setdefault(section, {})[key] = value
        if not keys:
            valid[section] = value
    return valid, findings


def harmless_part(values: Mapping[str, Any], operator: Config) -> tuple[dict[str, Any], list[str]]:
    """Keep the keys open to an untrusted repository."""
    harmless = {name: values[name] for name in REMOTE_SECTIONS if name in values}
    findings = [
        f"{name} is ignored: only the operator may set it (trust_content_config)"
        for name in values
        if name not in REMOTE_SECTIONS
    ]
    for section, name in LOWER_ONLY:
        limit = getattr(getattr(operator, section), name)
        requested = harmless.get(section, {}).get(name, limit)
        if requested > limit:
            harmless[section] = {**harmless[section], name: limit}
            findings.append(
                f"{section}.{name}: {requested} is above the operator's limit; {limit} is used"
            )
    if "refresh" in harmless:
        harmless["refresh"], slowed = _keep_timer(harmless["refresh"], operator)
        findings += slowed
    return harmless, findings


def _keep_timer(requested: Mapping[str, Any], operator: Config) -> tuple[dict[str, Any], list[str]]:
    """Remove settings that would prevent the fetch of the next commit."""
    permitted, findings = dict(requested), []
    if permitted.get("enabled") is False:
        del permitted["enabled"]
        findings.append("refresh.enabled: only the operator may switch the timer off")
    slowest = max(SLOWEST_REFRESH_MINUTES, operator.refresh.interval_minutes)
    if permitted.get("interval_minutes", slowest) > slowest:
        findings.append(
            f"refresh.interval_minutes: {permitted['interval_minutes']} is above the limit "
            f"for content; {slowest} is used"
        )
        permitted["interval_minutes"] = slowest
    return permitted, findings


def _leaves(values: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value and name in Config.model_fields:
            yield from (((str(name), str(key)), inner) for key, inner in value.items())
        else:
            yield (str(name),), value


def nest(path: Sequence[str], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    return dict(value)


_MAX_BYTES = 4 * safe_yaml.MAX_YAML_CHARACTERS  # no character of UTF-8 is wider

_SECTIONS = frozenset(Config.model_fields) - {"discover", "trust_content_config"}
"""A section without a value, such as one with all keys commented out, is empty."""


class Layer(NamedTuple):
    """Values of one origin; `origin` is for messages."""

    origin: str
    values: Mapping[str, Any]
    text: str = ""
    """YAML of the values, in which a message names the line."""


def load_file(path: Path) -> Layer:
    """Load a configuration file.

    Raises:
        ConfigError: The file is not a mapping of settings.
    """
    try:
        with path.open("rb") as handle:
            return read_layer(str(path), handle)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def read_layer(origin: str, handle: BinaryIO) -> Layer:
    """Load settings from an open file; `origin` is for messages.

    Raises:
        ConfigError: The file is not a mapping of settings.
    """
    try:
        text = handle.read(_MAX_BYTES + 1).decode("utf-8-sig")
        values, repeated = safe_yaml.parse_yaml(text), safe_yaml.parse_yaml_strings(text).repeated
    except UnicodeDecodeError as error:
        raise ConfigError(f"{origin}: is not in UTF-8; save it in this encoding") from error
    except safe_yaml.YamlError as error:
        raise ConfigError(f"{origin}: cannot be read: {error}") from error
    if repeated:
        raise ConfigError(f"{origin}: {repeated[0]} occurs twice in one section: join the two")
    if values is None:
        return Layer(origin, {})
    if not isinstance(values, dict):
        raise ConfigError(f"{origin}: must hold `section: {{key: value}}` pairs")
    return Layer(origin, values, text)


def merge_layers(layers: tuple[Layer, ...]) -> dict[str, Any]:
    """Merge layers, the last one on top.

    Mappings are merged at every depth: a runner for `.rb` leaves the others alone.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        given = _plain(layer.values).items()
        values = {name: v for name, v in given if v is not None or name not in _SECTIONS}
        if isinstance(values.get("share"), bool):  # the short form of the section
            values["share"] = {"enabled": values["share"]}
        merged = _merge_values(merged, values)
    return merged


def _plain(value: Any) -> Any:
    """Convert lists to tuples, as frozen models need, keys to text, and 3.0 to 3."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _merge_values(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {name: _merge_values(below.get(name), value) for name, value in above.items()}


@cache
def _defaults() -> Layer:
    return Layer("default", Config().model_dump())


@dataclass(frozen=True, slots=True)
class Settings:
    """The operator's layers, lowest first; the content's is inserted later."""

    layers: tuple[Layer, ...] = ()

    def resolve(self) -> Config:
        """Resolve the configuration without any content.

        Raises:
            ConfigError: Lists all unknown keys and invalid values.
        """
        if not any(layer.values for layer in self.layers):
            return Config.model_construct()  # nothing to check, so no checker is built
        values = merge_layers((_defaults(), *self.layers))
        if findings := [f"{self._locate(path)}: {text}" for path, text in _find_errors(values)]:
            raise ConfigError("\n".join(findings))
        return Config.model_validate(values)

    def resolve_with(self, content: Layer, *, trusted: bool) -> tuple[Config, tuple[str, ...]]:
        """Resolve the configuration for content with its own settings.

        The content's forbidden keys and invalid values are ignored and reported in the
        second value: content never stops the server.
        """
        operator = self.resolve()
        values, findings = permitted_part(merge_layers((content,)))
        values, wrong = valid_part(values)
        findings += wrong
        if not trusted:
            values, refused = harmless_part(values, operator)
            findings += refused
        layers = (_defaults(), Layer(content.origin, values), *self.layers)
        return Config.model_validate(merge_layers(layers)), tuple(findings)

    def _locate(self, path: Sequence[Step]) -> str:
        """Origin of a value, with its line in a file.

        The highest layer with the value counts, or with the list around it.
        """
        keys = tuple(takewhile(lambda step: isinstance(step, str), path))
        holding = (layer for layer in self.layers[::-1] if _holds(layer, keys))
        layer = next(holding, _defaults())
        line = safe_yaml.find_line(layer.text, path)
        return f"{layer.origin}:{line}" if line else layer.origin


def _find_errors(values: Mapping[str, Any]) -> Iterator[Finding]:
    try:
        Config.model_validate(values)
    except ValidationError as error:
        for detail in error.errors():
            yield find_error_path(detail), describe_validation_error(detail)
    yield from source_findings(values)
    yield from sync_findings(values)


def _holds(layer: Layer, keys: Sequence[Step]) -> bool:
    values: Any = merge_layers((layer,))
    for key in keys:
        if not isinstance(values, Mapping) or key not in values:
            return False
        values = values[key]
    return True
