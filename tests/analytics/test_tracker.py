import re
from pathlib import Path

import pytest

from skills_mcp.analytics.spool import Spool
from skills_mcp.analytics.tracker import Tracker
from skills_mcp.config import Analytics
from tests.support import running_python, spooled, write

TRACK_UNTIL_KILLED = """
import sys
from pathlib import Path
from skills_mcp.analytics.spool import Spool
from skills_mcp.analytics.tracker import Tracker
from skills_mcp.config import Analytics
spool = Spool(Path(sys.argv[1]))
tracker = Tracker(spool, lambda: Analytics(enabled=True), "dev-ada")
for number in range(5):
    tracker.track("no_match", context=str(number))
print("tracked", flush=True)
sys.stdin.read()
"""
ON = Analytics(enabled=True)


@pytest.mark.spec("10.1")
def test_nothing_is_written_while_analytics_are_off(
    spool: Spool, tmp_path: Path
) -> None:
    Tracker(spool, Analytics, "dev-ada").track("no_match", context="a task")

    assert not (tmp_path / "spool").exists()


@pytest.mark.spec("10.1")
def test_the_switch_is_read_for_every_event(spool: Spool) -> None:
    rules = [Analytics()]
    tracker = Tracker(spool, lambda: rules[0], "dev-ada")

    tracker.track("no_match", context="before")
    rules[0] = ON
    tracker.track("no_match", context="after")

    assert [event["data"]["context"] for event in spooled(spool)] == ["after"]


@pytest.mark.spec("10.1")
def test_an_event_says_what_when_and_who(spool: Spool) -> None:
    Tracker(spool, lambda: ON, "dev-ada").track("no_match", context="a task")

    [event] = spooled(spool)
    assert event["type"] == "no_match"
    assert event["server_id"] == "dev-ada"
    assert event["data"] == {"context": "a task"}
    iso = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z"
    assert re.fullmatch(iso, event["timestamp"])


def test_every_event_has_an_identifier_of_its_own(spool: Spool) -> None:
    tracker = Tracker(spool, lambda: ON, "dev-ada")

    for _ in range(3):
        tracker.track("no_match", context="the same")

    assert len({event["event_id"] for event in spooled(spool)}) == 3


@pytest.mark.spec("10.4")
def test_a_process_that_is_killed_loses_no_event(spool: Spool, tmp_path: Path) -> None:
    with running_python(TRACK_UNTIL_KILLED, tmp_path / "spool") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"tracked\n"
        process.kill()
        process.wait()

    contexts = [event["data"]["context"] for event in spooled(spool)]
    assert contexts == ["0", "1", "2", "3", "4"]


def test_a_disk_that_does_not_take_it_costs_the_event_and_not_the_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = Spool(write(tmp_path / "blocked", "a file, no folder"))

    Tracker(blocked, lambda: ON, "dev-ada").track("no_match", context="a task")

    assert "An event of type no_match was not written" in caplog.text


def test_text_that_has_no_bytes_costs_neither(spool: Spool) -> None:
    Tracker(spool, lambda: ON, "dev-ada").track("no_match", context="half \ud800")

    [event] = spooled(spool)
    assert event["data"] == {"context": "half ?"}
