"""What the small files of a store say, whoever has written them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.content.commit_store import (
    PublishedCommit,
    compose_attempt,
    compose_pointer,
    parse_attempt,
    parse_pointer,
    parse_surveyed,
)
from skills_mcp.content.source import Hold, SyncAttempt

ONE, TWO, THREE = "1" * 40, "2" * 40, "3" * 64

GARBAGE = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"{}",
    b"7",
    b'"text"',
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b"\0" * 4096,
]


def said(**keys: object) -> bytes:
    return json.dumps({"commit": ONE, "fetched_at": 1.5, **keys}).encode()


@pytest.mark.parametrize(
    "current",
    [
        PublishedCommit(ONE, 1.5),
        PublishedCommit(THREE, 0.0, "ada@example.com", TWO, Hold(2.5, ONE)),
    ],
)
def test_what_is_written_is_read(current: PublishedCommit) -> None:
    assert parse_pointer(compose_pointer(current).encode()) == current


def test_a_pointer_of_an_older_version_is_read() -> None:
    assert parse_pointer(said()) == PublishedCommit(ONE, 1.5)


@pytest.mark.parametrize("text", GARBAGE)
def test_garbage_points_nowhere(text: bytes) -> None:
    assert parse_pointer(text) is None
    assert parse_attempt(text) == SyncAttempt()
    assert parse_surveyed(text) == {}


def test_a_file_that_is_not_there_says_nothing() -> None:
    assert parse_pointer(None) is None
    assert parse_attempt(None) == SyncAttempt()
    assert parse_surveyed(None) == {}


@pytest.mark.parametrize(
    "keys",
    [
        {"commit": ".."},
        {"commit": "main"},
        {"commit": ONE.replace("1", "A")},
        {"commit": f"{ONE}\n"},
        {"commit": 1},
        {"commit": None},
        {"fetched_at": "yesterday"},
        {"fetched_at": None},
        {"fetched_at": float("nan")},
        {"fetched_at": float("inf")},
        {"fetched_at": 1e300},
        {"fetched_at": []},
    ],
)
def test_a_pointer_without_a_commit_or_a_time_points_nowhere(
    keys: dict[str, object],
) -> None:
    assert parse_pointer(said(**keys)) is None


def test_what_else_a_pointer_says_is_worth_less_than_the_commit() -> None:
    strange = said(verified_by=7, previous="../..", hold=None, new_key="of tomorrow")

    assert parse_pointer(strange) == PublishedCommit(ONE, 1.5)


@pytest.mark.parametrize("hold", ["", [], {}, {"since": 1}, {"since": 1, "instead_of": ".."}, 7])
def test_a_hold_that_makes_no_sense_still_holds(hold: object) -> None:
    assert parse_pointer(said(hold=hold)) == PublishedCommit(ONE, 1.5, hold=Hold(1.5, ONE))


def test_a_pointer_needs_every_commit_that_it_names() -> None:
    assert PublishedCommit(ONE, 1.5).commits == {ONE}
    assert PublishedCommit(ONE, 1.5, None, TWO, Hold(1, THREE)).commits == {
        ONE,
        TWO,
        THREE,
    }


def test_an_attempt_that_is_written_is_read() -> None:
    attempt = SyncAttempt(
        attempted_at=1.5,
        failures=3,
        next_attempt_at=60.0,
        error_code="SYNC_FAILED",
        error_message="näh \u2028",
    )

    assert parse_attempt(compose_attempt(attempt).encode()) == attempt


@pytest.mark.parametrize(
    "change", [{"failures": "x"}, {"attempted_at": 1e300}, {"next_attempt_at": []}]
)
def test_an_attempt_that_makes_no_sense_was_none(change: dict[str, object]) -> None:
    keys = json.loads(compose_attempt(SyncAttempt(attempted_at=1.5, failures=3)))

    assert parse_attempt(json.dumps(keys | change).encode()) == SyncAttempt()


@pytest.mark.parametrize("text", [b'[["a"]]', b'[["a", "evil"]]', b"[7]", b"7"])
def test_a_survey_that_makes_no_sense_is_empty(text: bytes) -> None:
    assert parse_surveyed(text) == {}


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_break_the_readers(text: bytes) -> None:
    parse_pointer(text)
    parse_attempt(text)
    parse_surveyed(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["since", "instead_of", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(JSON, JSON, JSON, JSON)
def test_no_value_breaks_the_reader_of_the_pointer(
    fetched_at: object, verified_by: object, previous: object, hold: object
) -> None:
    current = parse_pointer(
        said(
            fetched_at=fetched_at,
            verified_by=verified_by,
            previous=previous,
            hold=hold,
        )
    )

    assert current is None or current.synced_at.tzinfo is not None
