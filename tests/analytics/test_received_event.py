"""What is an event, what is none, and why."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.analytics.received_event import (
    InvalidEventError,
    find_fault,
    parse_received,
)
from skills_mcp.usage.usage_rows import parse_row
from tests.usage.happenings import missed, served


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


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["refresh", "skill_served", "other"]),
            "timestamp": st.sampled_from(["2026-11-23", "9999-12-31T23:00:00-09:00"]),
            "data": json_values | st.just({"skill_path": "a"}),
            "server_id": json_values,
            "content_commit": json_values,
            "event_id": json_values,
        },
    )
)
def test_what_is_stored_is_read_as_from_a_file(raw: dict[str, Any]) -> None:
    read = parse_row(json.loads(json.dumps(raw)))

    assert (read is None) == bool(find_fault(raw))
    if read:
        event = parse_received(raw)
        assert (event.kind, event.happened_at) == (read.kind, read.moment)
