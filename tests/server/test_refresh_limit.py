import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from starlette.requests import Request

from skills_mcp.errors import RefreshLimitError
from skills_mcp.server.callers import (
    RefreshRateLimit,
    derive_bucket,
    derive_network,
    identify_client,
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
    limit = RefreshRateLimit(6, clock)
    for _ in range(6):
        limit.take("ada")

    with pytest.raises(RefreshLimitError, match="again in 10 s"):
        limit.take("ada")
    limit.take("grace")

    clock.seconds += 9.9
    with pytest.raises(RefreshLimitError, match="again in 1 s"):
        limit.take("ada")
    clock.seconds += 0.1
    limit.take("ada")


def test_a_caller_who_has_rested_is_forgotten() -> None:
    clock = Clock()
    limit = RefreshRateLimit(1, clock)
    for number in range(1000):
        limit.take(number)
    clock.seconds += 61

    limit.take("ada")

    assert list(limit._tokens) == ["ada"]


@given(st.lists(st.floats(0, 120), max_size=50), st.integers(1, 20))
def test_no_minute_has_more_than_twice_the_limit(pauses: list[float], per_minute: int) -> None:
    clock = Clock()
    limit = RefreshRateLimit(per_minute, clock)
    granted: list[float] = []
    for pause in pauses:
        clock.seconds += pause
        try:
            limit.take("ada")
            granted.append(clock.seconds)
        except RefreshLimitError:
            pass

    for start in granted:
        together = sum(start <= each < start + 60 for each in granted)
        assert together <= 2 * per_minute


def message(principal: object, **headers: str) -> Any:
    """Return the context of a message that came over HTTP."""
    scope = {
        "type": "http",
        "client": ("10.0.0.7", 1234),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        PRINCIPAL_KEY: principal,
    }
    return cast("Any", SimpleNamespace(request=Request(scope)))


def test_a_caller_counts_by_name_and_one_without_by_address() -> None:
    chain = {"x-forwarded-for": "1.2.3.4, 192.0.2.1"}
    anonymous = message(OPERATOR, **chain)

    named = derive_bucket(message(ADA, **chain), trust_proxy_headers=False)

    assert named == ("https://login.example.com", "ada")
    assert derive_bucket(anonymous, trust_proxy_headers=False) == "10.0.0.7"
    assert derive_bucket(anonymous, trust_proxy_headers=True) == "192.0.2.1"


def test_a_client_cannot_choose_its_bucket_with_a_header_of_its_own() -> None:
    scope = {"headers": [(b"x-forwarded-for", b"1.2.3.4"), (b"x-forwarded-for", b"::1, 9.9")]}

    assert identify_client(scope, trust_proxy_headers=True) == "9.9"


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
