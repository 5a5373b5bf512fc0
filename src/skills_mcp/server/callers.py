"""Who has sent a message or a request."""

import ipaddress
from collections.abc import Hashable, Mapping
from typing import Any

from mcp.server.context import ServerRequestContext

from skills_mcp.skills.principal import OPERATOR, PRINCIPAL_KEY, Principal

# A subscriber of the Internet has at least so much of IPv6 (RFC 6177), so one client
# may use any address of it.
_SUBSCRIBER_PREFIX = 64


def caller_of(context: ServerRequestContext[Any, Any]) -> Principal:
    """Return the caller of a message; on standard input, the operator.

    Raises:
        KeyError: A request came past the sign-in, which is a defect of this program.
    """
    if context.request is None:
        return OPERATOR
    principal: Principal = context.request.scope[PRINCIPAL_KEY]
    return principal


def identify_client(scope: Mapping[str, Any], *, trust_proxy_headers: bool) -> Hashable:
    """Key of the client of a request, for limits and shares.

    It is the caller after sign-in; without sign-in, the address, or the network of a
    subscriber for IPv6.

    Args:
        scope: The request.
        trust_proxy_headers: Whether the last address of `X-Forwarded-For` counts.
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
    """Network of one subscriber: an IPv4 address itself, of an IPv6 address the /64.

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
