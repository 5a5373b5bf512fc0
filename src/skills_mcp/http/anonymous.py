"""Authentication and authorisation of HTTP requests (OAuth 2.0 resource server).

With sign-in configured, no request without a valid token passes this module. Tokens are
accepted in the Authorization header only: URLs end up in logs and histories.
"""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from skills_mcp.config import Config, Http
from skills_mcp.config.loopback import is_loopback
from skills_mcp.errors import ConfigError
from skills_mcp.skills.principal import FEEDBACK, READ, REFRESH, SCOPES

DEPRECATED_SCOPES = (READ, REFRESH, FEEDBACK)
"""Scopes of `http.allow_anonymous`: the MCP tools."""

_PORT = re.compile(r":\d*$")


def derive_anonymous_scopes(config: Config) -> frozenset[str]:
    """Scopes of every caller without sign-in.

    Callers are trusted by default only if nothing but this machine can reach the
    server.
    Otherwise the operator names the scopes, or the server does not start.

    Raises:
        ConfigError: The settings contradict each other, or other machines reach the
        server
            and no scopes are configured.
    """
    http = config.http
    if http.anonymous is not None and http.allow_anonymous:
        raise ConfigError(
            "http.anonymous replaces http.allow_anonymous: leave http.allow_anonymous out."
        )
    named = DEPRECATED_SCOPES if http.allow_anonymous else http.anonymous
    if http.auth.issuer:
        return _check_absent(http, named)
    if named is not None:
        return frozenset(named)
    if reach := next(_find_remote_reach(config), ""):
        raise ConfigError(
            f"{reach}, so other machines may reach the server, and there is no "
            "sign-in. Set http.auth.issuer and http.base_url, or say what callers "
            f"without sign-in may do: `http.anonymous: [{READ}]` if everyone who "
            "reaches the server may read the skills, `http.anonymous: []` for "
            "nothing. A server for its own machine needs neither: it listens on "
            "127.0.0.1, has no other name, and is behind no proxy."
        )
    return frozenset(SCOPES)


def _check_absent(http: Http, named: tuple[str, ...] | None) -> frozenset[str]:
    if named:
        setting = "allow_anonymous" if http.allow_anonymous else "anonymous"
        raise ConfigError(
            f"http.auth.issuer asks for sign-in, and http.{setting} for none: leave "
            "one of them out."
        )
    return frozenset()


def _find_remote_reach(config: Config) -> Iterator[str]:
    http, header = config.http, config.web.trusted_header.user
    if not is_loopback(http.host):
        yield f"http.host is {http.host}"
    if http.base_url and not is_loopback(urlsplit(http.base_url).hostname or ""):
        yield f"http.base_url is {http.base_url}"
    for host in http.allowed_hosts:
        if not is_loopback(_PORT.sub("", host)):
            yield f"http.allowed_hosts has {host}"
    if http.trust_proxy_headers:
        yield "http.trust_proxy_headers is true"
    if header:
        yield f"web.trusted_header.user is {header}"
