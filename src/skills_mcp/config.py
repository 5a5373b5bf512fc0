"""What can be set, where each value came from, and who may set it (001 §11).

Precedence: defaults < `config.yaml` of the content < the operator's file <
environment < command line (DESIGN §3.12). Content cannot raise its own
privileges: from a remote repository only `matching`, `assets` and `refresh`
count, and limits may only be lowered, unless the operator's file says
`trust_content_config: true`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from skills_mcp.errors import ConfigError
from skills_mcp.safe_yaml import MAX_YAML_CHARACTERS, YamlError, parse_values

Ratio = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Positive = Annotated[int, Field(ge=1)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Matching(_Section):
    """How a task finds its skill (001 §5)."""

    min_score: Ratio = Field(
        default=0.2, description="Skills that score below this are not considered."
    )
    max_results: Positive = Field(
        default=3, description="The most candidates that an ambiguous answer lists."
    )
    ambiguity_threshold: Ratio = Field(
        default=0.1,
        description="If the best two scores differ by less, the answer is ambiguous.",
    )


class Refresh(_Section):
    """When the Git repository is fetched without being asked (001 §9.3)."""

    enabled: bool = Field(
        default=True,
        description="Whether to fetch at all between two calls of `refresh_skills`.",
    )
    interval_minutes: Positive = Field(
        default=15,
        description="Minutes between two fetches, give or take ten per cent.",
    )


class Scripts(_Section):
    """What `run_script` may do (001 §8.4, §12.2)."""

    enabled: bool = Field(default=True, description="The switch for all scripts.")
    timeout_seconds: Positive = Field(
        default=60,
        description="Seconds after which a script and all its children are ended.",
    )
    max_output_bytes: Positive = Field(
        default=1_048_576,
        description="Bytes kept of stdout and of stderr each; the rest is dropped.",
    )
    allowed_extensions: tuple[str, ...] = Field(
        default=(".sh", ".ts", ".js", ".py"),
        description="File extensions that may run.",
    )
    runners: dict[str, str] = Field(
        default={
            ".sh": "bash",
            ".ts": "npx tsx",
            ".js": "node",
            ".py": "python3",
        },
        description="The command for each extension; the script's path is appended.",
    )


class Assets(_Section):
    """How large a file may be (001 §12.3)."""

    max_size_bytes: Positive = Field(
        default=1_048_576, description="Larger files are refused before they are read."
    )
    inline_text_max_bytes: Positive = Field(
        default=10_240,
        description="With responses.format markdown, larger texts get their own block.",
    )


class Analytics(_Section):
    """What is counted, and who is told (001 §10)."""

    enabled: bool = Field(
        default=False, description="Whether events are written down at all."
    )
    endpoint: str = Field(
        default="",
        description="The URL that events are posted to; without one they stay here.",
    )


class Responses(_Section):
    """How replies are shaped (DESIGN §3.14)."""

    format: Literal["json", "markdown"] = Field(
        default="json",
        description="json: one block. markdown: the text in a block of its own.",
    )


class Config(_Section):
    """Every setting, with its default."""

    matching: Matching = Matching()
    refresh: Refresh = Refresh()
    scripts: Scripts = Scripts()
    assets: Assets = Assets()
    analytics: Analytics = Analytics()
    responses: Responses = Responses()
    trust_content_config: bool = Field(
        default=False,
        description="Whether a remote repository's config.yaml may set everything.",
    )


REMOTE_SECTIONS = ("matching", "assets", "refresh")
"""What a remote repository may set without being trusted."""

_MAX_BYTES = 4 * MAX_YAML_CHARACTERS  # no character of UTF-8 is wider

_SECTIONS = frozenset(Config.model_fields) - {"trust_content_config"}
"""Without a value, as after commenting out every key, a section sets nothing."""

_IN_YAML = {
    "dict_type": "a mapping of `key: value` lines",
    "model_type": "a section of `key: value` lines",
    "tuple_type": "a list",
}
"""What pydantic says in the words of Python."""

_LOWER_ONLY = (("assets", "max_size_bytes"), ("assets", "inline_text_max_bytes"))


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings from one place; `origin` is how a person would name that place."""

    origin: str
    values: Mapping[str, Any]


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
            return Config.model_validate(_merge(self.layers))
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
        values, findings = _valid_part(content.values)
        if not trusted:
            values, refused = _harmless_part(values, operator)
            findings += refused
        layers = (Layer(content.origin, values), *self.layers)
        return Config.model_validate(_merge(layers)), tuple(findings)

    def origin_of(self, key: str) -> str:
        """Name the layer that decides the dotted `key`."""
        return self._origin(key.split("."))

    def _origin(self, path: Sequence[object]) -> str:
        # What is deeper than `section.key` comes with it, from one layer.
        for layer in reversed(self.layers):
            if _holds(_plain(layer.values), path[:2]):
                return layer.origin
        return "default"

    def _finding(self, detail: ErrorDetails) -> str:
        return f"{self._origin(detail['loc'])}: {describe(detail)}"


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


def environment_layer(environment: Mapping[str, str]) -> Layer:
    """Return what environment variables set (001 §11.3).

    Raises:
        ConfigError: `REFRESH_INTERVAL_MINUTES` is no whole number.
    """
    values: dict[str, Any] = {}
    if endpoint := environment.get("ANALYTICS_ENDPOINT"):
        values["analytics"] = {"enabled": True, "endpoint": endpoint}
    if minutes := environment.get("REFRESH_INTERVAL_MINUTES"):
        if not minutes.strip().isdecimal():
            raise ConfigError(
                "environment: REFRESH_INTERVAL_MINUTES must be a whole number of "
                f"minutes, 1 or more (got {minutes!r})"
            )
        values["refresh"] = {"enabled": True, "interval_minutes": int(minutes)}
    return Layer("environment", values)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of `config.yaml`, for editors that complete and check."""
    schema = _without_titles(Config.model_json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def describe(detail: ErrorDetails) -> str:
    """Say in one line which key is wrong and what is allowed there."""
    *section, name = map(str, detail["loc"])
    key = ".".join([*section, name])
    if detail["type"] == "extra_forbidden":
        allowed = sorted(_allowed(section))
        guess = get_close_matches(name, allowed, n=1)
        hint = f"did you mean {guess[0]}? " if guess else ""
        return f"unknown key {key}; {hint}allowed here: {', '.join(allowed)}"
    message = detail["msg"].removeprefix("Input should be ")
    allowed_here = _IN_YAML.get(detail["type"], message)
    return f"{key}: must be {allowed_here} (got {detail['input']!r})"


def _allowed(section: Sequence[str]) -> set[str]:
    """Return the keys of a section, or the names of all sections."""
    model = getattr(Config(), section[0]) if section else Config()
    return set(type(model).model_fields)


def _without_titles(node: Any) -> Any:
    """Drop what only repeats the name of a key."""
    if isinstance(node, list):
        return [_without_titles(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    return {key: _without_titles(node[key]) for key in node if key != "title"}


def _merge(layers: tuple[Layer, ...]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for layer in layers:
        for name, value in _plain(layer.values).items():
            below = merged.get(name)
            if isinstance(below, dict) and isinstance(value, dict):
                merged[name] = {**below, **value}
            elif value is not None or name not in _SECTIONS:
                merged[name] = value
    return merged


def _plain(value: Any) -> Any:
    """YAML has lists where the frozen models have tuples, and keys of any type."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return tuple(value) if isinstance(value, list) else value


def _valid_part(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Split what is valid from what is not, key by key."""
    valid: dict[str, Any] = {}
    findings: list[str] = []
    for path, value in _leaves(values):
        single = _nested(path, value)
        try:
            Config.model_validate(_merge((Layer("", single),)))
        except ValidationError as error:
            findings += [describe(detail) for detail in error.errors()]
        else:
            valid = _merge((Layer("", valid), Layer("", single)))
    return valid, findings


def _harmless_part(
    values: Mapping[str, Any], operator: Config
) -> tuple[dict[str, Any], list[str]]:
    """Keep what an untrusted repository may set (DESIGN §3.12)."""
    harmless = {name: values[name] for name in REMOTE_SECTIONS if name in values}
    findings = [
        f"{name} is ignored: only the operator may set it (trust_content_config)"
        for name in values
        if name not in REMOTE_SECTIONS
    ]
    for section, name in _LOWER_ONLY:
        limit = getattr(getattr(operator, section), name)
        wanted = harmless.get(section, {}).get(name, limit)
        if wanted > limit:
            harmless[section] = {**harmless[section], name: limit}
            findings.append(
                f"{section}.{name}: {wanted} is above the operator's limit; "
                f"{limit} stays"
            )
    return harmless, findings


def _leaves(values: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value and name in Config.model_fields:
            yield from (((str(name), str(key)), inner) for key, inner in value.items())
        else:
            yield (str(name),), value


def _nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    return dict(value)


def _holds(values: Any, path: Sequence[object]) -> bool:
    for name in path:
        if not isinstance(values, Mapping) or name not in values:
            return False
        values = values[name]
    return True
