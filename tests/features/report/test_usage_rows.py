"""Events are read from files, checked, and made safe to show."""

import json
import os
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.events.received_event import MAX_FIELD_LENGTH
from skills_mcp.features.report import event_rows as usage_rows
from skills_mcp.features.report.event_rows import (
    MAX_TEXT_LENGTH,
    UNREADABLE,
    EventFilesError,
    clean_line,
    load_event_files,
    parse_row,
    parse_task,
)
from tests.features.report.happenings import aggregate, event, missed, row, torn
from tests.support import write

ONE, TWO = {"type": "no_match"}, {"type": "refresh"}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3)
    ),
    max_leaves=8,
)


def test_a_line_is_an_event_or_all_of_a_request(tmp_path: Path) -> None:
    lines = [json.dumps(ONE), "", json.dumps({"events": [TWO, 7]})]
    file = write(tmp_path / "events.log", "\n".join(lines))

    assert list(load_event_files([file])) == [ONE, TWO, 7]


def test_what_is_no_json_is_counted_and_hides_nothing(tmp_path: Path) -> None:
    deep = "[" * 100_000
    lines = ["{", json.dumps(ONE), deep, "\0", '{"a": "\\ud800"}']
    file = write(tmp_path / "events.jsonl", "\n".join(lines).encode() + b"\n\xff\xfe\n")

    loaded = list(load_event_files([file]))

    assert loaded == [
        *(UNREADABLE, ONE, UNREADABLE, UNREADABLE),
        *({"a": "\ud800"}, UNREADABLE),
    ]


def test_a_line_without_an_end_is_not_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_rows, "_MOST_LINE_BYTES", 64)
    text = "x" * 1000 + "\n" + json.dumps(ONE) + "\n" + "y" * 200
    file = write(tmp_path / "events.jsonl", text)

    assert list(load_event_files([file])) == [UNREADABLE, ONE, UNREADABLE]


def test_a_folder_stands_for_all_files_below_it(tmp_path: Path) -> None:
    write(tmp_path / "2026" / "b.jsonl", json.dumps(TWO))
    write(tmp_path / "a.jsonl", json.dumps(ONE))
    write(tmp_path / "notes.txt", "not an event")

    assert list(load_event_files([tmp_path])) == [TWO, ONE]


def test_a_folder_without_events_says_what_it_should_have(tmp_path: Path) -> None:
    with pytest.raises(EventFilesError, match=r"no file in it ends in \.jsonl"):
        list(load_event_files([tmp_path]))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_folder_with_a_pipe_in_it_is_read_without_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    write(tmp_path / "a.jsonl", json.dumps(ONE))

    assert list(load_event_files([tmp_path])) == [ONE]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EventFilesError, match=r"gone\.jsonl: No such file"):
        list(load_event_files([tmp_path / "gone.jsonl"]))


@pytest.mark.parametrize(
    "raw",
    [
        None,
        7,
        "text",
        [],
        {},
        {**missed("x"), "type": "something_new"},
        {**missed("x"), "type": ["no_match"]},
        {**missed("x"), "timestamp": "yesterday"},
        {**missed("x"), "timestamp": 1_700_000_000},
        {**missed("x"), "timestamp": "0001-01-01T00:00:00+14:00"},
        {**missed("x"), "data": None},
        event("skill_served"),
        event("skill_served", skill_path=""),
        event("script_executed", skill_path="tools"),
        event("skill_feedback", skill_path=7),
    ],
)
def test_what_is_no_event_that_we_know_is_none(raw: object) -> None:
    assert parse_row(raw) is None


@given(json_values)
def test_no_value_of_json_is_too_much(raw: object) -> None:
    assert parse_row(raw) is None


@given(st.dictionaries(st.sampled_from(["context", "candidates", "count"]), json_values))
def test_no_data_are_too_much(data: dict[str, Any]) -> None:
    parsed = row({**torn("x"), "data": data})

    assert len(parse_task(parsed).text) <= MAX_TEXT_LENGTH
    assert all(len(text) <= MAX_FIELD_LENGTH for text in parsed.texts("candidates"))
    assert all(text for row in parsed.lists("candidates") for text in row)
    assert (parsed.number("count") or 0) >= 0


@given(st.text())
def test_a_text_that_is_shown_is_one_line_without_orders_to_a_terminal(
    text: str,
) -> None:
    shown = clean_line(text, 40)

    assert len(shown) <= 40
    kept = {"\N{ZERO WIDTH JOINER}", "\N{ZERO WIDTH NON-JOINER}"}
    categories = {unicodedata.category(letter) for letter in set(shown) - kept}
    assert not categories & {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_a_long_text_says_that_it_goes_on() -> None:
    assert clean_line("word " * 100, 12) == "word word w…"


def test_a_time_without_a_zone_is_utc_and_another_zone_is_changed_to_it() -> None:
    plain = {**missed("x"), "timestamp": "2026-11-01T00:30:00"}
    eastern = {**missed("x"), "timestamp": "2026-11-01T00:30:00+02:00"}

    assert row(plain).moment.isoformat() == "2026-11-01T00:30:00+00:00"
    assert row(eastern).moment.isoformat() == "2026-10-31T22:30:00+00:00"


def test_a_task_that_may_only_be_told_apart_has_a_mark_and_no_text() -> None:
    hashed = parse_task(row(missed("hmac-sha256:0123")))
    left_out = parse_task(row(missed("")))

    assert (hashed.text, hashed.mark) == ("", "hmac-sha256:0123")
    assert (left_out.text, left_out.mark) == ("", "")


def test_an_anonymous_event_has_no_person() -> None:
    assert row(missed("x", person="dev")).person == ""
    assert aggregate([missed("x", person="dev")]).gaps[0].people == 0


@pytest.mark.parametrize("value", [True, -1, 1.5, "7", None, 10**400])
def test_only_a_whole_number_of_a_usual_size_counts(value: object) -> None:
    assert row(event("events_dropped", count=value)).number("count") is None
