"""The entry of our server in the file of a host, as the host reads it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skills_mcp.features.hosts.host import BY_NAME, Host

_OURS = re.compile(r"skills[-_]mcp")

_CREDENTIALS = ("GITHUB_TOKEN", "SSH_AUTH_SOCK")

_FORWARDED = (
    *_CREDENTIALS,
    *("SKILLS_MCP_TOKEN_FILE", "SKILLS_MCP_HOME", "ANALYTICS_ENDPOINT"),
    *("ANALYTICS_TOKEN", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
    *("https_proxy", "http_proxy", "no_proxy"),
)
"""Variables that a server may need and that no option can stand for."""


@dataclass(frozen=True, slots=True)
class StartedServer:
    """A server that the host starts."""

    command: Sequence[str]
    """The program and its arguments."""
    variables: Sequence[str] = ()
    """The names of those that the server needs of the person's environment."""


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """A server at a URL."""

    url: str


Server = StartedServer | RemoteServer


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEntry:
    """An entry as it stands in a file of a host."""

    command: tuple[str, ...] = ()
    """The program and its arguments; empty if it names a URL."""
    url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Its variables, with references to those of the person not yet replaced."""
    forwarded: tuple[str, ...] = ()
    """The names of further variables that the server gets."""

    @property
    def is_ours(self) -> bool:
        """Whether it starts this program, or names a URL, which may be ours."""
        return bool(self.url) or any(map(_OURS.search, self.command))


def find_forwarded(
    environment: Mapping[str, str], *, is_shared: bool
) -> tuple[str, ...]:
    """Return the names of the variables that are set and that a server needs.

    Args:
        environment: That of the person who asks.
        is_shared: Whether other people use the entry; they have other proxies.
    """
    names = _CREDENTIALS if is_shared else _FORWARDED
    return tuple(name for name in names if environment.get(name))


def render_entry(host: Host, server: Server) -> dict[str, Any]:
    """Return an entry with the keys that this host reads.

    >>> from skills_mcp.features.hosts.host import find_host
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
    """Return an entry with what a person has added to the one before.

    Such as a time-out; the way to the server and its variables are those of `entry`.
    """
    if not isinstance(known, Mapping):
        return dict(entry)
    replaced = {"type", "command", "args", "url", "httpUrl", "env_vars"}
    kept = {key: value for key, value in known.items() if key not in replaced}
    merged = {**entry, **{key: kept[key] for key in kept if key not in entry}}
    variables = host.shape.environment
    ours, theirs = entry.get(variables), kept.get(variables)
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        merged[variables] = {**theirs, **ours}
    return merged


def parse_entry(host: Host, values: object) -> FoundEntry | None:
    """Return an entry of a host's file; None if it has no command and no URL."""
    if not isinstance(values, Mapping):
        return None
    url = values.get("url") or values.get("httpUrl")
    if isinstance(url, str):
        return FoundEntry(url=url)
    command, arguments = values.get("command"), values.get("args") or []
    words = command if isinstance(command, list) else [command, *arguments]
    if not words or not all(isinstance(word, str) for word in words):
        return None
    found = values.get(host.shape.environment)
    given = found.items() if isinstance(found, Mapping) else ()
    names = values.get("env_vars") or []
    return FoundEntry(
        command=tuple(words),
        environment={str(name): str(value) for name, value in given},
        forwarded=tuple(map(str, names)) if isinstance(names, list) else (),
    )


def _render_variables(host: Host, names: Sequence[str]) -> dict[str, Any]:
    if not names or not host.variable:
        return {}
    if host.variable == BY_NAME:
        return {"env_vars": list(names)}
    given = {name: host.variable.replace("NAME", name) for name in names}
    return {host.shape.environment: given}
