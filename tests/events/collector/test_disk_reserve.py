"""Events stop before the disk of SQLite is full, and wait with their senders."""

import itertools
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from skills_mcp.config import Analytics
from skills_mcp.errors import EventStoreFullError
from skills_mcp.events.collector.event_store import (
    DiskReserve,
    EventStore,
    open_engine,
    read_free_bytes,
)
from skills_mcp.events.publisher import DatabasePublisher, Publisher
from skills_mcp.events.received_event import parse_received
from skills_mcp.events.spool import Outbox
from skills_mcp.features.report.database_report import load_report
from skills_mcp.features.report.usage_report import Span
from tests.features.report.happenings import missed
from tests.http.listening import listening
from tests.http.test_event_intake import Collector, code, post, spooled
from tests.http_server import served as serving
from tests.support import wait_for, write

RESERVE = 1_000_000


class Disk:
    """A disk that holds what a test says, beside the files in its folder."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def read_free_bytes(self, folder: Path) -> int:
        used = sum(each.stat().st_size for each in folder.glob("events.db*"))
        return self.size_bytes - used


@pytest.fixture
def disk() -> Disk:
    return Disk(10 * RESERVE)


@pytest.fixture
def store(tmp_path: Path, disk: Disk) -> Iterator[EventStore]:
    engine = open_engine("", tmp_path)
    opened = EventStore(engine, RESERVE, disk.read_free_bytes)
    opened._disk_reserve._clock = itertools.count().__next__  # it is always due
    yield opened
    opened.close()


def parsed(*raw: dict[str, Any]) -> list[Any]:
    return [parse_received(each) for each in raw]


def test_events_are_refused_before_the_disk_is_full(
    store: EventStore, disk: Disk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def flood() -> None:
        for _ in range(1_000):
            store.store(parsed(*(missed("x" * 100_000) for _ in range(4))))

    with caplog.at_level(logging.WARNING):
        with pytest.raises(EventStoreFullError, match=r"limits\.max_total_bytes"):
            flood()
        with pytest.raises(EventStoreFullError):
            store.store(parsed(missed("small")))

    assert disk.read_free_bytes(tmp_path) > 0.4 * RESERVE
    assert sum("events are refused" in each for each in caplog.messages) == 1

    disk.size_bytes *= 2
    assert store.store(parsed(missed("a"))).stored == 1


def test_the_log_that_a_reader_let_grow_is_given_back(
    store: EventStore, disk: Disk, tmp_path: Path
) -> None:
    store.store(parsed(missed("first")))
    with closing(sqlite3.connect(tmp_path / "events.db")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchone()
        for _ in range(100):  # each writes the same few pages once more
            store.store(parsed(missed("a")))
        log = (tmp_path / "events.db-wal").stat().st_size
    free = disk.read_free_bytes(tmp_path)
    disk.size_bytes += RESERVE - free - log // 2

    store.store(parsed(missed("last")))

    assert log > RESERVE
    assert (tmp_path / "events.db-wal").stat().st_size < log // 10


def test_old_events_are_deleted_also_from_a_full_disk(store: EventStore, disk: Disk) -> None:
    old = {**missed("old"), "timestamp": "2020-01-01T00:00:00Z"}
    store.store(parsed(old))
    disk.size_bytes = 0

    assert store.prune(retention_days=1) == 1


def test_a_report_is_made_without_room_to_keep_its_figures(store: EventStore, disk: Disk) -> None:
    today = datetime.now(UTC)
    store.store(parsed({**missed("a"), "timestamp": today.isoformat()}))
    disk.size_bytes = 0

    report = load_report(store, Span(date(2026, 1, 1), today.date()), None)

    assert report.counts.events == 1


def test_the_events_of_the_server_itself_wait_in_its_spool(
    store: EventStore, disk: Disk, tmp_path: Path
) -> None:
    outbox = spooled(tmp_path / "home", missed("a"), missed("b"))
    rules = Analytics(enabled=True)
    own = DatabasePublisher(outbox, lambda: rules, store)
    disk.size_bytes = 0

    assert anyio.run(own.publish) == 0
    assert outbox.spool.count_events() == 2

    disk.size_bytes = 10 * RESERVE
    assert anyio.run(own.publish) == 2


def test_a_disk_is_measured_once_a_second_at_most(tmp_path: Path) -> None:
    now, measured = 0.0, 0

    def measure(_: Path) -> int:
        nonlocal measured
        measured += 1
        return 2 * RESERVE

    reserve = DiskReserve(tmp_path, RESERVE, read_free_bytes=measure, clock=lambda: now)

    for _ in range(100):
        assert reserve.has_space()
        now += 0.1

    assert measured == 10


def test_a_disk_has_as_much_room_as_its_user_may_fill(tmp_path: Path) -> None:
    assert read_free_bytes(tmp_path) > 0


def test_a_sender_keeps_its_events_until_the_disk_has_room(
    store: EventStore, disk: Disk, tmp_path: Path
) -> None:
    collector = Collector(store, {"events": {"sender_bytes_per_day": 320_000}})
    outbox = spooled(tmp_path / "machine", missed("a"))
    with listening(collector.app) as url, httpx.Client(base_url=url) as client:
        store.ensure_schema()
        disk.size_bytes = 0
        refused = [post(client, missed("x" * 3_000)) for _ in range(10)]
        rules = Analytics(enabled=True, endpoint=f"{url}/events")
        sent = anyio.run(Publisher(outbox, lambda: rules).publish)

        disk.size_bytes = 10 * RESERVE
        accepted = post(client, missed("b"))

    # Not 429 at the end: what is not stored costs no quota.
    assert {(each.status_code, code(each)) for each in refused} == {(507, "EVENTS_DISK_FULL")}
    assert all(60 <= int(each.headers["Retry-After"]) <= 300 for each in refused)
    assert (sent, outbox.spool.count_events()) == (0, 1)
    assert collector.count('skills_events_refused_requests_total{reason="disk"}') == 11
    assert accepted.json() == {"stored": 1, "known": 0}


def test_a_server_without_room_for_events_serves_skills(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    spooled(home, missed("of the server"))
    settings = f"analytics: {{enabled: true}}\nlimits: {{max_total_bytes: {1 << 40}}}\n"
    write(home / "config.yaml", settings)
    environment = {"SKILLS_MCP_HOME": str(home), "ANALYTICS_ENDPOINT": ""}
    options = ("--port", "0", "--operations-port", "0")
    with serving(environment=environment, options=options) as server:
        answer = httpx.post(server.url.replace("/mcp", "/events"), json={"events": [missed("a")]})
        server.wait_for_log("skills at")
        server.wait_for_log("fewer than limits.max_total_bytes")
        skills = server.url.replace("/mcp", "/api/skills")
        wait_for(lambda: httpx.get(skills).status_code == 200)  # loading may take longer

    assert (answer.status_code, code(answer)) == (507, "EVENTS_DISK_FULL")
    assert str(home) not in answer.text
    assert Outbox(home).spool.count_events() == 1
