import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from skills_mcp.server.callers import (
    CLIENT_KEY,
    RateLimit,
    client_of,
    derive_network,
    find_network,
)
from skills_mcp.skills.access import OPERATOR, PRINCIPAL_KEY
from tests.clients import ERAS
from tests.http_server import served

ADA = replace(OPERATOR, subject="ada", issuer="https://login.example.com")


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_caller_has_to_wait_after_so_many_refreshes() -> None:
    clock = Clock()
    limit = RateLimit(6, 0.1, clock)
    assert not any(limit.take("ada") for _ in range(6))

    assert limit.take("ada") == 10
    assert limit.take("grace") == 0

    clock.seconds += 9.9
    assert 0 < limit.take("ada") < 1
    clock.seconds += 0.2
    assert limit.take("ada") == 0


def test_a_caller_who_has_rested_is_forgotten() -> None:
    clock = Clock()
    limit = RateLimit(1, 1 / 60, clock)
    for number in range(1000):
        limit.take(number)
    clock.seconds += 61

    limit.take("ada")

    assert list(limit._tokens) == ["ada"]


@given(st.lists(st.floats(0, 120), max_size=50), st.integers(1, 20))
def test_no_minute_has_more_than_twice_the_limit(pauses: list[float], per_minute: int) -> None:
    clock = Clock()
    limit = RateLimit(per_minute, per_minute / 60, clock)
    granted: list[float] = []
    for pause in pauses:
        clock.seconds += pause
        if not limit.take("ada"):
            granted.append(clock.seconds)

    for start in granted:
        together = sum(start <= each < start + 60 for each in granted)
        assert together <= 2 * per_minute


def test_a_caller_counts_by_name_and_one_without_by_address() -> None:
    scope = {CLIENT_KEY: "10.0.0.7"}

    assert client_of({**scope, PRINCIPAL_KEY: ADA}) == ("https://login.example.com", "ada")
    assert client_of({**scope, PRINCIPAL_KEY: OPERATOR}) == "10.0.0.7"
    assert client_of(scope) == "10.0.0.7"


def test_an_address_is_the_peer_or_the_one_that_a_trusted_proxy_names() -> None:
    chain = [(b"x-forwarded-for", b"1.2.3.4, 192.0.2.1")]
    scope = {"client": ("10.0.0.7", 1234), "headers": chain}

    assert find_network(scope, trust_proxy_headers=False) == "10.0.0.7"
    assert find_network(scope, trust_proxy_headers=True) == "192.0.2.1"


def test_a_client_cannot_choose_its_bucket_with_a_header_of_its_own() -> None:
    scope = {"headers": [(b"x-forwarded-for", b"1.2.3.4"), (b"x-forwarded-for", b"::1, 9.9")]}

    assert find_network(scope, trust_proxy_headers=True) == "9.9"


def test_a_subscriber_of_ipv6_is_one_client_with_any_of_its_addresses() -> None:
    addresses = ("2001:db8:0:7::1", "2001:db8:0:7:ffff::2", "::ffff:192.0.2.1")

    assert [derive_network(each) for each in addresses] == [
        *("2001:db8:0:7::/64", "2001:db8:0:7::/64", "192.0.2.1")
    ]


@pytest.mark.parametrize("era", ERAS, ids=list(ERAS.values()))
async def test_a_shared_server_refreshes_a_few_times_and_says_when_again(
    era: str,
) -> None:
    with served() as server:
        async with Client(server.url, mode=era) as client:
            calls = [await client.call_tool("refresh_skills", {}) for _ in range(7)]

    *permitted, refused = calls
    assert not any(call.is_error for call in permitted)
    assert refused.is_error
    [block] = refused.content
    assert block.type == "text"
    error = json.loads(block.text)["error"]
    assert error["code"] == "REFRESH_TOO_OFTEN"
    assert "refresh_skills again in" in error["message"]
