"""The operator's settings, waiting for those of the content."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Any

from pydantic import ValidationError

from skills_mcp.config.findings import Step, describe, parse_key, path_of
from skills_mcp.config.layers import Layer, merge
from skills_mcp.config.model import Config
from skills_mcp.config.sources import source_findings, sync_findings
from skills_mcp.config.trust import harmless_part, permitted_part, valid_part
from skills_mcp.errors import ConfigError


@cache
def _defaults() -> Layer:
    return Layer("default", Config().model_dump())


@dataclass(frozen=True, slots=True)
class Settings:
    """The operator's layers, lowest first, waiting for those of the content."""

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

        A key that the content may not set, or sets wrongly, is ignored and
        named in the second value: content never stops the server.
        """
        operator = self.resolve()
        values, findings = permitted_part(content.values)
        values, wrong = valid_part(values)
        findings += wrong
        if not trusted:
            values, refused = harmless_part(values, operator)
            findings += refused
        layers = (_defaults(), Layer(content.origin, values), *self.layers)
        return Config.model_validate(merge(layers)), tuple(findings)

    def origin_of(self, key: str) -> str:
        """Name the layer that decides a key, such as `sources[1].repo`."""
        path = parse_key(key)
        layer = self._deciding(path)
        return layer.origin if _holds(layer, path) else _defaults().origin

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


def _holds(layer: Layer, path: Sequence[Step]) -> bool:
    values: Any = merge((layer,))
    for step in path:
        if isinstance(step, int):
            if not isinstance(values, tuple) or step >= len(values):
                return False
        elif not isinstance(values, Mapping) or step not in values:
            return False
        values = values[step]
    return True
