"""Callers of a server: identity, access, and rate limit."""

import ipaddress
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from mcp.server.context import ServerRequestContext

from skills_mcp.errors import ContentUnavailableError
from skills_mcp.library import FIRST_CONTENT_SECONDS, NO_SKILLS_YET, LibraryView, SkillLibrary
from skills_mcp.skills.access import OPERATOR, PRINCIPAL_KEY, Principal

Context: TypeAlias = ServerRequestContext[Any, Any]

# Hosts ask for a list once, as soon as they are connected, and show what it has.
_STORED_CONTENT_SECONDS = 2.0

PROJECT_HEADER = "X-Skills-Project"
"""Header with the packages of a caller's project: `react@19.1, pypi:django@5.2`."""

CLIENT_KEY = "skills_mcp.client"
"""Key in the ASGI scope of the client's network, written once for each request."""

# A subscriber of the Internet has at least so much of IPv6 (RFC 6177), so one client
# may use any address of it.
_SUBSCRIBER_PREFIX = 64


def caller_of(context: Context) -> Principal:
    """Principal of a message; on standard input, the operator.

    Raises:
        KeyError: A request bypassed authentication: a defect of this program.
    """
    if context.request is None:
        return OPERATOR
    principal: Principal = context.request.scope[PRINCIPAL_KEY]
    return principal


def view_of(library: SkillLibrary, context: Context) -> LibraryView:
    caller = caller_of(context)
    return library.serving(caller).view(caller.access)


async def wait_for_view(library: SkillLibrary, context: Context) -> LibraryView:
    """View of a caller, after the first content.

    Raises:
        SkillsError: The first content cannot be loaded, or has not come in time.
    """
    try:
        await library.refresher.wait_until_ready(FIRST_CONTENT_SECONDS)
    except ContentUnavailableError:
        if not caller_of(context).access.is_granted:
            raise
        raise ContentUnavailableError(NO_SKILLS_YET) from None
    return view_of(library, context)


async def find_stored_view(library: SkillLibrary, context: Context) -> LibraryView | None:
    """View of a caller, without the network; None without content on this machine."""
    await library.refresher.wait_for_stored(_STORED_CONTENT_SECONDS)
    return view_of(library, context) if library.is_ready else None


def with_stated_project(view: LibraryView, context: Context) -> LibraryView:
    """The view for the project that a caller on another machine states.

    Raises:
        InvalidArgumentsError: The header is not written as it should be.
    """
    header = context.request.headers.get(PROJECT_HEADER, "") if context.request else ""
    if not header:
        return view
    from skills_mcp.library.project import parse_stated_project  # late: start-up

    return replace(view, project=parse_stated_project(header))


def client_of(scope: Mapping[str, Any]) -> Hashable:
    """Key of a client, for limits and fair shares: the subject, or the network."""
    return find_subject(scope) or scope[CLIENT_KEY]


def find_subject(scope: Mapping[str, Any]) -> tuple[str, str] | None:
    """Issuer and subject of a request; None without sign-in."""
    principal: Principal | None = scope.get(PRINCIPAL_KEY)
    return (principal.issuer, principal.subject) if principal and principal.subject else None


def find_network(scope: Mapping[str, Any], *, trust_proxy_headers: bool) -> str:
    """Network of a client: an address, or the /64 of an IPv6 address.

    Trusted proxy headers give the last address of `X-Forwarded-For`.
    """
    if trust_proxy_headers:
        lines = (v for name, v in scope["headers"] if name == b"x-forwarded-for")
        # The nearest proxy has added the last address; a client can write the others.
        if nearest := b",".join(lines).decode("latin-1").rpartition(",")[2].strip():
            return derive_network(nearest)
    client: tuple[str, int] | None = scope.get("client")
    return derive_network(client[0]) if client else ""


def derive_network(address: str) -> str:
    """Network of one subscriber: an IPv4 address, or the /64 of an IPv6 address.

    >>> derive_network("192.0.2.7"), derive_network("2001:db8::7")
    ('192.0.2.7', '2001:db8::/64')
    """
    if ":" not in address:
        return address
    try:
        network = ipaddress.IPv6Network((address, _SUBSCRIBER_PREFIX), strict=False)
    except ValueError:
        return address
    mapped = ipaddress.IPv6Address(address.partition("%")[0]).ipv4_mapped
    return str(mapped or network)


class RateLimit:
    """Token buckets, one per caller."""

    def __init__(
        self, burst: float, per_second: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._burst = burst
        self._per_second = per_second
        self._clock = clock
        self._tokens: dict[Hashable, tuple[float, float]] = {}
        """What each caller had left, and when; the latest last."""

    def take(self, caller: Hashable = "") -> float:
        """Take a token; 0, or the seconds until one is available."""
        now = self._clock()
        self._forget(now - self._burst / self._per_second)
        tokens, counted_at = self._tokens.pop(caller, (self._burst, now))
        refill = max(0.0, now - counted_at) * self._per_second
        tokens = min(self._burst, tokens + refill)
        self._tokens[caller] = (tokens - 1 if tokens >= 1 else tokens, now)
        return max(0.0, (1 - tokens) / self._per_second)

    def _forget(self, before: float) -> None:
        """Forget the callers whose buckets are full again."""
        while self._tokens:
            caller = next(iter(self._tokens))
            if self._tokens[caller][1] > before:
                return
            del self._tokens[caller]
