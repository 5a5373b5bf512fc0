"""Settings from one place each, and how they lie on top of each other (001 §11.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from skills_mcp.config.model import Config
from skills_mcp.errors import ConfigError
from skills_mcp.text.safe_yaml import MAX_YAML_CHARACTERS, YamlError, parse_values

_MAX_BYTES = 4 * MAX_YAML_CHARACTERS  # no character of UTF-8 is wider

SECTIONS = frozenset(Config.model_fields) - {"discover", "trust_content_config"}
"""Without a value, as after commenting out every key, a section sets nothing."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings from one place; `origin` is how a person would name that place."""

    origin: str
    values: Mapping[str, Any]


def load_file(path: Path) -> Layer:
    """Read a configuration file.

    Raises:
        ConfigError: The file is no mapping of settings.
    """
    try:
        with path.open("rb") as handle:
            return read_layer(str(path), handle)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def read_layer(origin: str, handle: BinaryIO) -> Layer:
    """Read settings from an open file that a person calls `origin`.

    Raises:
        ConfigError: The file is no mapping of settings.
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
        values = plain(layer.values)
        emptied = [name for name in SECTIONS & values.keys() if values[name] is None]
        for name in emptied:
            del values[name]
        merged = _on_top(merged, values)
    return merged


def plain(value: Any) -> Any:
    """YAML has lists where the frozen models have tuples, and keys of any type."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def _on_top(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {
        name: _on_top(below.get(name), value) for name, value in above.items()
    }
