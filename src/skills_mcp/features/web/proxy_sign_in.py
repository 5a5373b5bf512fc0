"""People whom a proxy in front of this server has signed in, and names in a header.

Rule: a header counts only if the connection itself comes from a proxy of the settings.
"""

import ipaddress
import logging
from collections.abc import Sequence
from typing import TypeAlias

from starlette.datastructures import Headers
from starlette.types import Scope

from skills_mcp.config import Grant, TrustedHeader
from skills_mcp.errors import ConfigError
from skills_mcp.features.web.browser_session import SessionSeal
from skills_mcp.features.web.notice_page import Notice
from skills_mcp.features.web.visitors import Visitor
from skills_mcp.skills.access import derive_access
from skills_mcp.skills.principal import MAX_NAME_CHARACTERS, READ, SCOPES, Principal

logger = logging.getLogger(__name__)

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

ISSUER = "trusted-header"
"""What stands for the identity provider of these people."""


class ProxySignIn:
    """Believes what the proxy says of a person.

    Args:
        rules: Which proxy, and which headers.
        seal: Makes the tokens of forms.
        grants: Which callers see which skills; None for all.
    """

    def __init__(
        self,
        rules: TrustedHeader,
        seal: SessionSeal,
        grants: Sequence[Grant] | None,
    ) -> None:
        self._rules = rules
        self._seal = seal
        self._grants = grants
        self._proxies = parse_proxies(rules.proxies)

    def find(self, scope: Scope) -> Visitor | None:
        """Return the user that the proxy names; None if it names none or is unknown."""
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
        groups = [each.strip() for line in listed for each in line.split(",")]
        claims = {"sub": person, self._rules.groups_claim: list(filter(None, groups))}
        access = derive_access(self._grants, claims)
        return Visitor(
            principal=Principal(person, ISSUER, self._find_scopes(headers), access),
            name=person,
            form_token=self._seal.form_token(f"{ISSUER}\0{person}"),
        )

    def _find_scopes(self, headers: Headers) -> frozenset[str]:
        name = self._rules.scopes
        listed = headers.getlist(name) if name else []
        named = {each for line in listed for each in line.replace(",", " ").split()}
        return frozenset({READ, *named.intersection(SCOPES)})

    def turn_away(self, scope: Scope) -> Notice:
        """Say that the proxy has named no user."""
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


def parse_proxies(given: Sequence[str]) -> tuple[Network, ...]:
    """Return the networks whose headers are believed.

    Raises:
        ConfigError: One is no network, or every address there is.
    """
    networks = []
    for each in given:
        try:
            network = ipaddress.ip_network(each)
        except ValueError as error:
            raise ConfigError(
                f"web.trusted_header.proxies has {each!r}, which is no address and no "
                "network. Write one such as 10.0.0.5 or 10.0.0.0/28."
            ) from error
        if network.prefixlen == 0:
            raise ConfigError(
                f"web.trusted_header.proxies has {each}, which is every address: then "
                "each caller could claim to be anyone. Write the address of your proxy."
            )
        networks.append(network)
    return tuple(networks)
