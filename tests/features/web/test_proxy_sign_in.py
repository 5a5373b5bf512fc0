"""Which proxy is believed, and what it can say."""

from typing import Any

import pytest

from skills_mcp.config import Grant, TrustedHeader
from skills_mcp.errors import ConfigError
from skills_mcp.features.web.browser import SessionSigner, Visitor
from skills_mcp.features.web.browser_sign_in import ProxySignIn, parse_proxies
from skills_mcp.skills.access import READ, REPORT
from tests.features.web.visiting import KEY

GRANTS = (
    Grant(allow=("*",)),
    Grant(when={"groups": ("payments",)}, allow=("pay/**",)),
)


def find(client: str, *headers: tuple[str, str], **rules: Any) -> Visitor | None:
    """Return who has sent a request from an address."""
    section = TrustedHeader(
        user="X-Forwarded-User",
        groups="X-Forwarded-Groups",
        scopes="X-Forwarded-Scopes",
        proxies=rules.get("proxies", ("10.0.0.5", "fd00::/64")),
    )
    seal = SessionSigner(KEY, hours=1, grants=GRANTS)
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    scope = {"type": "http", "path": "/", "client": (client, 1), "headers": raw}
    return ProxySignIn(section, seal, GRANTS).find(scope)


ADA = ("X-Forwarded-User", "ada@example.com")


@pytest.mark.parametrize("client", ["10.0.0.5", "::ffff:10.0.0.5", "fd00::7"])
def test_the_proxy_names_a_person_and_the_groups(client: str) -> None:
    visitor = find(client, ADA, ("X-Forwarded-Groups", "core, payments"))

    assert visitor
    assert visitor.principal
    assert visitor.name == "ada@example.com"
    assert visitor.principal.subject == "ada@example.com"
    assert visitor.principal.scopes == {READ}
    assert visitor.principal.access.grants == ((("*",), ()), (("pay/**",), ()))
    assert visitor.form_token
    assert not visitor.can_sign_out


def test_the_proxy_says_who_may_do_more_than_read() -> None:
    visitor = find("10.0.0.5", ADA, ("X-Forwarded-Scopes", "skills:report,openid email"))

    assert visitor
    assert visitor.principal
    assert visitor.principal.scopes == {READ, REPORT}


@pytest.mark.parametrize("client", ["10.0.0.6", "127.0.0.1", "fd01::7", "socket"])
def test_another_address_names_nobody(client: str) -> None:
    assert find(client, ADA) is None


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("X-Forwarded-User", " "),),
        (ADA, ("X-Forwarded-User", "eve")),
        (("X-User", "ada"),),
    ],
)
def test_a_proxy_that_names_nobody_or_two_lets_nobody_in(
    headers: tuple[tuple[str, str], ...],
) -> None:
    assert find("10.0.0.5", *headers) is None


def test_a_form_of_one_person_is_none_of_another() -> None:
    ada, eve = find("10.0.0.5", ADA), find("10.0.0.5", ("X-Forwarded-User", "eve"))

    assert ada
    assert eve
    assert ada.form_token != eve.form_token


@pytest.mark.parametrize(
    "given, reason",
    [
        ("proxy.example.com", "no address and no network"),
        ("10.0.0.1/28", "no address and no network"),
        ("0.0.0.0/0", "every address"),
        ("::/0", "every address"),
    ],
)
def test_a_proxy_is_an_address_and_never_all_of_them(given: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_proxies([given])


def test_a_person_whom_no_proxy_names_is_told_what_to_do() -> None:
    section = TrustedHeader(user="X-Forwarded-User", proxies=("10.0.0.5",))
    seal = SessionSigner(KEY, hours=1, grants=None)
    sign_in = ProxySignIn(section, seal, None)

    notice = sign_in.challenge({"type": "http", "path": "/", "headers": []})

    assert notice.status == 401
    assert "The proxy in front of this server names no user" in notice.message
