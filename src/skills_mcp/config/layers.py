"""Where settings come from, and which of them wins."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from skills_mcp.config.findings import (
    Step,
    describe,
    path_of,
    source_findings,
    sync_findings,
)
from skills_mcp.config.sections import Config
from skills_mcp.config.trust import harmless_part, permitted_part, valid_part
from skills_mcp.errors import ConfigError
from skills_mcp.text.safe_yaml import MAX_YAML_CHARACTERS, YamlError, parse_values

_MAX_BYTES = 4 * MAX_YAML_CHARACTERS  # no character of UTF-8 is wider

_SECTIONS = frozenset(Config.model_fields) - {"discover", "trust_content_config"}
"""A section without a value, with every key commented out, sets nothing."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The settings of one place; `origin` names it in messages."""

    origin: str
    values: Mapping[str, Any]


def load_file(path: Path) -> Layer:
    """Read a configuration file.

    Raises:
        ConfigError: The file is not a mapping of settings.
    """
    try:
        with path.open("rb") as handle:
            return read_layer(str(path), handle)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def read_layer(origin: str, handle: BinaryIO) -> Layer:
    """Read settings from an open file; `origin` names it in messages.

    Raises:
        ConfigError: The file is not a mapping of settings.
    """
    try:
        values = parse_values(handle.read(_MAX_BYTES + 1).decode("utf-8-sig"))
    except (UnicodeDecodeError, YamlError) as error:
        raise ConfigError(f"{origin}: cannot be read: {error}") from error
    if values is None:
        return Layer(origin, {})
    if not isinstance(values, dict):
        raise ConfigError(f"{origin}: must hold `section: {{key: value}}` pairs")
    return Layer(origin, values)


def merge(layers: tuple[Layer, ...]) -> dict[str, Any]:
    """Return all values, the last layer's on top.

    Mappings are merged at every depth: a runner for `.rb` leaves the others alone.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        values = _plain(layer.values)
        emptied = [name for name in _SECTIONS & values.keys() if values[name] is None]
        for name in emptied:
            del values[name]
        merged = _on_top(merged, values)
    return merged


def _plain(value: Any) -> Any:
    """Return lists as tuples, which frozen models need, and every key as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _on_top(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {
        name: _on_top(below.get(name), value) for name, value in above.items()
    }


@cache
def _defaults() -> Layer:
    return Layer("default", Config().model_dump())


@dataclass(frozen=True, slots=True)
class Settings:
    """The operator's layers, lowest first; those of the content are added later."""

    layers: tuple[Layer, ...] = ()

    def resolve(self) -> Config:
        """Return the configuration without any content.

        Raises:
            ConfigError: Naming every unknown key and wrong value.
        """
        if not any(layer.values for layer in self.layers):
            return Config.model_construct()  # nothing to check, so no checker is built
        values = merge((_defaults(), *self.layers))
        if findings := (*self._wrong_keys(values), *self._wrong_sources(values)):
            raise ConfigError("\n".join(findings))
        return Config.model_validate(values)

    def resolve_with(
        self, content: Layer, *, trusted: bool
    ) -> tuple[Config, tuple[str, ...]]:
        """Return the configuration for content with settings of its own.

        A key that the content may not set, or whose value is wrong, is ignored and
        named in the second value: content never stops the server.
        """
        operator = self.resolve()
        values, findings = permitted_part(merge((content,)))
        values, wrong = valid_part(values)
        findings += wrong
        if not trusted:
            values, refused = harmless_part(values, operator)
            findings += refused
        layers = (_defaults(), Layer(content.origin, values), *self.layers)
        return Config.model_validate(merge(layers)), tuple(findings)

    def _wrong_keys(self, values: Mapping[str, Any]) -> Iterator[str]:
        try:
            Config.model_validate(values)
        except ValidationError as error:
            for detail in error.errors():
                origin = self._deciding(path_of(detail)).origin
                yield f"{origin}: {describe(detail)}"

    def _wrong_sources(self, values: Mapping[str, Any]) -> Iterator[str]:
        sources, sync = values["sources"], values["sync"]
        origin = self._deciding(("sources",)).origin
        for finding in source_findings(sources, sync):
            yield f"{origin}: {finding}"
        for key, finding in sync_findings(sources, sync):
            yield f"{self._deciding(('sync', key)).origin}: {finding}"

    def _deciding(self, path: Sequence[Step]) -> Layer:
        """Return the highest layer with the value, or with the list that it is in."""
        keys = tuple(takewhile(lambda step: isinstance(step, str), path))
        holding = (each for each in self.layers[::-1] if _holds(each, keys))
        return next(holding, _defaults())


def _holds(layer: Layer, keys: Sequence[Step]) -> bool:
    values: Any = merge((layer,))
    for key in keys:
        if not isinstance(values, Mapping) or key not in values:
            return False
        values = values[key]
    return True
