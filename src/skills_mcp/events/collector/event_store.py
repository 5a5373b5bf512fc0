"""Keeps the events of all machines, each once, and the newest heartbeat of each server.

Rule: what `store` has returned for is committed; what it has raised for is not in the
database, or comes again with the same id and is known then.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    RowMapping,
    Select,
    Table,
    create_engine,
    delete,
    event,
    func,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from skills_mcp.errors import ConfigError, EventStoreError, EventStoreFullError
from skills_mcp.events.collector.database_address import (
    parse_address,
    show_address,
)
from skills_mcp.events.collector.disk_reserve import DiskReserve, read_free_bytes
from skills_mcp.events.collector.event_tables import events, heartbeats, kept_days
from skills_mcp.events.collector.schema_upgrade import upgrade_schema
from skills_mcp.events.heartbeat import Heartbeat, ServedSource
from skills_mcp.events.received_event import ReceivedEvent
from skills_mcp.files.durable import open_private
from skills_mcp.text.redaction import redact_remembered
from skills_mcp.text.rendering import render_time

logger = logging.getLogger(__name__)

# A sender waits for 5 seconds; the database has answered or failed by then.
_CONNECT_SECONDS = 3
_POOL_SECONDS = 2.0
_BUSY_SECONDS = 4.0

# What the database is lost for, in milliseconds, until a connection to it is given up.
_LOST_MILLISECONDS = 10_000

_CONNECTIONS = 5

# After a connection has failed, no other one is tried for so long: each takes seconds
# of a thread that skills are served with.
_REST_SECONDS = 2.0

# Read at once; the memory of a report does not grow with the events of a year. Events
# of the largest size are 52 MB.
_ROWS = 200

# Of a fleet, the newest first: three sources on each of sixty thousand servers. The
# names of both are up to a sender.
_MOST_SERVERS = 100_000
_MOST_SOURCES = 200_000

# Deleted in one transaction: a fraction of a second, in which others write.
_PRUNED_ROWS = 5000


_COUNTED = {"preserve_rowcount": True}  # without it an INSERT tells no number

_KEYS = {"server_id", "day"}  # of heartbeats


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of some events."""

    stored: int
    """Events that are new."""
    known: int
    """Events that had been stored before."""


class EventStore:
    """A database of events.  All methods block, and may be called on any thread.

    The tables are made or changed with the first call: a database that is down does not
    keep the server from starting.

    Args:
        engine: From `open_engine`.
        reserve_bytes: What SQLite leaves free on its disk: below it nothing is stored.
        read_free_bytes: Measures the free bytes of the disk of a folder.
    """

    def __init__(
        self,
        engine: Engine,
        reserve_bytes: int = 0,
        read_free_bytes: Callable[[Path], int] = read_free_bytes,
    ) -> None:
        self._engine = engine
        self._reserve = DiskReserve(
            Path(engine.url.database or "").parent,
            reserve_bytes if _is_sqlite(engine) else 0,
            make_room=self._checkpoint,
            read_free_bytes=read_free_bytes,
        )
        self._gate = threading.Lock()
        self._is_ready = False
        self._failure: EventStoreError | None = None
        self._rests_until = float("-inf")
        # One writer at a time is all that SQLite has; waiting here is fair.
        self._writer = threading.Lock() if _is_sqlite(engine) else nullcontext()

    @property
    def address(self) -> str:
        """Where the database is, for people."""
        return show_address(self._engine.url)

    def store(
        self, received: Sequence[ReceivedEvent], beats: Sequence[Heartbeat] = ()
    ) -> Stored:
        """Keep events and heartbeats, all of them or none.

        Raises:
            EventStoreError: The database cannot be reached, or refuses them.
            EventStoreFullError: Its disk has no more room than the reserve.
        """
        self.require_room()
        # In one order, so that two servers with the same events do not lock each other.
        ordered = sorted(received, key=lambda each: each.event_id)
        with self.writing() as connection:
            now = datetime.now(UTC)  # after waiting for others, who are before this one
            rows = [_to_row(each, now) for each in ordered]
            stored = self._insert(connection, rows) if rows else 0
            for beat in sorted(beats, key=lambda each: each.server_id):
                stored += self._upsert(connection, beat, now)
        return Stored(stored, len(received) + len(beats) - stored)

    def require_room(self) -> None:
        """Check that the disk has more room than the reserve.

        Raises:
            EventStoreError: The database cannot be reached.
            EventStoreFullError: The disk has no more room.
        """
        self.prepare()
        if not self.has_room():
            raise EventStoreFullError(
                f"The disk of the database of events ({self.address}) has less room "
                "than events.reserve_bytes."
            )

    def has_room(self) -> bool:
        """Whether the disk has more room than the reserve; measured once a second."""
        try:
            return self._reserve.has_room()
        except OSError as error:
            raise self._refuse(error) from error

    def _checkpoint(self) -> None:
        """Move the write-ahead log into the file, and give its bytes back.

        A reader that lasts makes it grow to many times the events, and while nothing is
        written it shrinks only here.
        """
        with self._translated(), self._engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            with suppress(sqlite3.Error):  # it is locked: again in a second
                # Outside of a transaction, which SQLAlchemy would begin.
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def store_heartbeat(self, beat: Heartbeat) -> None:
        """Keep what a server says of itself, unless something newer of it is known.

        Raises:
            EventStoreError: The database cannot be reached, or refuses it.
        """
        self.store((), (beat,))

    def events(
        self,
        first: date | None = None,
        last: date | None = None,
        *,
        kinds: Collection[str] = (),
    ) -> Iterator[Mapping[str, Any]]:
        """Iterate over the events of some days, as they were sent, in no order.

        Args:
            first: The first day, in UTC; None for all up to the last.
            last: The last day; None for all from the first on.
            kinds: Their types; none for all.

        Raises:
            EventStoreError: The database cannot be reached.
        """
        wanted = select(events)
        if first:
            wanted = wanted.where(events.c.happened_at >= _start_of(first))
        if last and last < date.max:
            end = _start_of(last + timedelta(days=1))
            wanted = wanted.where(events.c.happened_at < end)
        if kinds:
            wanted = wanted.where(events.c.kind.in_(kinds))
        with self.reading() as connection:
            for _, event in _fetch(connection, wanted):
                yield event

    def select(
        self, connection: Connection, condition: ColumnElement[bool]
    ) -> Iterator[tuple[datetime, Mapping[str, Any]]]:
        """Iterate over some events, and when each was received."""
        return _fetch(connection, select(events).where(condition))

    def fleet(self, since: datetime) -> tuple[Heartbeat, ...]:
        """Read the newest heartbeat of each server that was heard from since then.

        Of very many servers and sources, those that were heard from last.

        Raises:
            EventStoreError: The database cannot be reached.
        """
        of_days = heartbeats.c.day >= since.astimezone(UTC).date()
        newest = (
            select(heartbeats.c.server_id, func.max(heartbeats.c.day))
            .where(of_days)
            .group_by(heartbeats.c.server_id)
        )
        wanted = (
            select(heartbeats)
            .where(tuple_(heartbeats.c.server_id, heartbeats.c.day).in_(newest))
            .where(heartbeats.c.happened_at >= since)
            .order_by(heartbeats.c.happened_at.desc(), heartbeats.c.server_id)
            .limit(_MOST_SERVERS)
        )
        found: list[Heartbeat] = []
        sources = 0
        with self.reading() as connection:
            connection.execution_options(yield_per=_ROWS)
            with connection.execute(wanted) as rows:
                for row in rows.mappings():
                    found.append(beat := _to_heartbeat(row))
                    sources += len(beat.sources)
                    if sources >= _MOST_SOURCES:
                        break
        return tuple(found)

    def prune(self, retention_days: int) -> int:
        """Delete some events that are older than that; return how many.

        It is called until it returns 0: each call is a short transaction.

        Raises:
            EventStoreError: The database cannot be reached.
        """
        limit = datetime.now(UTC) - timedelta(days=retention_days)
        # The second condition is for an event whose time lies in the future.
        old = or_(events.c.happened_at < limit, events.c.received_at < limit)
        some = select(events.c.event_id).where(old).limit(_PRUNED_ROWS)
        with self.writing() as connection:
            done = connection.execute(delete(events).where(events.c.event_id.in_(some)))
            connection.execute(
                delete(heartbeats).where(heartbeats.c.day < limit.date())
            )
            connection.execute(delete(kept_days).where(kept_days.c.day < limit.date()))
        return done.rowcount

    def prepare(self) -> None:
        """Make or change the tables, if this has not been done yet.

        Raises:
            EventStoreError: The database cannot be reached, or refuses it.
        """
        with self._gate:
            if self._is_ready:
                return
            self._require_rested()
            try:
                _make_file(self._engine)
                upgrade_schema(self._engine)
            except (SQLAlchemyError, OSError) as error:
                self._rest(refused := self._refuse(error))
                raise refused from error
            self._is_ready = True

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def reading(self, *, is_snapshot: bool = False) -> Iterator[Connection]:
        """Yield a connection for questions of other modules.

        Args:
            is_snapshot: Whether all answers are of the same moment.

        Raises:
            EventStoreError: The database cannot be reached, or refuses a question.
        """
        self.prepare()
        with self._translated(), self._engine.connect() as connection:
            if is_snapshot and not _is_sqlite(self._engine):  # SQLite does so anyway
                connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection with a transaction, which is committed at the end.

        Raises:
            EventStoreError: The database cannot be reached, or refuses something.
        """
        self.prepare()
        with self._translated(), self._writer, self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        self._require_rested()
        try:
            yield
        except SQLAlchemyError as error:
            refused = self._refuse(error)
            if _has_no_connection(error):
                self._rest(refused)
            raise refused from error

    def _require_rested(self) -> None:
        """Check that no connection has failed just now.

        Raises:
            EventStoreError: One has; it says why.
        """
        if self._failure and monotonic() < self._rests_until:
            raise EventStoreError(str(self._failure)) from self._failure

    def _rest(self, failure: EventStoreError) -> None:
        self._failure = failure
        self._rests_until = monotonic() + _REST_SECONDS

    def _refuse(self, error: Exception) -> EventStoreError:
        said = f"The database of events ({self.address}) cannot be used: "
        return EventStoreError(f"{said}{_describe(error)}{_advise(error)}")

    def _insert(self, connection: Connection, rows: list[dict[str, Any]]) -> int:
        statement = self._insert_into(events).on_conflict_do_nothing()
        done = connection.execute(statement, rows, execution_options=_COUNTED)
        return max(0, done.rowcount)

    def _upsert(self, connection: Connection, beat: Heartbeat, now: datetime) -> int:
        moment = min(beat.happened_at, now)  # or a wrong clock would stay the newest
        row = {
            "server_id": beat.server_id,
            "day": moment.date(),
            "happened_at": moment,
            "version": beat.version,
            "transport": beat.transport,
            "sources": [asdict(each) for each in beat.sources],
        }
        return self.replace(connection, row, heartbeats, newest="happened_at")

    def replace(
        self,
        connection: Connection,
        row: Mapping[str, Any],
        table: Table,
        *,
        newest: str = "",
    ) -> int:
        """Store a row in place of the one with its key; return how many were stored.

        Args:
            connection: One that writes.
            row: All columns.
            table: Has a primary key.
            newest: The column that has to be greater than before; empty for none.
        """
        statement = self._insert_into(table).values(row)
        given = statement.excluded
        statement = statement.on_conflict_do_update(
            index_elements=list(table.primary_key.columns),
            set_={n: given[n] for n in row if not table.c[n].primary_key},
            where=given[newest] > table.c[newest] if newest else None,
        )
        done = connection.execute(statement, execution_options=_COUNTED)
        return max(0, done.rowcount)

    def _insert_into(self, table: Table) -> sqlite.Insert | postgresql.Insert:
        if _is_sqlite(self._engine):
            return sqlite.insert(table)
        return postgresql.insert(table)


def open_event_store(text: str, home: Path, reserve_bytes: int = 0) -> EventStore:
    """Return the store that a URL names, without connecting to it.

    Args:
        text: The URL; empty for a file in a folder.
        home: That folder.
        reserve_bytes: What SQLite leaves free on its disk.

    Raises:
        ConfigError: The URL cannot be used.
    """
    return EventStore(open_engine(text, home), reserve_bytes)


def find_event_store(text: str) -> EventStore:
    """Return the store that a URL names, which has to be there.

    Raises:
        ConfigError: The URL cannot be used, or its file does not exist.
    """
    engine = open_engine(text, Path())
    file = engine.url.database or ""
    if _is_sqlite(engine) and not Path(file).is_file():
        raise ConfigError(
            f"There is no database {file}. Name the one that your server writes; an "
            "absolute path has four slashes in a row, as in sqlite:////srv/events.db."
        )
    return EventStore(engine)


def open_engine(text: str, home: Path) -> Engine:
    """Return the engine of a database, without connecting to it.

    Raises:
        ConfigError: The URL cannot be used.
    """
    address = parse_address(text, home)
    if address.get_backend_name() != "sqlite":
        return create_engine(
            address,
            pool_size=_CONNECTIONS,
            pool_timeout=_POOL_SECONDS,
            pool_pre_ping=True,  # a connection of before a restart is replaced
            connect_args={
                "connect_timeout": _CONNECT_SECONDS,
                "tcp_user_timeout": _LOST_MILLISECONDS,
                "prepare_threshold": None,  # a pool between may change the session
                "application_name": "skills-mcp",
            },
        )
    engine = create_engine(
        address,
        pool_size=_CONNECTIONS,
        pool_timeout=_POOL_SECONDS,
        connect_args={"timeout": _BUSY_SECONDS},
    )
    event.listen(engine, "connect", _prepare_connection)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare_connection(connection: Any, _: object) -> None:
    connection.isolation_level = None  # `_begin` begins, also before tables are made
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {setting}")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _make_file(engine: Engine) -> None:
    """Make the file of SQLite and its folder, for their owner alone."""
    if _is_sqlite(engine):
        file = Path(engine.url.database or "")
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        open_private(file).close()


def _is_sqlite(engine: Engine) -> bool:
    return engine.dialect.name == "sqlite"


def _describe(error: Exception) -> str:
    """Return the first line of what a database says, without a secret or a value."""
    said = getattr(error, "orig", None) or error
    lines = str(said).strip().splitlines() or [type(said).__name__]
    return redact_remembered(lines[0])


def _advise(error: Exception) -> str:
    """Say what to do if there is no connection."""
    if _has_no_connection(error):
        return ". Check its address, and whether it can be reached from here."
    return ""


def _has_no_connection(error: Exception) -> bool:
    """Whether there is no connection: an error of one has no statement."""
    return isinstance(error, DBAPIError) and error.statement is None


def _fetch(
    connection: Connection, wanted: Select[Any]
) -> Iterator[tuple[datetime, Mapping[str, Any]]]:
    found = connection.execution_options(yield_per=_ROWS).execute(wanted)
    for row in found.mappings():
        yield row["received_at"], _to_event(row)


def _to_row(received: ReceivedEvent, now: datetime) -> dict[str, Any]:
    return {
        "event_id": received.event_id,
        "kind": received.kind,
        "happened_at": received.happened_at,
        "received_at": now,
        "server_id": received.server_id,
        "content_commit": received.content_commit,
        "data": dict(received.data),
    }


def _to_event(row: RowMapping) -> Mapping[str, Any]:
    found = {
        "type": row["kind"],
        "timestamp": render_time(row["happened_at"]),
        "server_id": row["server_id"],
        "data": row["data"],
        "event_id": row["event_id"],
    }
    if row["content_commit"] is not None:
        found["content_commit"] = row["content_commit"]
    return found


def _to_heartbeat(row: RowMapping) -> Heartbeat:
    return Heartbeat(
        server_id=row["server_id"],
        happened_at=row["happened_at"],
        version=row["version"],
        transport=row["transport"],
        sources=tuple(ServedSource(**each) for each in row["sources"]),
    )


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
