"""Every setting: what it means, its default, and what is allowed (001 §11.2)."""

import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import ErrorDetails

from skills_mcp.errors import shorten

Ratio = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=100)]
Minutes = Annotated[int, Field(ge=1, le=7 * 24 * 60)]
Seconds = Annotated[int, Field(ge=1, le=24 * 60 * 60)]
Bytes = Annotated[int, Field(ge=1, le=1 << 30)]
_EXTENSION = r"^\.[A-Za-z0-9]+$"
_ADDRESS = r"^(https?://\S+)?$"
Extension = Annotated[str, Field(pattern=_EXTENSION)]


def _require_words(command: str) -> str:
    shlex.split(command)  # ValueError: a quotation that never ends
    return command


Command = Annotated[str, AfterValidator(_require_words)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Matching(_Section):
    """How a task finds its skill (001 §5)."""

    min_score: Ratio = Field(
        default=0.2, description="Skills that score below this are not considered."
    )
    max_results: Count = Field(
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
    interval_minutes: Minutes = Field(
        default=15,
        description="Minutes between two fetches, give or take ten per cent.",
    )


class Scripts(_Section):
    """What `run_script` may do (001 §8.4, §12.2)."""

    enabled: bool = Field(default=True, description="The switch for all scripts.")
    timeout_seconds: Seconds = Field(
        default=60,
        description="Seconds after which a script and all its children are ended.",
    )
    max_output_bytes: Bytes = Field(
        default=1_048_576,
        description="Bytes kept of stdout and of stderr each; the rest is dropped.",
    )
    allowed_extensions: tuple[Extension, ...] = Field(
        default=(".sh", ".ts", ".js", ".py"),
        description="File extensions that may run.",
    )
    runners: dict[Extension, Command] = Field(
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

    max_size_bytes: Bytes = Field(
        default=1_048_576, description="Larger files are refused before they are read."
    )
    inline_text_max_bytes: Bytes = Field(
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
        pattern=_ADDRESS,
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


_IN_WORDS = {
    _ADDRESS: "an address that begins with https:// or http://",
    _EXTENSION: "an extension with its dot, such as .sh",
}

_IN_YAML = {
    "value_error": "a command as a shell would read it, with every quotation closed",
    "dict_type": "a mapping of `key: value` lines",
    "model_type": "a section of `key: value` lines",
    "tuple_type": "a list",
}
"""What pydantic says in the words of Python."""


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
    return f"{key}: must be {_wanted(detail)} (got {shorten(detail['input'])})"


def _wanted(detail: ErrorDetails) -> str:
    """Return what is allowed, in words for a person who writes YAML."""
    pattern = detail.get("ctx", {}).get("pattern")
    if pattern in _IN_WORDS:
        return _IN_WORDS[pattern]
    message = detail["msg"].removeprefix("Input should be ")
    return _IN_YAML.get(detail["type"], message)


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
