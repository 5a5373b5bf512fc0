"""Checks of Host and Origin on every route, against DNS rebinding.

A web page can point its own name at this server, and the browser of a colleague then
sends requests here. Both headers reveal the page, and the page cannot set them.
"""

import ipaddress
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from skills_mcp.config import Http
from skills_mcp.config.values import LOOPBACK_NAMES, is_loopback
from skills_mcp.errors import ConfigError
from skills_mcp.http.error_responses import error_response
from skills_mcp.http.routes import PUBLIC_PATHS

logger = logging.getLogger(__name__)

_NAME = r"\[[0-9a-f:.]+\]|[a-z0-9_.-]+"
_HOST = re.compile(rf"({_NAME})(?::(\d{{1,5}}))?")
_ORIGIN = re.compile(rf"(https?)://({_NAME})(?::(\d{{1,5}}|\*))?")

_PORT = re.compile(r":\d*$")

_WILDCARD_ADDRESSES = ("0.0.0.0", "::")  # noqa: S104 - to recognise it
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_ANY_PORT = "*"

# What clients in a browser send, and what they must be able to read.
_METHODS = ("GET", "POST", "DELETE")
_REQUEST_HEADERS = (
    *("Authorization", "DPoP", "If-None-Match", "Last-Event-ID", "Mcp-Method", "Mcp-Name"),
    *("Mcp-Protocol-Version", "Mcp-Session-Id"),
    *("X-Skills-Project", "X-Skills-Scope"),
    *("Traceparent", "Tracestate"),
)
_EXPOSED_HEADERS = (
    "ETag",
    "Mcp-Session-Id",
    "Mcp-Protocol-Version",
    "Retry-After",
    "WWW-Authenticate",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedAddresses:
    """Allowed hosts and origins."""

    hosts: frozenset[str]
    """Lower case; without a port, any port matches."""
    origins: frozenset[str] = frozenset()
    """Such as `https://skills.example.com`; the port `*` matches any port."""
    any_ip_address: bool = False
    """Allow any IP address as host: no page has such a name."""

    @classmethod
    def of(cls, http: Http) -> Self:
        """Addresses allowed by the settings.

        Raises:
            ConfigError: The server listens on all addresses, and no setting names its
                URL.
        """
        own = bracket(http.host)
        names = LOOPBACK_NAMES if is_loopback(http.host) else ()
        configured = [*http.allowed_hosts, *_host_of(http.base_url)]
        if http.host in _WILDCARD_ADDRESSES and not configured:
            raise ConfigError(
                f"http.host is {http.host}, every address of this machine, so the "
                "server cannot know its own name. Set http.base_url to the URL that "
                "clients use, or http.allowed_hosts to the names that they use."
            )
        origins = {
            *http.allowed_origins,
            *_origin_of(http.base_url),
            *(f"{scheme}://{name}:*" for scheme in _DEFAULT_PORTS for name in names),
        }
        return cls(
            hosts=frozenset(map(_parse_allowed_host, (*configured, own, *names))),
            origins=frozenset(map(_parse_allowed_origin, origins)),
        )

    @classmethod
    def of_operations(cls, http: Http) -> Self:
        """Addresses allowed at the operations port: no web page.

        Probes use the IP address of a container, unknown to the settings.

        Raises:
            ConfigError: An entry is not a host.
        """
        configured = [*http.allowed_hosts, *_host_of(http.base_url)]
        names = (*configured, bracket(http.operations_host), *LOOPBACK_NAMES)
        return cls(hosts=frozenset(map(_parse_allowed_host, names)), any_ip_address=True)

    def allow_host(self, host: str) -> bool:
        if (match := _HOST.fullmatch(host.lower())) is None:
            return False
        name, port = match.groups()
        if self.any_ip_address and _is_ip_address(name):
            return True
        return name in self.hosts or f"{name}:{port}" in self.hosts

    def allow_origin(self, origin: str) -> bool:
        if (parts := _split_origin(origin)) is None:
            return False
        scheme, name, port = parts
        return bool({_join(scheme, name, port), _join(scheme, name, _ANY_PORT)} & self.origins)


@dataclass(frozen=True, slots=True)
class HostOriginMiddleware:
    """Middleware that rejects other hosts (421) and origins (403)."""

    _app: ASGIApp
    _addresses: AllowedAddresses
    _trust_proxy_headers: bool = False
    """Use `X-Forwarded-Host` instead of `Host`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._refuse(scope) or self._app)(scope, receive, send)

    def _refuse(self, scope: Scope) -> Response | None:
        if "\n" in scope["path"]:
            # The routes of Starlette match it like the path in front of the line break,
            # and the guards do not.
            return PlainTextResponse("Not Found", 404)
        found: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            if name in _CHECKED_HEADERS:
                found.setdefault(name, []).append(value.decode("latin-1"))
        hosts = found.get(b"host", [])
        if self._trust_proxy_headers and (forwarded := found.get(b"x-forwarded-host")):
            # A chain of proxies adds its hosts to the list, and each is checked.
            hosts = [host.strip() for line in forwarded for host in line.split(",")]
        if not hosts or not all(map(self._addresses.allow_host, hosts)):
            logger.info("Refused a request for the host %.200r", ", ".join(hosts))
            return error_response(421, "HOST_NOT_ALLOWED", _WRONG_HOST)
        origins = found.get(b"origin", [])
        if scope["path"] in PUBLIC_PATHS and not any(map(is_loopback_host, hosts)):
            return None  # any web page may read them, unless they tell what this machine runs
        if not all(map(self._addresses.allow_origin, origins)):
            logger.info("Refused a request of the origin %.200r", ", ".join(origins))
            return error_response(403, "ORIGIN_NOT_ALLOWED", _WRONG_ORIGIN)
        return None


_CHECKED_HEADERS = frozenset({b"host", b"x-forwarded-host", b"origin"})

_WRONG_HOST = (
    "This server does not answer under the name that the request has as its Host. "
    "Use the address that your organisation gave you. Operators: add the name to "
    "http.allowed_hosts."
)
_WRONG_ORIGIN = (
    "Requests of this web page are not answered. Operators: add its origin to http.allowed_origins."
)


def with_address_check(app: ASGIApp, http: Http) -> ASGIApp:
    """Wrap an application in both checks and CORS.

    Raises:
        ConfigError: The settings name no address.
    """
    # Only requests of an allowed origin reach it, so each origin that it sees is one.
    shared = CORSMiddleware(
        app,
        allow_origin_regex=".*",
        allow_methods=_METHODS,
        allow_headers=_REQUEST_HEADERS,
        expose_headers=_EXPOSED_HEADERS,
    )
    addresses, trusted = AllowedAddresses.of(http), http.trust_proxy_headers
    return HostOriginMiddleware(shared, addresses, trusted)


def is_loopback_host(host: str) -> bool:
    return is_loopback(_PORT.sub("", host))


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def bracket(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _host_of(base_url: str) -> Iterable[str]:
    host = urlsplit(base_url).hostname
    return [bracket(host)] if host else []


def _origin_of(base_url: str) -> Iterable[str]:
    parts = urlsplit(base_url)
    return [f"{parts.scheme}://{parts.netloc}"] if parts.netloc else []


def _parse_allowed_host(entry: str) -> str:
    if _HOST.fullmatch(host := entry.lower()) is None:
        raise ConfigError(
            f"http.allowed_hosts has {entry!r}, which is no host. Write a name or an "
            "address, with or without a port, such as skills.example.com."
        )
    return host


def _parse_allowed_origin(entry: str) -> str:
    if (parts := _split_origin(entry)) is None:
        raise ConfigError(
            f"http.allowed_origins has {entry!r}, which is no origin. Write scheme, "
            "host and port, such as https://skills.example.com or http://localhost:*."
        )
    return _join(*parts)


def _split_origin(origin: str) -> tuple[str, str, str] | None:
    """Scheme, host and port of an origin (RFC 6454); None if invalid."""
    if (match := _ORIGIN.fullmatch(origin.lower())) is None:
        return None
    scheme, name, port = match.groups()
    return scheme, name, port or _DEFAULT_PORTS[scheme]


def _join(scheme: str, name: str, port: str) -> str:
    return f"{scheme}://{name}:{port}"
