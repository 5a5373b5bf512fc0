import json
from datetime import UTC, datetime
from typing import get_args

import pytest

from skills_mcp.analytics.events import Event, EventType, new_event_id


def an_event(commit: str | None = None, **fields: object) -> Event:
    return Event(
        type="no_match",
        timestamp=datetime(2026, 2, 18, 14, 30, tzinfo=UTC),
        server_id="dev-ada",
        data=fields,
        event_id="7",
        content_commit=commit,
    )


@pytest.mark.spec("10.1")
def test_an_event_holds_what_the_specification_names() -> None:
    line = an_event(context="a task").to_json()

    assert json.loads(line) == {
        "type": "no_match",
        "timestamp": "2026-02-18T14:30:00.000Z",
        "server_id": "dev-ada",
        "data": {"context": "a task"},
        "event_id": "7",
    }


def test_an_event_says_which_commit_was_served_if_there_are_commits() -> None:
    assert json.loads(an_event("c0ffee").to_json())["content_commit"] == "c0ffee"
    assert "content_commit" not in json.loads(an_event().to_json())


@pytest.mark.spec("10.4")
@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\u2028b", "créer", "日本"])
def test_an_event_is_one_line_and_keeps_its_text(text: str) -> None:
    line = an_event(context=text).to_json()

    assert "\n" not in line
    assert json.loads(line)["data"]["context"] == text


@pytest.mark.spec("10.2")
def test_the_types_are_those_of_the_specification_and_one_of_ours() -> None:
    assert set(get_args(EventType)) == {
        "no_match",
        "ambiguous",
        "skill_served",
        "asset_served",
        "script_executed",
        "skill_feedback",
        "refresh",
        "events_dropped",
    }


def test_no_two_events_have_the_same_identifier() -> None:
    assert len({new_event_id() for _ in range(1000)}) == 1000
