"""Events and heartbeats are kept once, in each of the databases."""

import json
import os
import stat
import threading
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from skills_mcp.errors import EventStoreError
from skills_mcp.events.collector.event_store import (
    EventStore,
    StoreResult,
    open_event_store,
)
from skills_mcp.events.collector.schema import events
from skills_mcp.events.heartbeat import Heartbeat, ServedSource
from skills_mcp.events.received_event import ReceivedEvent, parse_received
from skills_mcp.features.report.event_rows import parse_row
from tests.features.report.happenings import event, judged, missed, served, torn

NOW = datetime.now(UTC).replace(microsecond=0)


def received(*raw: dict[str, Any]) -> list[ReceivedEvent]:
    return [parse_received(each) for each in raw]


def old(days: int) -> dict[str, Any]:
    moment = (NOW - timedelta(days=days)).isoformat()
    return {**missed("an old task"), "timestamp": moment}


def beat(server: str = "server-1", **fields: Any) -> Heartbeat:
    source = ServedSource(
        mount="",
        repository="git.example.com/skills",
        commit="a" * 40,
        age_seconds=12.5,
        last_error=None,
    )
    given = {"happened_at": NOW, "version": "1.0", "transport": "stdio", **fields}
    return Heartbeat(server_id=server, sources=(source,), **given)


def count(store: EventStore) -> int:
    with store.reading() as connection:
        return int(connection.scalar(select(func.count()).select_from(events)) or 0)


def test_what_was_stored_is_read_as_it_was_sent(store: EventStore) -> None:
    sent = [
        served("react/auth", note="Créer un écran 登录 🙂"),
        missed("a task", commit=None),
        torn("another", "a", "b"),
        judged("react/auth", useful=True, comment=None),
    ]

    assert store.store(received(*sent)) == StoreResult(stored=4, duplicates=0)

    read = {each["event_id"]: each for each in store.events()}
    assert [parse_row(read[each["event_id"]]) for each in sent] == [
        parse_row(each) for each in sent
    ]
    assert {each: set(read[each]) for each in read} == {
        each["event_id"]: set(each) for each in sent
    }


def test_an_event_that_comes_again_is_known(store: EventStore) -> None:
    first, second = received(missed("a"), missed("b"))
    store.store([first])

    assert store.store([second, first, first]) == StoreResult(stored=1, duplicates=2)
    assert count(store) == 2


def test_an_event_without_an_id_is_known_by_what_it_says(store: EventStore) -> None:
    bare = missed("a")
    del bare["event_id"]

    assert store.store(received(bare, bare)) == StoreResult(stored=1, duplicates=1)


def test_texts_that_no_database_holds_are_stored_all_the_same(
    store: EventStore,
) -> None:
    odd = missed("null \0, half a pair \ud800")
    odd["data"]["\0"] = ["\udfff"]

    store.store(received(odd))

    (found,) = store.events()
    assert found["data"] == {
        "context": "null \ufffd, half a pair \ufffd",
        "\ufffd": ["\ufffd"],
    }
    assert json.dumps(found)


def test_events_of_a_span_are_those_of_its_days(store: EventStore) -> None:
    store.store(
        received(
            event("refresh", 1, hour=23.999),
            event("refresh", 2, hour=0),
            event("refresh", 3, hour=23.999),
            event("refresh", 4, hour=0),
        )
    )

    found = store.events(date(2026, 11, 2), date(2026, 11, 3))

    assert sorted(each["timestamp"][:10] for each in found) == [
        "2026-11-02",
        "2026-11-03",
    ]
    assert len(list(store.events(date(2026, 11, 2)))) == 3
    assert len(list(store.events(last=date.max))) == 4


def test_events_of_some_types_are_read_alone(store: EventStore) -> None:
    store.store(received(event("refresh"), missed("a task"), served("web")))

    found = store.events(kinds={"no_match", "skill_served"})

    assert sorted(each["type"] for each in found) == ["no_match", "skill_served"]


def test_several_writers_store_each_event_once(store: EventStore) -> None:
    batch = received(*(missed(str(number)) for number in range(200)))
    results: list[StoreResult] = []

    def send(part: Sequence[ReceivedEvent]) -> None:
        begins = range(0, len(part), 50)
        results.extend(store.store(part[begin : begin + 50]) for begin in begins)

    threads = [
        threading.Thread(target=send, args=(batch if way else batch[::-1],))
        for way in (True, False, True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert count(store) == 200
    assert sum(each.stored for each in results) == 200
    assert sum(each.duplicates for each in results) == 400


def test_events_and_heartbeats_are_stored_together_or_not_at_all(
    store: EventStore,
) -> None:
    store.ensure_schema()
    with store.writing() as connection:
        connection.exec_driver_sql("DROP TABLE heartbeats")

    with pytest.raises(EventStoreError, match="heartbeats"):
        store.store(received(missed("a")), [beat()])

    assert count(store) == 0


def test_the_fleet_is_the_newest_heartbeat_of_each_server(store: EventStore) -> None:
    yesterday, hour = timedelta(days=1), timedelta(hours=1)
    newest = beat("one", version="2.0")
    store.store((), [beat("one", happened_at=NOW - yesterday)])
    store.store((), [newest])
    store.store((), [beat("one", happened_at=NOW - timedelta(seconds=1))])
    store.store((), [beat("two", happened_at=NOW - hour)])
    store.store((), [beat("gone", happened_at=NOW - 3 * yesterday)])

    fleet = store.read_fleet(NOW - yesterday)

    assert fleet == (newest, beat("two", happened_at=NOW - hour))


def test_a_heartbeat_that_comes_again_is_known(store: EventStore) -> None:
    assert store.store((), [beat()]) == StoreResult(stored=1, duplicates=0)
    assert store.store((), [beat()]) == StoreResult(stored=0, duplicates=1)


def test_a_server_whose_clock_is_ahead_is_heard_from_now(store: EventStore) -> None:
    store.store((), [beat(happened_at=NOW + timedelta(days=4000))])

    (found,) = store.read_fleet(NOW - timedelta(minutes=1))

    assert found.happened_at <= datetime.now(UTC)


def test_what_is_older_than_the_retention_is_deleted(store: EventStore) -> None:
    store.store(received(old(31), old(29), old(-4000)))
    store.store((), [beat(happened_at=NOW - timedelta(days=32))])
    store.store((), [beat("two")])

    assert store.prune(30) == 1
    assert store.prune(30) == 0

    assert count(store) == 2
    assert len(store.read_fleet(NOW - timedelta(days=100))) == 1


def test_an_event_of_the_future_is_deleted_when_it_has_been_here_that_long(
    store: EventStore,
) -> None:
    store.store(received(old(-4000)))
    with store.writing() as connection:
        long_ago = NOW - timedelta(days=31)
        connection.execute(events.update().values(received_at=long_ago))

    assert store.prune(30) == 1


def test_little_is_deleted_at_once(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skills_mcp.events.collector.event_store._PRUNED_ROWS", 2)
    store.store(received(*(old(31) for _ in range(5))))

    assert [store.prune(30) for _ in range(4)] == [2, 2, 1, 0]


@pytest.mark.skipif(os.name != "posix", reason="Windows has other permissions")
def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    store = open_event_store("", tmp_path / "new")
    store.store(received(missed("a")))

    store.close()
    files = sorted((tmp_path / "new").iterdir())

    assert files[0].name == "events.db"
    assert {stat.S_IMODE(file.stat().st_mode) & 0o077 for file in files} == {0}


def test_a_database_that_is_down_is_named_without_its_password(tmp_path: Path) -> None:
    url = "postgresql+psycopg://ada:a-long-password@127.0.0.1:1/skills"
    store = open_event_store(url, tmp_path)

    with pytest.raises(EventStoreError) as refused:
        store.store(received(missed("a")))

    assert "postgresql at 127.0.0.1:1, database skills" in str(refused.value)
    assert "a-long-password" not in str(refused.value)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    store = open_event_store("", tmp_path / "taken")

    with pytest.raises(EventStoreError, match="taken"):
        store.store(received(missed("a")))
