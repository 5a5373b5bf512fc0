"""The database of the events of all machines and the newest heartbeat of each server.

Rule: `store` commits before it returns; repeated events are recognised by their ids.
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
    display_database_url,
    parse_database_url,
)
from skills_mcp.events.collector.disk_reserve import DiskReserve, read_free_bytes
from skills_mcp.events.collector.event_tables import events, heartbeats, roll_ups
from skills_mcp.events.collector.schema_upgrade import migrate_schema
from skills_mcp.events.heartbeat import Heartbeat, ServedSource
from skills_mcp.events.received_event import ReceivedEvent
from skills_mcp.files.durable import open_private
from skills_mcp.text.redaction import redact_registered
from skills_mcp.text.rendering import render_time

logger = logging.getLogger(__name__)

# A sender waits for 5 seconds; the database has answered or failed by then.
_CONNECT_SECONDS = 3
_POOL_SECONDS = 2.0
_BUSY_SECONDS = 4.0

# What the database is lost for, in milliseconds, until a connection to it is given up.
_TCP_TIMEOUT_MILLISECONDS = 10_000

_CONNECTIONS = 5

# After a connection has failed, no other one is tried for so long: each takes seconds
# of a thread that skills are served with.
_BACKOFF_SECONDS = 2.0

# Read at once; the memory of a report does not grow with the events of a year. Events
# of the largest size are 52 MB.
_ROWS = 200

# Of a fleet, the newest first: three sources on each of sixty thousand servers. The
# names of both are up to a sender.
_MAX_SERVERS = 100_000
_MAX_FLEET_SOURCES = 200_000

# Deleted in one transaction: a fraction of a second, in which others write.
_PRUNED_ROWS = 5000


_WITH_ROWCOUNT = {"preserve_rowcount": True}  # without it an INSERT tells no number

_KEYS = {"server_id", "day"}  # of heartbeats


@dataclass(frozen=True, slots=True)
class StoreResult:
    stored: int
    duplicates: int


class EventStore:
    """A database of events.  All methods block, and may be called on any thread.

    The schema is created or migrated with the first call: a database that is down does
    not
    keep the server from starting. SQLite stores nothing while its disk has less than
    `reserve_bytes` free.

    Raises:
        EventStoreError: By every method: the database cannot be reached, or refuses a
            statement.
    """

    def __init__(
        self,
        engine: Engine,
        reserve_bytes: int = 0,
        read_free_bytes: Callable[[Path], int] = read_free_bytes,
    ) -> None:
        self._engine = engine
        self._disk_reserve = DiskReserve(
            Path(engine.url.database or "").parent,
            reserve_bytes if _is_sqlite(engine) else 0,
            free_space=self._checkpoint,
            read_free_bytes=read_free_bytes,
        )
        self._setup_lock = threading.Lock()
        self._is_ready = False
        self._last_failure: EventStoreError | None = None
        self._retry_at = float("-inf")
        # One writer at a time is all that SQLite has; waiting here is fair.
        self._write_lock = threading.Lock() if _is_sqlite(engine) else nullcontext()

    @property
    def address(self) -> str:
        return display_database_url(self._engine.url)

    def store(
        self, received: Sequence[ReceivedEvent], beats: Sequence[Heartbeat] = ()
    ) -> StoreResult:
        """Insert events and heartbeats in one transaction.

        Raises:
            EventStoreError: The database cannot be reached, or refuses them.
            EventStoreFullError: Its disk has less free space than the reserve.
        """
        self.require_space()
        # In one order, so that two servers with the same events do not lock each other.
        ordered = sorted(received, key=lambda item: item.event_id)
        with self.writing() as connection:
            now = datetime.now(UTC)  # after waiting for others, who are before this one
            rows = [_to_row(item, now) for item in ordered]
            stored = self._insert(connection, rows) if rows else 0
            for beat in sorted(beats, key=lambda item: item.server_id):
                stored += self._upsert_heartbeat(connection, beat, now)
        return StoreResult(stored, len(received) + len(beats) - stored)

    def require_space(self) -> None:
        """Check the free disk space.

        Raises:
            EventStoreFullError: The disk has less free space than the reserve.
        """
        self.ensure_schema()
        if not self.has_space():
            raise EventStoreFullError(
                f"The disk of the database of events ({self.address}) has less room "
                "than events.reserve_bytes."
            )

    def has_space(self) -> bool:
        try:
            return self._disk_reserve.has_space()
        except OSError as error:
            raise self._to_store_error(error) from error

    def _checkpoint(self) -> None:
        """Truncate the write-ahead log of SQLite.

        After a long read it is many times the events.

        While nothing is written, it shrinks only here.
        """
        with self._translate_errors(), self._engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            with suppress(sqlite3.Error):  # it is locked: again in a second
                # Outside of a transaction, which SQLAlchemy would begin.
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def store_heartbeat(self, beat: Heartbeat) -> None:
        """Upsert a heartbeat, unless a newer one is stored."""
        self.store((), (beat,))

    def events(
        self,
        first: date | None = None,
        last: date | None = None,
        *,
        kinds: Collection[str] = (),
    ) -> Iterator[Mapping[str, Any]]:
        """Iterate over the events of some days and types, as sent, in no order."""
        query = select(events)
        if first:
            query = query.where(events.c.happened_at >= _start_of(first))
        if last and last < date.max:
            end = _start_of(last + timedelta(days=1))
            query = query.where(events.c.happened_at < end)
        if kinds:
            query = query.where(events.c.kind.in_(kinds))
        with self.reading() as connection:
            for _, event in _stream_events(connection, query):
                yield event

    def select(
        self, connection: Connection, condition: ColumnElement[bool]
    ) -> Iterator[tuple[datetime, Mapping[str, Any]]]:
        return _stream_events(connection, select(events).where(condition))

    def read_fleet(self, since: datetime) -> tuple[Heartbeat, ...]:
        """The newest heartbeat of each server since then, bounded to the newest servers."""
        of_days = heartbeats.c.day >= since.astimezone(UTC).date()
        newest = (
            select(heartbeats.c.server_id, func.max(heartbeats.c.day))
            .where(of_days)
            .group_by(heartbeats.c.server_id)
        )
        query = (
            select(heartbeats)
            .where(tuple_(heartbeats.c.server_id, heartbeats.c.day).in_(newest))
            .where(heartbeats.c.happened_at >= since)
            .order_by(heartbeats.c.happened_at.desc(), heartbeats.c.server_id)
            .limit(_MAX_SERVERS)
        )
        found: list[Heartbeat] = []
        sources = 0
        with self.reading() as connection:
            connection.execution_options(yield_per=_ROWS)
            with connection.execute(query) as rows:
                for row in rows.mappings():
                    found.append(beat := _to_heartbeat(row))
                    sources += len(beat.sources)
                    if sources >= _MAX_FLEET_SOURCES:
                        break
        return tuple(found)

    def prune(self, retention_days: int) -> int:
        """Delete a batch of events older than the retention; return their number.

        Call it until it returns 0: each call is a short transaction.
        """
        limit = datetime.now(UTC) - timedelta(days=retention_days)
        # The second condition is for an event whose time lies in the future.
        old = or_(events.c.happened_at < limit, events.c.received_at < limit)
        some = select(events.c.event_id).where(old).limit(_PRUNED_ROWS)
        with self.writing() as connection:
            done = connection.execute(delete(events).where(events.c.event_id.in_(some)))
            connection.execute(delete(heartbeats).where(heartbeats.c.day < limit.date()))
            connection.execute(delete(roll_ups).where(roll_ups.c.day < limit.date()))
        return done.rowcount

    def ensure_schema(self) -> None:
        """Create or migrate the schema, once."""
        with self._setup_lock:
            if self._is_ready:
                return
            self._require_backoff_over()
            try:
                _create_sqlite_file(self._engine)
                migrate_schema(self._engine)
            except (SQLAlchemyError, OSError) as error:
                self._back_off(refused := self._to_store_error(error))
                raise refused from error
            self._is_ready = True

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def reading(self, *, is_snapshot: bool = False) -> Iterator[Connection]:
        """A connection for queries; with `is_snapshot`, all see the same moment."""
        self.ensure_schema()
        with self._translate_errors(), self._engine.connect() as connection:
            if is_snapshot and not _is_sqlite(self._engine):  # SQLite does so anyway
                connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection with a transaction, committed at the end."""
        self.ensure_schema()
        with (
            self._translate_errors(),
            self._write_lock,
            self._engine.begin() as connection,
        ):
            yield connection

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        self._require_backoff_over()
        try:
            yield
        except SQLAlchemyError as error:
            refused = self._to_store_error(error)
            if _has_no_connection(error):
                self._back_off(refused)
            raise refused from error

    def _require_backoff_over(self) -> None:
        """Fail fast shortly after a failed connection."""
        if self._last_failure and monotonic() < self._retry_at:
            raise EventStoreError(str(self._last_failure)) from self._last_failure

    def _back_off(self, failure: EventStoreError) -> None:
        self._last_failure = failure
        self._retry_at = monotonic() + _BACKOFF_SECONDS

    def _to_store_error(self, error: Exception) -> EventStoreError:
        message = f"The database of events ({self.address}) cannot be used: "
        return EventStoreError(f"{message}{_first_error_line(error)}{_connection_hint(error)}")

    def _insert(self, connection: Connection, rows: list[dict[str, Any]]) -> int:
        statement = self._insert_into(events).on_conflict_do_nothing()
        done = connection.execute(statement, rows, execution_options=_WITH_ROWCOUNT)
        return max(0, done.rowcount)

    def _upsert_heartbeat(self, connection: Connection, beat: Heartbeat, now: datetime) -> int:
        moment = min(beat.happened_at, now)  # or a wrong clock would stay the newest
        row = {
            "server_id": beat.server_id,
            "day": moment.date(),
            "happened_at": moment,
            "version": beat.version,
            "transport": beat.transport,
            "sources": [asdict(source) for source in beat.sources],
        }
        return self.upsert(connection, row, heartbeats, newest="happened_at")

    def upsert(
        self,
        connection: Connection,
        row: Mapping[str, Any],
        table: Table,
        *,
        newest: str = "",
    ) -> int:
        """Upsert a row; return the number of stored rows.

        With `newest`, only if the value of that column grows.
        """
        statement = self._insert_into(table).values(row)
        excluded = statement.excluded
        statement = statement.on_conflict_do_update(
            index_elements=list(table.primary_key.columns),
            set_={n: excluded[n] for n in row if not table.c[n].primary_key},
            where=excluded[newest] > table.c[newest] if newest else None,
        )
        done = connection.execute(statement, execution_options=_WITH_ROWCOUNT)
        return max(0, done.rowcount)

    def _insert_into(self, table: Table) -> sqlite.Insert | postgresql.Insert:
        if _is_sqlite(self._engine):
            return sqlite.insert(table)
        return postgresql.insert(table)


def open_event_store(url: str, home: Path, reserve_bytes: int = 0) -> EventStore:
    """Open a store without connecting; an empty URL is the default file in `home`.

    Raises:
        ConfigError: The URL cannot be used.
    """
    return EventStore(open_engine(url, home), reserve_bytes)


def open_existing_event_store(url: str) -> EventStore:
    """Open the store of an existing database.

    Raises:
        ConfigError: The URL cannot be used, or its file does not exist.
    """
    engine = open_engine(url, Path())
    file = engine.url.database or ""
    if _is_sqlite(engine) and not Path(file).is_file():
        raise ConfigError(
            f"There is no database {file}. Name the one that your server writes; an "
            "absolute path has four slashes in a row, as in sqlite:////srv/events.db."
        )
    return EventStore(engine)


def open_engine(url: str, home: Path) -> Engine:
    """Create the engine of a database, without connecting to it.

    Raises:
        ConfigError: The URL cannot be used.
    """
    address = parse_database_url(url, home)
    if address.get_backend_name() != "sqlite":
        return create_engine(
            address,
            pool_size=_CONNECTIONS,
            pool_timeout=_POOL_SECONDS,
            pool_pre_ping=True,  # a connection of before a restart is replaced
            connect_args={
                "connect_timeout": _CONNECT_SECONDS,
                "tcp_user_timeout": _TCP_TIMEOUT_MILLISECONDS,
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
    event.listen(engine, "begin", _begin_transaction)
    return engine


def _prepare_connection(connection: Any, _: object) -> None:
    connection.isolation_level = None  # `_begin` begins, also before tables are made
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {setting}")


def _begin_transaction(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _create_sqlite_file(engine: Engine) -> None:
    if _is_sqlite(engine):
        file = Path(engine.url.database or "")
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        open_private(file).close()


def _is_sqlite(engine: Engine) -> bool:
    return engine.dialect.name == "sqlite"


def _first_error_line(error: Exception) -> str:
    """The first line of a database error, without a secret or a value."""
    cause = getattr(error, "orig", None) or error
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    return redact_registered(lines[0])


def _connection_hint(error: Exception) -> str:
    if _has_no_connection(error):
        return ". Check its address, and whether it can be reached from here."
    return ""


def _has_no_connection(error: Exception) -> bool:
    """Whether the connection failed: such an error has no statement."""
    return isinstance(error, DBAPIError) and error.statement is None


def _stream_events(
    connection: Connection, query: Select[Any]
) -> Iterator[tuple[datetime, Mapping[str, Any]]]:
    found = connection.execution_options(yield_per=_ROWS).execute(query)
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
        sources=tuple(ServedSource(**source) for source in row["sources"]),
    )


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
