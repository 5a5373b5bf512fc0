"""Server entries in the formats of hosts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skills_mcp.features.hosts.host import BY_NAME, Host

_PROGRAM_NAME = re.compile(r"skills[-_]mcp")

_CREDENTIALS = ("GITHUB_TOKEN", "SSH_AUTH_SOCK")

_FORWARDED = (
    *_CREDENTIALS,
    *("SKILLS_MCP_TOKEN_FILE", "SKILLS_MCP_HOME", "ANALYTICS_ENDPOINT"),
    *("ANALYTICS_TOKEN", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
    *("https_proxy", "http_proxy", "no_proxy"),
)
"""Variables a server may need and no option can replace."""


@dataclass(frozen=True, slots=True)
class StartedServer:
    command: Sequence[str]
    variables: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RemoteServer:
    url: str


Server = StartedServer | RemoteServer


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedEntry:
    """An entry parsed from a host's file."""

    command: tuple[str, ...] = ()
    url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Its variables, with unexpanded references."""
    forwarded: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether it starts this program; any URL may."""
        return bool(self.url) or any(map(_PROGRAM_NAME.search, self.command))


def find_forwarded_variables(environment: Mapping[str, str], *, is_shared: bool) -> tuple[str, ...]:
    """Select the set variables to forward; a shared entry omits the proxies."""
    names = _CREDENTIALS if is_shared else _FORWARDED
    return tuple(name for name in names if environment.get(name))


def render_entry(host: Host, server: Server) -> dict[str, Any]:
    """Render an entry with a host's keys.

    >>> from skills_mcp.hosts.host import find_host
    >>> render_entry(find_host("cursor"), RemoteServer("https://skills.acme.com/mcp"))
    {'url': 'https://skills.acme.com/mcp'}
    """
    shape = host.shape
    if isinstance(server, RemoteServer):
        trailing = {} if host.is_toml else shape.trailing
        return {**shape.remote, "url": server.url, **trailing}
    program, *arguments = server.command
    words: dict[str, Any] = {"command": program, "args": arguments}
    if shape.is_one_list:
        words = {"command": [program, *arguments]}
    return {
        **shape.started,
        **words,
        **_render_variables(host, server.variables),
        **shape.trailing,
    }


def merge_entry(host: Host, known: object, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Keep a person's additions to an entry, such as a time-out.

    Command, URL and variables come from `entry`.
    """
    if not isinstance(known, Mapping):
        return dict(entry)
    replaced = {"type", "command", "args", "url", "httpUrl", "env_vars"}
    added = {key: value for key, value in known.items() if key not in replaced}
    merged = {**entry, **{key: added[key] for key in added if key not in entry}}
    variables = host.shape.environment
    ours, theirs = entry.get(variables), added.get(variables)
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        merged[variables] = {**theirs, **ours}
    return merged


def parse_entry(host: Host, values: object) -> ParsedEntry | None:
    """Parse an entry; None without a command or URL."""
    if not isinstance(values, Mapping):
        return None
    url = values.get("url") or values.get("httpUrl")
    if isinstance(url, str):
        return ParsedEntry(url=url)
    command, arguments = values.get("command"), values.get("args") or []
    words = command if isinstance(command, list) else [command, *arguments]
    if not words or not all(isinstance(word, str) for word in words):
        return None
    found = values.get(host.shape.environment)
    pairs = found.items() if isinstance(found, Mapping) else ()
    names = values.get("env_vars") or []
    return ParsedEntry(
        command=tuple(words),
        environment={str(name): str(value) for name, value in pairs},
        forwarded=tuple(map(str, names)) if isinstance(names, list) else (),
    )


def _render_variables(host: Host, names: Sequence[str]) -> dict[str, Any]:
    if not names or not host.variable:
        return {}
    if host.variable == BY_NAME:
        return {"env_vars": list(names)}
    references = {name: host.variable.replace("NAME", name) for name in names}
    return {host.shape.environment: references}
