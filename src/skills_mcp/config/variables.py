"""Which environment variables set a key of the settings.

Rule: no variable grants more rights; none switches commands on, trusts content or a
proxy, or lets callers in without sign-in.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from skills_mcp.config.findings import path_of, show, wanted
from skills_mcp.config.layers import Layer, merge
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
    """An environment variable that sets a key."""

    name: str
    key: str
    """The dotted key: the sections and the setting."""
    parse: Callable[[str], object] = str
    """Returns the value; the text itself if it is not one, to be reported."""
    switches_on: bool = False
    """Whether it sets `enabled` of the same section, too."""

    def values(self, text: str) -> dict[str, Any]:
        """Return what the variable sets, as `config.yaml` would."""
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
    Variable(
        "SKILLS_MCP_EVENTS_RETENTION_DAYS", "events.retention_days", _whole_number
    ),
    Variable("SKILLS_MCP_WEB_ENABLED", "web.enabled", _switch),
    Variable("SKILLS_MCP_WEB_CLIENT_ID", "web.client_id"),
    Variable("SKILLS_MCP_WEB_CLIENT_SECRET_FILE", "web.client_secret_file"),
    Variable("SKILLS_MCP_WEB_COOKIE_KEY_FILE", "web.cookie_key_file"),
    Variable("SKILLS_MCP_UPLOAD_MODE", "upload.mode"),
    Variable("SKILLS_MCP_UPLOAD_SOURCE", "upload.source"),
)


def refuses_tracking(environment: Mapping[str, str]) -> bool:
    """Whether `DO_NOT_TRACK` forbids any program to record events.

    >>> refuses_tracking({"DO_NOT_TRACK": "1"}), refuses_tracking({"DO_NOT_TRACK": "0"})
    (True, False)
    """
    return environment.get("DO_NOT_TRACK", "").strip() not in {"", "0"}


def environment_layer(environment: Mapping[str, str]) -> Layer:
    """Return what environment variables set; an empty one sets nothing.

    Raises:
        ConfigError: Naming every variable with a wrong value.
    """
    given = [(each, environment.get(each.name, "")) for each in VARIABLES]
    given = [(each, text) for each, text in given if text]
    findings = [finding for each, text in given for finding in _findings(each, text)]
    if findings:
        raise ConfigError("\n".join(f"environment: {each}" for each in findings))
    single = [Layer(each.name, each.values(text)) for each, text in given]
    if refuses_tracking(environment):
        single.append(Layer("DO_NOT_TRACK", {"analytics": {"enabled": False}}))
    return Layer("environment", merge(tuple(single)))


def _findings(variable: Variable, text: str) -> Iterator[str]:
    try:
        Config.model_validate(variable.values(text))
    except ValidationError as error:
        for detail in error.errors():
            yield _describe(variable.name, text, detail)


def _describe(name: str, text: str, detail: ErrorDetails) -> str:
    if isinstance(path_of(detail)[-1], int):
        got = show(detail["input"])
        return f"every name in {name} must be {wanted(detail)} (got {got})"
    is_list = detail["type"] == "tuple_type"
    allowed = "names separated by commas" if is_list else wanted(detail)
    return f"{name} must be {allowed} (got {show(text)})"
