"""The report over a million events in a database: CPU, memory and size.

`python -m benchmarks.events_report sqlite:////tmp/events.db` fills an empty database
with made events of 30 days, most of them with a task of its own, and makes the report
four times: before the events are counted, from what is kept, after a day got new
events, and in a new process, whose memory is printed.  `--compare` compares all figures
with those of the events one by one.
"""

import argparse
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from time import perf_counter, process_time

from sqlalchemy import func, select, text

from skills_mcp.events.collector.event_store import EventStore, open_event_store
from skills_mcp.events.received_event import ReceivedEvent, parse_received
from skills_mcp.features.report.database_report import (
    NO_LIMIT,
    ReportLimits,
    load_report,
    roll_up_days,
)
from skills_mcp.features.report.figure_queries import Aggregation
from skills_mcp.features.report.report_page import MAX_ROWS, render_report_page
from skills_mcp.features.report.report_text import derive_report_notes
from skills_mcp.features.report.usage_report import Span
from skills_mcp.processes.memory import gc_paused

DAYS = 30
LAST = date(2026, 11, 30)
SPAN = Span(LAST - timedelta(days=DAYS - 1), LAST)

SKILLS = tuple(f"area{number % 12}/skill-{number}" for number in range(400))
COMMITS = tuple(f"{number:040x}" for number in range(1, 21))
PEOPLE = 500
RIVALS = 6
SCRIPTED = 40
BATCH = 2000
_FAILS_BELOW, _USEFUL = 100, 0.9

_KINDS = ("skill_served", "asset_served", "ambiguous", "no_match")
_RARE = ("skill_feedback", "script_executed", "refresh")
_WEIGHTS = (52, 20, 8, 8, 7, 4, 1)


def simulate(count: int, *, first: int = 0) -> Iterator[ReceivedEvent]:
    """Yield made events, in order of time."""
    chance = random.Random(first + 7)  # noqa: S311 - figures, not secrets
    start = datetime(SPAN.first.year, SPAN.first.month, SPAN.first.day, tzinfo=UTC)
    for number in range(first, first + count):
        share = (number - first) / count
        moment = start + timedelta(days=DAYS * share) if not first else start
        [kind] = chance.choices((*_KINDS, *_RARE), _WEIGHTS)
        yield parse_received(
            {
                "type": kind,
                "timestamp": moment.isoformat(timespec="milliseconds"),
                "server_id": f"dev-{chance.randrange(PEOPLE):012x}",
                "data": _make_data(kind, chance, number),
                "event_id": f"{number:032x}",
                "content_commit": COMMITS[int(share * len(COMMITS))],
            }
        )


def _make_data(kind: str, chance: random.Random, number: int) -> dict[str, object]:
    skill = SKILLS[int(len(SKILLS) * chance.random() ** 3)]
    task = f"add the {chance.randrange(5000)} of part {number % 200_000} to the form"
    match kind:
        case "no_match":
            return {"context": task, "near": [skill], "near_score": 0.2}
        case "ambiguous":
            other = SKILLS[(SKILLS.index(skill) + chance.randrange(1, RIVALS)) % len(SKILLS)]
            words = [["form", "part"], ["form"]]
            both = [skill, other]
            return {"context": task, "candidates": both, "matched_keywords": words}
        case "script_executed":
            duration = chance.randrange(3000)
            done = {
                "success": duration > _FAILS_BELOW,
                "exit_code": 0,
                "duration_ms": duration,
            }
            scripted = SKILLS[number % SCRIPTED]
            return {"skill_path": scripted, "file": "scripts/check.sh", **done}
        case "skill_feedback":
            useful = chance.random() < _USEFUL
            return {"skill_path": skill, "useful": useful, "comment": task}
        case _:
            return {"context": task, "skill_path": skill, "file": "a.md"}


def fill(store: EventStore, count: int) -> None:
    """Store made events."""
    batch = []
    for event in simulate(count):
        batch.append(event)
        if len(batch) == BATCH:
            store.store(batch)
            batch.clear()
    store.store(batch)


def make_page(store: EventStore, title: str, *, most_counted: int = NO_LIMIT) -> None:
    """Make the page once, and print what that took."""
    began, cpu_began = perf_counter(), process_time()
    with gc_paused():  # as the server makes it
        report = load_report(store, SPAN, None, limits=ReportLimits(most_counted, MAX_ROWS + 1))
        page = render_report_page(report, derive_report_notes(report, without_skills=""))
    seconds, cpu_seconds = perf_counter() - began, process_time() - cpu_began
    print(
        f"page {title}: {seconds:.2f} s, {cpu_seconds:.2f} s of CPU, "
        f"{len(page):,} characters, {report.counts.uncounted:,} events not counted yet"
    )


def require_equal(store: EventStore) -> None:
    """Require that the figures are those of the same events in files."""
    aggregation = Aggregation(SPAN)
    for event in store.events():
        aggregation.add(event)
    report = load_report(store, SPAN, None)
    same = replace(report, sources=None, fleet=None) == aggregation.derive(None)
    print(f"figures are those of the events one by one: {same}")


def measure_size(store: EventStore) -> int:
    """Return the bytes of the database."""
    with store.reading() as connection:
        if connection.dialect.name == "sqlite":
            pages = text("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
            return int(connection.execute(pages).scalar_one())
        size = select(func.pg_database_size(func.current_database()))
        return int(connection.execute(size).scalar_one())


def read_peak() -> float:
    """Return the most memory that this process had, in MB; Linux only."""
    status = Path("/proc/self/status").read_text("utf-8")
    [line] = [each for each in status.splitlines() if each.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--once", action="store_true", help="only make the page")
    parser.add_argument("--compare", action="store_true", help="with the events")
    wanted = parser.parse_args()
    store = open_event_store(wanted.database, Path.cwd())
    if not wanted.once:
        began = process_time()
        fill(store, wanted.events)
        print(f"stored {wanted.events:,} events: {process_time() - began:.1f} s of CPU")
        make_page(store, "before all events are counted", most_counted=20_000)
        began, cpu_began = perf_counter(), process_time()
        days = len(list(roll_up_days(store)))
        seconds, cpu_seconds = perf_counter() - began, process_time() - cpu_began
        print(f"{days} days counted: {seconds:.1f} s, {cpu_seconds:.1f} s of CPU")
        make_page(store, "of days that are counted")
        store.store(list(simulate(1000, first=wanted.events)))
        make_page(store, "after 1,000 events of a day")
        print(f"size of the database: {measure_size(store) / 1e6:,.0f} MB")
        again = [sys.executable, "-m", "benchmarks.events_report", "--once"]
        options = ["--compare"] if wanted.compare else []
        subprocess.run([*again, *options, wanted.database], check=True)
        return
    before = read_peak()
    make_page(store, "in a new process")
    print(f"memory of that: {read_peak() - before:,.0f} MB more than before")
    if wanted.compare:
        require_equal(store)


if __name__ == "__main__":
    main()
