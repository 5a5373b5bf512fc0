"""The month that the report is shown with is always the same, and like a real one."""

import os
import subprocess
import sys
from collections import Counter
from datetime import date
from pathlib import Path

from demo.month import DAYS, LAST_DAY, simulate, write_month
from skills_mcp.events.spool import LocalEvents
from tests.support import PROJECT


def test_the_same_seed_makes_the_same_month() -> None:
    first, again, other = simulate(), simulate(), simulate(seed=8)

    assert first == again
    assert {each["event_id"] for each in first}.isdisjoint(each["event_id"] for each in other)


def test_a_month_has_weekends_and_more_than_five_thousand_events() -> None:
    days = Counter(date.fromisoformat(each["timestamp"][:10]) for each in simulate())

    weekend = {day: number for day, number in days.items() if day.weekday() > 4}
    assert len(days) == DAYS
    assert max(days) == LAST_DAY
    assert days.total() >= 5_000
    assert max(weekend.values()) < min(number for day, number in days.items() if day not in weekend)


def test_the_record_of_a_machine_has_all_of_it(tmp_path: Path) -> None:
    events = simulate()

    write_month(tmp_path, events)

    kept = {each["event_id"] for each in LocalEvents(tmp_path).events()}
    assert kept == {each["event_id"] for each in events}


def test_the_demonstration_writes_the_page(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demo.month", tmp_path],
        cwd=PROJECT,
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.endswith(f"events are in {tmp_path / 'report.html'}\n")
    assert "What agents asked for" in (tmp_path / "report.html").read_text("utf-8")
