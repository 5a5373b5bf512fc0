"""How much a sender may have stored, and what it is told beyond that."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.config import Analytics
from skills_mcp.events.publisher import Publisher, SharedBackoff
from skills_mcp.http.events_endpoint import _MAX_SENDERS, EventQuota
from skills_mcp.skills.access import EVENTS
from tests.features.report.happenings import missed
from tests.http.test_event_intake import (
    NOWHERE,
    OTHER_TOKEN,
    TOKEN,
    Collector,
    beat,
    code,
    collecting,
    post,
    spooled,
)
from tests.issuer import running_issuer
from tests.support import write

MINUTE, DAY = 60, 86_400

# A minute of it is 10,000 bytes: three requests of `large`.
QUOTA = 320_000


def large() -> dict[str, Any]:
    return missed("x" * 3_500)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def fill(client: httpx.Client, **headers: str) -> httpx.Response:
    """Send events until one is refused."""
    for _ in range(100):
        answer = post(client, large(), **headers)
        if answer.status_code != 200:
            return answer
    raise AssertionError("nothing was refused")


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[tuple[Collector, httpx.Client]]:
    """A server with two tokens and a small quota of each sender."""
    file = write(tmp_path / "tokens", f"{TOKEN}\n{OTHER_TOKEN}\n")
    file.chmod(0o600)
    events = {"ingest_token_file": str(file), "sender_bytes_per_day": QUOTA}
    with collecting(tmp_path, events=events) as both:
        yield both


def test_a_sender_over_its_quota_is_told_when_to_come_again(
    limited: tuple[Collector, httpx.Client],
) -> None:
    collector, client = limited

    refused = fill(client, **bearer(TOKEN))
    stored = len(collector.stored())
    seconds = int(refused.headers["Retry-After"])
    collector.now += seconds
    again = post(client, large(), **bearer(TOKEN))

    assert (refused.status_code, code(refused)) == (429, "EVENTS_QUOTA_EXCEEDED")
    assert "events.sender_bytes_per_day" in refused.json()["error"]["message"]
    assert stored == 3
    assert 5 <= seconds <= MINUTE
    assert again.json() == {"stored": 1, "known": 0}


def test_another_sender_is_not_refused(
    limited: tuple[Collector, httpx.Client],
) -> None:
    _, client = limited

    fill(client, **bearer(TOKEN))
    same = post(client, large(), Authorization=f"bearer  {TOKEN}")
    other = post(client, large(), **bearer(OTHER_TOKEN))

    assert (same.status_code, other.status_code) == (429, 200)


def test_callers_who_sign_in_have_a_quota_each(tmp_path: Path) -> None:
    with running_issuer() as issuer:
        http = {
            "base_url": "https://skills.example.com",
            "auth": {"issuer": issuer.url},
        }
        events = {"sender_bytes_per_day": QUOTA}
        with collecting(tmp_path, http=http, events=events) as (_, client):
            ada, again, bob = (
                bearer(issuer.token(scope=EVENTS, sub=name)) for name in ("ada", "ada", "bob")
            )

            fill(client, **ada)

            assert post(client, large(), **again).status_code == 429
            assert post(client, large(), **bob).status_code == 200


def test_a_made_up_token_is_no_sender_of_its_own(tmp_path: Path) -> None:
    with collecting(tmp_path, events={"sender_bytes_per_day": QUOTA}) as (_, client):
        fill(client, **bearer("one"))

        assert post(client, large(), **bearer("two")).status_code == 429


def test_all_senders_together_have_a_quota(tmp_path: Path) -> None:
    file = write(tmp_path / "tokens", f"{TOKEN}\n{OTHER_TOKEN}\n{OTHER_TOKEN}-of-a-third\n")
    file.chmod(0o600)
    events = {"ingest_token_file": str(file), "sender_bytes_per_day": QUOTA}
    with collecting(tmp_path, events=events) as (collector, client):
        fill(client, **bearer(TOKEN))
        fill(client, **bearer(OTHER_TOKEN))
        third = post(client, large(), **bearer(f"{OTHER_TOKEN}-of-a-third"))

        assert (third.status_code, code(third)) == (429, "EVENTS_QUOTA_EXCEEDED")
        assert "twice events.sender_bytes_per_day" in third.json()["error"]["message"]
        assert len(collector.stored()) == 6


def test_a_request_over_the_quota_is_not_even_parsed(
    limited: tuple[Collector, httpx.Client],
) -> None:
    collector, client = limited
    fill(client, **bearer(TOKEN))

    headers = {"Content-Type": "application/json", **bearer(TOKEN)}
    answer = client.post("/events", content=b"no JSON", headers=headers)

    assert answer.status_code == 429
    assert collector.count('skills_events_refused_requests_total{reason="quota"}') == 2
    invalid = 'skills_events_refused_requests_total{reason="invalid"}'
    assert collector.count(invalid) == 0


def test_what_is_no_event_is_charged_as_well(
    limited: tuple[Collector, httpx.Client],
) -> None:
    _, client = limited
    headers = {"Content-Type": "application/json", **bearer(TOKEN)}

    codes = [
        client.post("/events", content=b"[" * 4_000, headers=headers).status_code for _ in range(4)
    ]

    assert codes == [400, 400, 400, 429]


@pytest.mark.parametrize("kind", ["heartbeat", "refresh"])
def test_small_events_are_charged_for_their_rows(
    limited: tuple[Collector, httpx.Client], kind: str
) -> None:
    _, client = limited
    small = [{**beat(), "type": kind, "server_id": str(number)} for number in range(50)]

    first = post(client, *small, **bearer(TOKEN))
    second = post(client, *small, **bearer(TOKEN))

    assert len(json.dumps(small)) < 10_000
    assert (first.status_code, second.status_code) == (200, 429)


def test_a_database_that_is_down_costs_no_quota(tmp_path: Path) -> None:
    events = {"sender_bytes_per_day": QUOTA}
    with collecting(tmp_path, NOWHERE, events=events) as (collector, client):
        codes = set()
        for _ in range(20):
            codes.add(post(client, large()).status_code)
            collector.now += 3

        assert codes == {503}


def test_the_log_names_a_sender_over_its_quota_once(
    limited: tuple[Collector, httpx.Client], caplog: pytest.LogCaptureFixture
) -> None:
    collector, client = limited

    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            fill(client, **bearer(OTHER_TOKEN))
            collector.now += 30

    [line] = [each for each in caplog.messages if "sender_bytes_per_day" in each]
    assert "token 2 of events.ingest_token_file" in line
    assert OTHER_TOKEN not in line


def test_the_bytes_that_were_stored_are_counted(
    limited: tuple[Collector, httpx.Client],
) -> None:
    collector, client = limited
    sent = [post(client, large(), **bearer(TOKEN)) for _ in range(5)]

    stored = [each for each in sent if each.status_code == 200]
    sizes = sum(int(each.request.headers["Content-Length"]) for each in stored)

    assert collector.count("skills_events_stored_bytes_total") == sizes


def test_our_own_sender_delivers_all_events_in_time(
    limited: tuple[Collector, httpx.Client], tmp_path: Path
) -> None:
    collector, client = limited
    outbox = spooled(tmp_path / "machine")
    events = [large() for _ in range(40)]
    for number, each in enumerate(events):
        outbox.spool.append(json.dumps(each))
        if number % 2:
            outbox.spool.rotate()
    outbox.spool.rotate()
    rules = Analytics(enabled=True, endpoint=f"{client.base_url}/events")
    publisher = Publisher(outbox, lambda: rules, read_token=lambda _: TOKEN)
    publisher._backoff = SharedBackoff(outbox.spool.directory, lambda: 1e9 + collector.now)

    rounds = 0
    while not outbox.spool.is_empty:
        rounds += 1
        assert rounds < 2_000, "the sender gets nowhere"
        before = len(collector.stored())
        anyio.run(publisher.publish)
        assert len(collector.stored()) - before <= 4
        collector.now += 5

    assert rounds > 5
    assert collector.stored() == {each["event_id"] for each in events}
    assert not list((tmp_path / "machine" / "dead-letters").glob("*"))


@given(
    st.lists(
        st.tuples(st.floats(0, DAY), st.integers(1, 50_000), st.booleans()),
        max_size=60,
    )
)
def test_no_more_is_taken_than_a_minute_and_a_day_allow(
    requests: list[tuple[float, int, bool]],
) -> None:
    now = 0.0
    quota = EventQuota(QUOTA, lambda: now)
    taken: list[tuple[float, int]] = []

    for pause, size, is_short in requests:
        now += pause / 10_000 if is_short else pause
        exceeded = quota.take("ada", size)
        if exceeded is None:
            taken.append((now, size))
        else:
            now += exceeded.retry_after_seconds * 1.000_001
            assert quota.take("ada", 0) is None

    for begin, _ in taken:
        for seconds, rate, burst in (
            (MINUTE, QUOTA / 32 / MINUTE, QUOTA / 32),
            (DAY, QUOTA / DAY, QUOTA),
        ):
            sizes = [size for at, size in taken if begin <= at < begin + seconds]
            # One request of any size may go beyond it.
            assert sum(sizes) <= burst + rate * seconds + max(sizes) + 1


def test_many_senders_take_a_bounded_memory() -> None:
    quota = EventQuota(QUOTA, lambda: 0.0)
    for number in range(_MAX_SENDERS + 500):
        quota.take(f"the address {number}", 100)

    assert len(quota) == _MAX_SENDERS
