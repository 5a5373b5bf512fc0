"""What is an event, what is none, and why."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.events.collector.event_store import EventStore, open_event_store
from skills_mcp.events.heartbeat import Heartbeat, is_heartbeat, parse_heartbeat
from skills_mcp.events.received_event import (
    EVENT_TYPES,
    InvalidEventError,
    ReceivedEvent,
    parse_received,
)
from skills_mcp.features.report.event_rows import parse_row
from tests.features.report.happenings import missed, served


def changed(**fields: Any) -> dict[str, Any]:
    return {**served("react/auth"), **fields}


@pytest.mark.parametrize(
    "raw, fault",
    [
        (7, "no JSON object"),
        (changed(type="unheard_of"), "its type is none of no_match, ambiguous"),
        (changed(type=["refresh"]), "its type is none of"),
        (changed(timestamp="yesterday"), "its timestamp is no time"),
        (changed(timestamp=None), "its timestamp is no time"),
        (changed(data=[]), "its data is no JSON object"),
        (changed(data={"skill_path": " "}), "its data has no skill_path"),
        (changed(type="script_executed", data={}), "no skill_path and no file"),
        (changed(event_id="x" * 201), "its event_id is longer than 200"),
        (changed(server_id="x" * 201), "its server_id is longer than 200"),
        (missed("x" * 300_000), "larger than 262,144 bytes"),
        (missed("a", score=float("inf")), "a number that JSON does not have"),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(raw: object, fault: str) -> None:
    with pytest.raises(InvalidEventError, match=fault):
        parse_received(raw)


def test_an_event_that_is_nested_too_deeply_is_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(InvalidEventError, match="nested too deeply"):
        parse_received(missed("a", deep=deep))


def test_a_time_without_a_zone_is_in_utc() -> None:
    event = parse_received(changed(timestamp="2026-11-23T07:00:00"))

    assert event.happened_at.isoformat() == "2026-11-23T07:00:00+00:00"


def test_equal_events_without_an_id_get_the_same_one() -> None:
    bare = served("react/auth")
    del bare["event_id"]
    shuffled = dict(reversed(bare.items()))

    assert parse_received(bare) == parse_received(shuffled)
    assert parse_received(bare) != parse_received({**bare, "data": {"skill_path": "b"}})


HOSTILE_TIMES = (
    "2026-11-23",
    "2026-02-18T14:30:00\0",
    "2026-02-18T14:30:00.000Z\0",
    "2026-02-18\ud80014:30:00",
    "2026-02-18T14:30:00+00:00\0",
    "202\uff16-02-18T14:30:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:00:00-09:00",
    "2026-W08-3",
    "20260218T143000,123456+0100",
)

texts = st.text(st.characters(), max_size=8) | st.sampled_from(
    ["\0", "\ud800", "a\0", "\udfffa", "é", "e\u0301", "x" * 201, "skills\u2028"]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**4000) | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
events = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from([*EVENT_TYPES, "heartbeat", "other"]) | json_values,
        "timestamp": st.sampled_from(HOSTILE_TIMES) | st.datetimes().map(str) | texts,
        "data": json_values
        | st.fixed_dictionaries(
            {"skill_path": texts | st.just("a"), "file": texts},
            optional={
                "transport": st.sampled_from(["stdio", "http"]),
                "version": texts,
                "sources": st.lists(json_values, max_size=2),
            },
        ),
        "server_id": json_values | st.just("server"),
        "content_commit": json_values,
        "event_id": json_values,
    },
)


def parse(raw: object) -> ReceivedEvent | Heartbeat | None:
    """Return what the intake makes of a value; None for what it refuses."""
    try:
        return parse_heartbeat(raw) if is_heartbeat(raw) else parse_received(raw)
    except InvalidEventError:
        return None


@contextmanager
def opened(address: str, folder: Path) -> Iterator[EventStore]:
    store = open_event_store(address, folder)
    yield store
    store.close()


@pytest.mark.parametrize("timestamp", HOSTILE_TIMES)
def test_a_time_is_read_once_and_never_fails_the_intake(timestamp: str) -> None:
    found = parse(changed(timestamp=timestamp))

    assert found is None or found.happened_at.year == 2026


@given(json_values | events)
def test_any_value_of_json_is_an_event_or_refused_as_one(raw: object) -> None:
    row = parse_row(raw)

    event = parse(raw)

    if isinstance(event, ReceivedEvent):
        assert row
        assert (event.kind, event.happened_at) == (row.kind, row.moment)
    elif event is None and not is_heartbeat(raw):
        assert row is None or has_only_a_fault_of_size(raw)


def has_only_a_fault_of_size(raw: object) -> bool:
    """Whether a report reads something that is too large or too deep to store."""
    with pytest.raises(InvalidEventError, match=r"longer than|number that JSON"):
        parse_received(raw)
    return True


@given(raw=st.lists(json_values | events, max_size=20))
def test_what_is_accepted_can_be_stored_and_read_back(
    shared_address: str, tmp_path: Path, raw: list[object]
) -> None:
    found = [each for each in map(parse, raw) if each]
    received = [each for each in found if isinstance(each, ReceivedEvent)]
    beats = [each for each in found if isinstance(each, Heartbeat)]

    with opened(shared_address, tmp_path) as store:
        store.store(received, beats)
        stored = {each["event_id"]: each for each in store.events()}

        for each in received:
            assert parse_received(stored[each.event_id]).event_id == each.event_id


def test_names_that_differ_in_their_normal_form_only_are_two_events(
    address: str, tmp_path: Path
) -> None:
    composed, decomposed = changed(event_id="é"), changed(event_id="e\u0301")

    with opened(address, tmp_path) as store:
        done = store.store(list(map(parse_received, (composed, decomposed, composed))))

    assert (done.stored, done.duplicates) == (2, 1)


@pytest.mark.parametrize("year", ["0001", "1999", "2101", "9999"])
def test_a_year_far_from_now_is_no_time(year: str) -> None:
    with pytest.raises(InvalidEventError, match="its timestamp is no time"):
        parse_received(changed(timestamp=f"{year}-06-01T00:00:00Z"))


def test_a_depth_that_a_database_cannot_search_is_refused() -> None:
    deep: Any = []
    for _ in range(40):
        deep = [deep]

    with pytest.raises(InvalidEventError, match="nested too deeply"):
        parse_received(missed("a", deep=deep))
