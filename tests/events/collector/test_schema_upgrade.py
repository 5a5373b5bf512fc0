"""The tables are made once, by one of several servers, and older ones are changed."""

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import column, table

from skills_mcp.events.collector import schema as schema_upgrade
from skills_mcp.events.collector.event_store import EventStore, open_engine
from skills_mcp.events.collector.schema import metadata, migrate_schema
from skills_mcp.events.received_event import parse_received
from tests.features.report.happenings import missed

OPEN = """
import sys
from pathlib import Path
from skills_mcp.events.collector.event_store import open_event_store
store = open_event_store(sys.argv[1], Path(sys.argv[2]))
sys.stdin.readline()
store.ensure_schema()
"""


def test_the_revisions_make_the_tables_that_the_program_uses(address: str, tmp_path: Path) -> None:
    engine = open_engine(address, tmp_path)
    migrate_schema(engine)

    with engine.connect() as connection:
        options = {"version_table": schema_upgrade.VERSION_TABLE}
        context = MigrationContext.configure(connection, opts=options)
        differences = compare_metadata(context, metadata)
    engine.dispose()

    # The roll-ups of the version before, which may run meanwhile.
    [(difference, rest)] = differences
    assert (difference, rest.name) == ("remove_table", "kept_days")


def test_servers_that_start_together_make_the_tables_once(address: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPEN, address, str(tmp_path)]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)
    ]

    for process in started:
        assert process.stdin
        process.stdin.write(b"\n")
        process.stdin.flush()

    said = [process.communicate()[1].decode() for process in started]
    assert [process.returncode for process in started] == [0] * 3, said


def test_two_databases_of_one_process_are_made_at_once(tmp_path: Path) -> None:
    stores = [
        EventStore(open_engine(f"sqlite:///{tmp_path / name}", tmp_path))
        for name in ("one.db", "two.db", "three.db", "four.db")
    ]

    with ThreadPoolExecutor(len(stores)) as threads:
        list(threads.map(EventStore.ensure_schema, stores))

    assert [list(each.events()) for each in stores] == [[]] * len(stores)
    for each in stores:
        each.close()


def test_events_of_an_older_schema_stay(address: str, tmp_path: Path) -> None:
    older = open_engine(address, tmp_path)
    migrate_schema(older, "0001")
    store = EventStore(older)
    store._is_ready = True
    store.store([parse_received(missed("a task"))])
    store.close()

    newer = EventStore(open_engine(address, tmp_path))
    found = [each["data"]["context"] for each in newer.events()]
    newer.close()

    assert found == ["a task"]


def test_tables_of_a_newer_version_are_used_as_they_are(
    address: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = EventStore(open_engine(address, tmp_path))
    store.store([parse_received(missed("a task"))])
    with store.writing() as connection:
        table = schema_upgrade.VERSION_TABLE
        connection.exec_driver_sql(f"UPDATE {table} SET version_num = '9999'")  # noqa: S608
    store.close()

    again = EventStore(open_engine(address, tmp_path))
    with caplog.at_level(logging.WARNING):
        assert len(list(again.events())) == 1
    again.close()

    assert "newer version" in caplog.text


def test_the_roll_ups_of_the_version_before_are_emptied(address: str, tmp_path: Path) -> None:
    older = open_engine(address, tmp_path)
    migrate_schema(older, "0003")
    kept = table("kept_days", *map(column, ("day", "layout", "events", "totals", "body")))
    with older.begin() as connection:
        blob = b"compressed"
        connection.execute(kept.insert().values(("2026-11-01", "3", 1, blob, blob)))
    migrate_schema(older)

    with older.connect() as connection:
        assert not connection.execute(kept.select()).all()
    older.dispose()
