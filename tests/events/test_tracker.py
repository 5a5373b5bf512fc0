import json
import os
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest

from skills_mcp.config import Analytics
from skills_mcp.config.values import Identity
from skills_mcp.events.privacy import Privacy
from skills_mcp.events.spool import Spool
from skills_mcp.events.tracker import ACTING_AGENT, EventType, Tracker, compose_event_line
from tests.support import running_python, spooled, write


def an_event(commit: str | None = None, **fields: object) -> str:
    moment = datetime(2026, 2, 18, 14, 30, tzinfo=UTC)
    return compose_event_line("no_match", "dev-ada", fields, commit, moment)


@pytest.mark.spec("10.1")
def test_an_event_holds_what_the_specification_names() -> None:
    event = json.loads(an_event(context="a task"))

    assert event == {
        "type": "no_match",
        "timestamp": "2026-02-18T14:30:00.000Z",
        "server_id": "dev-ada",
        "data": {"context": "a task"},
        "event_id": event["event_id"],
    }


def test_an_event_says_which_commit_was_served_if_there_are_commits() -> None:
    assert json.loads(an_event("c0ffee"))["content_commit"] == "c0ffee"
    assert "content_commit" not in json.loads(an_event())


@pytest.mark.spec("10.4")
@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\u2028b", "créer", "日本"])
def test_an_event_is_one_line_and_keeps_its_text(text: str) -> None:
    line = an_event(context=text)

    assert "\n" not in line
    assert json.loads(line)["data"]["context"] == text


@pytest.mark.spec("10.2")
def test_the_types_are_those_of_the_specification_and_two_of_ours() -> None:
    assert set(get_args(EventType)) == {
        "no_match",
        "ambiguous",
        "skill_served",
        "asset_served",
        "script_executed",
        "skill_feedback",
        "refresh",
        "events_dropped",
        "skill_evaluated",
    }


def test_no_two_events_have_the_same_identifier() -> None:
    assert len({json.loads(an_event())["event_id"] for _ in range(1000)}) == 1000


TRACK_UNTIL_KILLED = """
import sys
from pathlib import Path
from skills_mcp.events.privacy import Privacy
from skills_mcp.events.spool import Spool
from skills_mcp.events.tracker import Tracker
from skills_mcp.config import Analytics
spool, rules = Spool(Path(sys.argv[1])), Analytics(enabled=True, context="full")
tracker = Tracker(spool, lambda: rules, Privacy(Path(sys.argv[1], "key"), {}))
for number in range(5):
    tracker.track("no_match", context=str(number))
print("tracked", flush=True)
sys.stdin.read()
"""
TRACK_ON_A_SMALL_DISK = """
import resource, sys
from pathlib import Path
from skills_mcp.events.privacy import Privacy
from skills_mcp.events.spool import Spool
from skills_mcp.events.tracker import Tracker
from skills_mcp.config import Analytics
spool, rules = Spool(Path(sys.argv[1])), Analytics(enabled=True, context="full")
tracker = Tracker(spool, lambda: rules, Privacy(Path(sys.argv[1], "key"), {}))
tracker.track("no_match", context="before")
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
for number in range(7):
    tracker.track("no_match", context=str(number))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
tracker.track("no_match", context="after")
print("tracked", flush=True)
"""
ON = Analytics(enabled=True, context="full", identity="user")

Opened = Callable[..., Tracker]


@pytest.fixture
def tracking(spool: Spool, tmp_path: Path) -> Opened:
    privacy = Privacy(tmp_path / "analytics.key", {"USER": "ada"})
    return lambda rules, **more: Tracker(spool, lambda: rules, privacy, **more)


def data_in(spool: Spool) -> list[dict[str, Any]]:
    return [event["data"] for event in spooled(spool)]


@pytest.mark.spec("10.1")
def test_nothing_is_written_while_analytics_are_off(tracking: Opened, tmp_path: Path) -> None:
    tracking(Analytics()).track("no_match", context="a task")

    assert not (tmp_path / "spool").exists()
    assert not (tmp_path / "analytics.key").exists()


@pytest.mark.spec("10.1")
def test_the_switch_is_read_for_every_event(spool: Spool, tmp_path: Path) -> None:
    rules = [Analytics(context="full")]
    tracker = Tracker(spool, lambda: rules[0], Privacy(tmp_path / "key", {}))

    tracker.track("no_match", context="before")
    rules[0] = ON
    tracker.track("no_match", context="after")

    assert data_in(spool) == [{"context": "after"}]


@pytest.mark.spec("10.1")
def test_an_event_says_what_when_and_who(tracking: Opened, spool: Spool) -> None:
    tracking(ON).track("no_match", context="a task")

    [event] = spooled(spool)
    assert event["type"] == "no_match"
    assert event["server_id"] == "dev-ada"
    assert event["data"] == {"context": "a task"}
    iso = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z"
    assert re.fullmatch(iso, event["timestamp"])
    assert "content_commit" not in event


def test_an_event_says_which_commit_was_served(tracking: Opened, spool: Spool) -> None:
    tracking(ON).track("no_match", context="a task", content_commit="c0ffee")

    [event] = spooled(spool)
    assert event["content_commit"] == "c0ffee"
    assert event["data"] == {"context": "a task"}


def test_nobody_can_read_by_default_what_was_asked_and_who_did(
    tracking: Opened, spool: Spool, tmp_path: Path
) -> None:
    tracking(Analytics(enabled=True)).track("no_match", context="plan X", comment="Y")

    [event] = spooled(spool)
    assert event["data"]["context"].startswith("hmac-sha256:")
    assert event["data"]["comment"] is None
    assert re.fullmatch("dev-[0-9a-f]{12}", event["server_id"])
    written = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert b"plan X" not in written
    # A hash may have these three letters by chance.
    assert b"ada" not in re.sub(rb"[0-9a-f]{12,}", b"", written)


def test_every_event_has_an_identifier_of_its_own(tracking: Opened, spool: Spool) -> None:
    tracker = tracking(ON)

    for _ in range(3):
        tracker.track("no_match", context="the same")

    assert len({event["event_id"] for event in spooled(spool)}) == 3


def test_an_event_names_the_group_of_its_machine(tracking: Opened, spool: Spool) -> None:
    for group in ("", "payments"):
        rules = Analytics(enabled=True, group=group)
        tracking(rules).track("no_match", context="")

    assert [each.get("group") for each in data_in(spool)] == [None, "payments"]


@pytest.mark.spec("10.4")
def test_a_process_that_is_killed_loses_no_event(spool: Spool, tmp_path: Path) -> None:
    with running_python(TRACK_UNTIL_KILLED, tmp_path / "spool") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"tracked\n"
        process.kill()
        process.wait()

    assert [data["context"] for data in data_in(spool)] == ["0", "1", "2", "3", "4"]


def test_a_disk_that_does_not_take_it_costs_the_event_and_not_the_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = Spool(write(tmp_path / "blocked", "a file, no folder"))
    tracker = Tracker(blocked, lambda: ON, Privacy(tmp_path / "key", {}))

    for _ in range(3):
        tracker.track("no_match", context="a task")

    assert caplog.text.count("An event of type no_match was not written") == 1


def test_what_was_not_written_is_told_as_soon_as_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = write(tmp_path / "blocked", "a file, no folder")
    spool = Spool(blocked)
    tracker = Tracker(spool, lambda: ON, Privacy(tmp_path / "key", {}))

    for _ in range(3):
        tracker.track("no_match", context="lost")
    blocked.unlink()
    for _ in range(2):
        tracker.track("no_match", context="kept")

    events = spooled(spool)
    assert [event["type"] for event in events] == [
        "no_match",
        "events_dropped",
        "no_match",
    ]
    assert events[1]["data"] == {"count": 3, "reason": "disk"}
    assert "Events are written again; lost: 3" in caplog.text


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of POSIX")
def test_a_full_disk_is_told_exactly(spool: Spool, tmp_path: Path) -> None:
    with running_python(TRACK_ON_A_SMALL_DISK, tmp_path / "spool") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"tracked\n"

    events = spooled(spool)
    contexts = [event["data"].get("context") for event in events]
    assert contexts == ["before", "after", None]
    assert events[-1]["data"] == {"count": 7, "reason": "disk"}


def test_text_that_has_no_bytes_costs_neither(tracking: Opened, spool: Spool) -> None:
    tracking(ON).track("no_match", context="half \ud800")

    assert data_in(spool) == [{"context": "half ?"}]


def test_what_nobody_takes_is_bounded_and_the_rest_is_told(
    tracking: Opened, spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = tracking(ON, max_spool_bytes=100_000)

    for number in range(1000):
        tracker.track("no_match", context=f"{number} {'x' * 500}")

    held = sum(path.stat().st_size for path in spool.directory.iterdir())
    events = spooled(spool)
    told = [event["data"] for event in events if event["type"] == "events_dropped"]
    kept = [event for event in events if event["type"] == "no_match"]
    assert held <= 100_000
    assert {data["reason"] for data in told} == {"limit"}
    assert sum(data["count"] for data in told) + len(kept) == 1000
    assert kept[-1]["data"]["context"].startswith("999 ")
    assert caplog.text.count("than fit into 100000 bytes") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_a_spool_that_may_not_be_written_costs_no_answer(
    spool: Spool, tracking: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    spool.directory.mkdir(mode=0o500)
    if os.access(spool.directory, os.W_OK):
        pytest.skip("root may write everywhere")

    tracking(ON).track("no_match", context="a task")

    assert spooled(spool) == []
    assert "An event of type no_match was not written" in caplog.text


@pytest.mark.parametrize("identity, name", [("user", "agent-bot"), ("none", "agent")])
def test_an_event_says_which_agent_asked(
    tracking: Opened, spool: Spool, identity: Identity, name: str
) -> None:
    token = ACTING_AGENT.set("bot")
    tracking(Analytics(enabled=True, context="full", identity=identity)).track("no_match")
    ACTING_AGENT.reset(token)
    tracking(ON).track("no_match")

    assert data_in(spool) == [{"agent": name}, {}]
