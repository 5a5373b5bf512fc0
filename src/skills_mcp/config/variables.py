"""Environment variables of settings, and misspelt ones.

Rule: no variable grants more rights; none switches commands on, trusts content or a
proxy, or lets callers in without sign-in.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from skills_mcp.config.findings import (
    describe_allowed_value,
    find_error_path,
    quote_value,
)
from skills_mcp.config.layers import Layer, merge_layers
from skills_mcp.config.sections import Config
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


def _names(text: str) -> object:
    # An empty list would allow more than its author meant.
    return tuple(filter(None, map(str.strip, text.split(",")))) or text


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable for a key."""

    name: str
    key: str
    """Dotted path of the setting."""
    parse: Callable[[str], object] = str
    """Converts the text; invalid text is passed through, to be reported."""
    switches_on: bool = False
    """Whether it also sets `enabled` of the section."""

    def values(self, text: str) -> dict[str, Any]:
        """Nested values, as in `config.yaml`."""
        *sections, name = self.key.split(".")
        values: dict[str, Any] = {"enabled": True} if self.switches_on else {}
        values[name] = self.parse(text)
        for section in reversed(sections):
            values = {section: values}
        return values


VARIABLES = (
    Variable("ANALYTICS_ENDPOINT", "analytics.endpoint", switches_on=True),
    Variable("ANALYTICS_TOKEN_FILE", "analytics.token_file"),
    Variable("ANALYTICS_GROUP", "analytics.group"),
    Variable(
        "REFRESH_INTERVAL_MINUTES",
        "refresh.interval_minutes",
        _whole_number,
        switches_on=True,
    ),
    Variable("SEARCH_LIMIT", "search.limit", _whole_number),
    Variable("SEARCH_THRESHOLD", "search.threshold", _number),
    Variable("EMBEDDING_PROVIDER", "embedding.provider"),
    Variable("EMBEDDING_MODEL", "embedding.model"),
    Variable("SKILLHUB_ENABLED_SKILLS", "visibility.enabled_skills", _names),
    Variable("SKILLHUB_ENABLED_CATEGORIES", "visibility.enabled_categories", _names),
    Variable("MAX_FILE_BYTES", "files.max_bytes", _whole_number),
    Variable("ALLOWED_COMMANDS", "commands.allowed", _names),
    Variable("EXEC_TIMEOUT_SECONDS", "commands.timeout_seconds", _whole_number),
    Variable("EXEC_MAX_OUTPUT_BYTES", "commands.max_output_bytes", _whole_number),
    Variable("SKILLS_MCP_HTTP_HOST", "http.host"),
    Variable("SKILLS_MCP_HTTP_PORT", "http.port", _whole_number),
    Variable("SKILLS_MCP_HTTP_OPERATIONS_HOST", "http.operations_host"),
    Variable("SKILLS_MCP_HTTP_OPERATIONS_PORT", "http.operations_port", _whole_number),
    Variable("SKILLS_MCP_HTTP_BASE_URL", "http.base_url"),
    Variable("SKILLS_MCP_HTTP_STATELESS", "http.stateless", _switch),
    Variable("SKILLS_MCP_HTTP_ALLOWED_HOSTS", "http.allowed_hosts", _names),
    Variable("SKILLS_MCP_HTTP_ALLOWED_ORIGINS", "http.allowed_origins", _names),
    Variable("SKILLS_MCP_HTTP_ISSUER", "http.auth.issuer"),
    Variable("SKILLS_MCP_HTTP_AUDIENCE", "http.auth.audience"),
    Variable("SKILLS_MCP_HTTP_WEBHOOK_SECRET_FILE", "http.webhook_secret_file"),
    Variable("SKILLS_MCP_EVENTS_ENABLED", "events.enabled", _switch),
    Variable("SKILLS_MCP_EVENTS_DATABASE", "events.database"),
    Variable("SKILLS_MCP_EVENTS_INGEST_TOKEN_FILE", "events.ingest_token_file"),
    Variable("SKILLS_MCP_EVENTS_RETENTION_DAYS", "events.retention_days", _whole_number),
    Variable("SKILLS_MCP_WEB_ENABLED", "web.enabled", _switch),
    Variable("SKILLS_MCP_WEB_CLIENT_ID", "web.client_id"),
    Variable("SKILLS_MCP_WEB_CLIENT_SECRET_FILE", "web.client_secret_file"),
    Variable("SKILLS_MCP_WEB_COOKIE_KEY_FILE", "web.cookie_key_file"),
    Variable("SKILLS_MCP_UPLOAD_MODE", "upload.mode"),
    Variable("SKILLS_MCP_UPLOAD_SOURCE", "upload.source"),
)


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
        ConfigError: Lists all variables with invalid values.
    """
    set_variables = [(variable, environment.get(variable.name, "")) for variable in VARIABLES]
    set_variables = [(variable, text) for variable, text in set_variables if text]
    findings = [
        finding for variable, text in set_variables for finding in _find_errors(variable, text)
    ]
    if findings:
        raise ConfigError("\n".join(f"environment: {variable}" for variable in findings))
    single = [Layer(variable.name, variable.values(text)) for variable, text in set_variables]
    if is_tracking_refused(environment):
        single.append(Layer("DO_NOT_TRACK", {"analytics": {"enabled": False}}))
    return Layer("environment", merge_layers(tuple(single)))


def _find_errors(variable: Variable, text: str) -> Iterator[str]:
    try:
        Config.model_validate(variable.values(text))
    except ValidationError as error:
        for detail in error.errors():
            yield _describe_error(variable.name, text, detail)


def _describe_error(name: str, text: str, detail: ErrorDetails) -> str:
    if isinstance(find_error_path(detail)[-1], int):
        got = quote_value(detail["input"])
        return f"every name in {name} must be {describe_allowed_value(detail)} (got {got})"
    is_list = detail["type"] == "tuple_type"
    allowed = "names separated by commas" if is_list else describe_allowed_value(detail)
    return f"{name} must be {allowed} (got {quote_value(text)})"


_OPTIONS = (
    "SKILLS_BRANCH",
    "SKILLS_DIR",
    "SKILLS_EVERYWHERE",
    "SKILLS_MCP_DISCOVER",
    "SKILLS_MCP_HOME",
    "SKILLS_MCP_LOG_LEVEL",
    "SKILLS_MCP_OFFLINE",
    "SKILLS_MCP_PROJECT_ROOT",
    "SKILLS_MCP_TOKEN_FILE",
    "SKILLS_MCP_TOOLSETS",
    "SKILLS_MCP_TRANSPORT",
    "SKILLS_PLUGINS",
    "SKILLS_REF",
    "SKILLS_REPO",
    "SKILLS_SUBFOLDER",
)
"""Variables of options and folders: no settings."""

_PREFIX = "SKILLS_MCP_"
_SIMILAR_PREFIX = re.compile(r"(?:SKILLS?_MCP|SKILLS?HUB|SKILLS?)_")

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


def find_unknown_variables(
    environment: Mapping[str, str],
) -> tuple[UnknownVariable, ...]:
    """Find probable misspellings, sorted.

    Other programs may use `SKILLS_`, too, so those names count only if similar to a
    known
    one.
    """
    looked_at = sorted(name for name in environment if _SIMILAR_PREFIX.match(name))
    known = {*_OPTIONS, *(variable.name for variable in VARIABLES)}
    unknown = [name for name in looked_at if environment[name] and name not in known]
    if not unknown:
        return ()
    from difflib import get_close_matches

    bare = {_strip_prefix(name): name for name in sorted(known)}
    found = []
    for name in unknown:
        near = get_close_matches(_strip_prefix(name), bare, n=1, cutoff=_MIN_SIMILARITY)
        if near or name.startswith(_PREFIX):
            found.append(UnknownVariable(name, bare[near[0]] if near else ""))
    return tuple(found)


def _strip_prefix(name: str) -> str:
    return _SIMILAR_PREFIX.sub("", name, count=1).replace("_", "")
