"""The operator's settings, waiting for those of the content."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from skills_mcp.config.layers import Layer, merge, plain
from skills_mcp.config.model import Config, describe
from skills_mcp.config.trust import harmless_part, valid_part
from skills_mcp.errors import ConfigError

_DEFAULTS = Layer("default", Config().model_dump())


@dataclass(frozen=True, slots=True)
class Settings:
    """The operator's layers, lowest first, waiting for those of the content."""

    layers: tuple[Layer, ...] = ()

    def resolve(self) -> Config:
        """Return the configuration without any content.

        Raises:
            ConfigError: Naming every unknown key and wrong value.
        """
        try:
            return Config.model_validate(merge((_DEFAULTS, *self.layers)))
        except ValidationError as error:
            findings = [self._finding(detail) for detail in error.errors()]
            raise ConfigError("\n".join(findings)) from error

    def resolve_with(
        self, content: Layer, *, trusted: bool
    ) -> tuple[Config, tuple[str, ...]]:
        """Return the configuration for content with settings of its own.

        A key that the content may not set, or sets wrongly, is ignored and
        named in the second value: content never stops the server.
        """
        operator = self.resolve()
        values, findings = valid_part(content.values)
        if not trusted:
            values, refused = harmless_part(values, operator)
            findings += refused
        layers = (_DEFAULTS, Layer(content.origin, values), *self.layers)
        return Config.model_validate(merge(layers)), tuple(findings)

    def origin_of(self, key: str) -> str:
        """Name the layer that decides the dotted `key`."""
        return self._origin(key.split("."))

    def _origin(self, path: Sequence[object]) -> str:
        # An item of a list comes with its list, from one layer.
        for depth in (len(path), 2):
            for layer in reversed(self.layers):
                if _holds(plain(layer.values), path[:depth]):
                    return layer.origin
        return _DEFAULTS.origin

    def _finding(self, detail: ErrorDetails) -> str:
        return f"{self._origin(detail['loc'])}: {describe(detail)}"


def _holds(values: Any, path: Sequence[object]) -> bool:
    for name in path:
        if not isinstance(values, Mapping) or name not in values:
            return False
        values = values[name]
    return True
