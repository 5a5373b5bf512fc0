"""Identification of callers and clients."""

import ipaddress
import math
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from mcp.server.context import ServerRequestContext

from skills_mcp.errors import RefreshLimitError
from skills_mcp.skills.access import OPERATOR, PRINCIPAL_KEY, Principal

# A subscriber of the Internet has at least so much of IPv6 (RFC 6177), so one client
# may use any address of it.
_SUBSCRIBER_PREFIX = 64


def caller_of(context: ServerRequestContext[Any, Any]) -> Principal:
    """Principal of a message; on standard input, the operator.

    Raises:
        KeyError: A request bypassed authentication: a defect of this program.
    """
    if context.request is None:
        return OPERATOR
    principal: Principal = context.request.scope[PRINCIPAL_KEY]
    return principal


def identify_client(scope: Mapping[str, Any], *, trust_proxy_headers: bool) -> Hashable:
    """Key of a client, for limits and fair shares.

    The principal after sign-in; without sign-in, the address (IPv6: its /64 network).
    Trusted proxy headers give the last address of `X-Forwarded-For`.
    """
    principal: Principal | None = scope.get(PRINCIPAL_KEY)
    if principal and principal.subject:
        return principal.issuer, principal.subject
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


_MINUTE_SECONDS = 60.0


class RefreshRateLimit:
    """Token buckets for `refresh_skills`, one per caller.

    A caller in a loop would exhaust the Git host's rate limit for everyone.

    Args:
        per_minute: Burst size, and refill per minute.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._tokens: dict[Hashable, tuple[float, float]] = {}
        """What each caller had left, and when; the latest last."""

    def take(self, caller: Hashable) -> None:
        """Take a token.

        Raises:
            RefreshLimitError: The bucket is empty; the message has the waiting time.
        """
        now = self._clock()
        self._forget(now - _MINUTE_SECONDS)
        per_second = self._per_minute / _MINUTE_SECONDS
        tokens, counted_at = self._tokens.pop(caller, (self._per_minute, now))
        tokens = min(self._per_minute, tokens + (now - counted_at) * per_second)
        self._tokens[caller] = (tokens - 1 if tokens >= 1 else tokens, now)
        if tokens < 1:
            seconds = math.ceil((1 - tokens) / per_second)
            raise RefreshLimitError(
                "You have called refresh_skills too often. The server fetches by "
                "itself every few minutes; go on with the skills that it has, or call "
                f"refresh_skills again in {seconds} s."
            )

    def _forget(self, before: float) -> None:
        while self._tokens:
            caller = next(iter(self._tokens))
            if self._tokens[caller][1] > before:
                return
            del self._tokens[caller]


def derive_bucket(
    context: ServerRequestContext[Any, Any], *, trust_proxy_headers: bool
) -> Hashable:
    if context.request is None:
        return OPERATOR.issuer, OPERATOR.subject
    scope = context.request.scope
    return identify_client(scope, trust_proxy_headers=trust_proxy_headers)
