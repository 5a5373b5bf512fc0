"""Sign-in by headers of a trusted reverse proxy.

Rule: a header counts only if the TCP peer is a configured proxy.
"""

import ipaddress
import logging
from collections.abc import Sequence
from typing import TypeAlias

from starlette.datastructures import Headers
from starlette.types import Scope

from skills_mcp.config import Grant, TrustedHeader
from skills_mcp.errors import ConfigError
from skills_mcp.features.web.browser_session import SessionSigner
from skills_mcp.features.web.notice_page import Notice
from skills_mcp.features.web.visitors import Visitor
from skills_mcp.skills.access import derive_access
from skills_mcp.skills.principal import MAX_NAME_CHARACTERS, READ, SCOPES, Principal

logger = logging.getLogger(__name__)

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

PROXY_ISSUER = "trusted-header"
"""Pseudo-issuer of these principals."""


class ProxySignIn:
    """Trusts the user headers of a proxy.

    Args:
        rules: Proxies and header names.
        seal: Signs form tokens.
        grants: Visibility grants; None for all skills.
    """

    def __init__(
        self,
        rules: TrustedHeader,
        seal: SessionSigner,
        grants: Sequence[Grant] | None,
    ) -> None:
        self._rules = rules
        self._seal = seal
        self._grants = grants
        self._proxies = parse_proxies(rules.proxies)

    def find(self, scope: Scope) -> Visitor | None:
        """User named by the proxy; None without one, or from another peer."""
        headers = Headers(scope=scope)
        named = headers.getlist(self._rules.user)
        if len(named) != 1 or not 0 < len(named[0].strip()) <= MAX_NAME_CHARACTERS:
            return None
        if not self._is_proxy(scope):
            logger.warning(
                "Refused %s of an address that is not in web.trusted_header.proxies",
                self._rules.user,
            )
            return None
        person = named[0].strip()
        listed = headers.getlist(self._rules.groups) if self._rules.groups else []
        groups = [group.strip() for line in listed for group in line.split(",")]
        claims = {"sub": person, self._rules.groups_claim: list(filter(None, groups))}
        access = derive_access(self._grants, claims)
        return Visitor(
            principal=Principal(person, PROXY_ISSUER, self._find_scopes(headers), access),
            name=person,
            form_token=self._seal.form_token(f"{PROXY_ISSUER}\0{person}"),
        )

    def _find_scopes(self, headers: Headers) -> frozenset[str]:
        name = self._rules.scopes
        listed = headers.getlist(name) if name else []
        named = {scope for line in listed for scope in line.replace(",", " ").split()}
        return frozenset({READ, *named.intersection(SCOPES)})

    def challenge(self, scope: Scope) -> Notice:
        """Explain the missing user header."""
        del scope
        return Notice(
            title="You are not signed in",
            message="The proxy in front of this server names no user. Open this "
            "page by the address that your organisation gave you.",
            link="/",
            link_text="Try again",
            status=401,
        )

    def _is_proxy(self, scope: Scope) -> bool:
        client = scope.get("client")
        if not client:
            return False
        try:
            address = ipaddress.ip_address(client[0])
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return any(address in network for network in self._proxies)


def parse_proxies(addresses: Sequence[str]) -> tuple[Network, ...]:
    """Parse the trusted networks.

    Raises:
        ConfigError: One is invalid, or covers all addresses.
    """
    networks = []
    for address in addresses:
        try:
            network = ipaddress.ip_network(address)
        except ValueError as error:
            raise ConfigError(
                f"web.trusted_header.proxies has {address!r}, which is no address and no "
                "network. Write one such as 10.0.0.5 or 10.0.0.0/28."
            ) from error
        if network.prefixlen == 0:
            raise ConfigError(
                f"web.trusted_header.proxies has {address}, which is every address: then "
                "each caller could claim to be anyone. Write the address of your proxy."
            )
        networks.append(network)
    return tuple(networks)
