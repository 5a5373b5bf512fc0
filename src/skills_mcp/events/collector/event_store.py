"""The database of the events of all machines and the newest heartbeat of each server.

Rule: `store` commits before it returns; repeated events are recognised by their ids.

A roll-up is valid while its day has as many events as it was made from; events are added
and deleted, never changed. With more events, the roll-up plus the events received since
are the whole day, provided their numbers add up.
"""

import logging
import random
import shutil
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime, time, timedelta
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import anyio.to_thread
from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Row,
    RowMapping,
    Select,
    Table,
    and_,
    create_engine,
    delete,
    event,
    func,
    insert,
    make_url,
    or_,
    select,
    text,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from skills_mcp.about import compose_install_command
from skills_mcp.errors import ConfigError, EventStoreError, EventStoreFullError
from skills_mcp.events.collector.schema import (
    day_figures,
    events,
    heartbeats,
    migrate_schema,
    pending_files,
    roll_ups,
)
from skills_mcp.events.heartbeat import Heartbeat, ServedSource, name_commits
from skills_mcp.events.received_event import ReceivedEvent
from skills_mcp.events.tracker import render_event
from skills_mcp.files.durable import open_private
from skills_mcp.files.paths import expand_home_folder
from skills_mcp.text.redaction import redact_registered, register_secret

_POSTGRESQL = "postgresql+psycopg"

_DRIVERS = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgresql": _POSTGRESQL,
    "postgres": _POSTGRESQL,
    _POSTGRESQL: _POSTGRESQL,
}

DEFAULT_FILE = "events.db"


def parse_database_url(database: str, home: Path) -> URL:
    """Parse a database URL; an empty text is the default file in `home`.

    Its password is registered as a secret, so that logs and messages never show it.

    Raises:
        ConfigError: The URL is invalid, or its database is not supported.
    """
    if not database:
        return URL.create("sqlite", database=str(home / DEFAULT_FILE))
    try:
        url = make_url(database)
    except (ArgumentError, ValueError):
        raise ConfigError(_describe_fault("is no URL of a database")) from None
    if url.password:
        register_secret(url.password)
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise ConfigError(_describe_fault("names a database that is not supported"))
    if driver == "sqlite":
        return _parse_sqlite_url(url)
    if find_spec("psycopg") is None:
        raise ConfigError(
            "events.database names PostgreSQL, which needs psycopg, and that is not "
            f"installed: {compose_install_command('http,postgres')}"
        )
    return url.set(drivername=driver)


def _parse_sqlite_url(url: URL) -> URL:
    if url.host or not url.database or url.database == ":memory:":
        raise ConfigError(
            _describe_fault("names no file; an absolute path has four slashes in a row")
        )
    file = expand_home_folder(url.database).absolute()
    return url.set(drivername="sqlite", database=str(file))


def _describe_fault(fault: str) -> str:
    return (
        f"events.database {fault}. Write sqlite:////var/lib/skills/events.db or "
        "postgresql+psycopg://USER@HOST/DATABASE."
    )


def display_database_url(url: URL) -> str:
    """Render a database URL without its secrets.

    >>> display_database_url(make_url("postgresql+psycopg://me:pw@db/events?sslkey=k"))
    'postgresql at db, database events'
    >>> display_database_url(make_url("sqlite:////srv/events.db"))
    '/srv/events.db'
    """
    if url.get_backend_name() == "sqlite":
        return url.database or ""
    host = url.host or url.query.get("host") or "its default host"
    port = f":{url.port}" if url.port else ""
    return f"{url.get_backend_name()} at {host}{port}, database {url.database}"


logger = logging.getLogger(__name__)

# The fastest flood that was measured writes 15 MB in that time, and in the write-ahead
# log as much again; the default reserve is a thousand.
_FRESH_SECONDS = 1.0


def read_free_bytes(folder: Path) -> int:
    """Free bytes for this user on the disk of a folder.

    Raises:
        OSError: There is no such folder.
    """
    return shutil.disk_usage(folder).free


class DiskReserve:
    """Checks free disk space, reserved for a new commit, at most once a second.

    Below the reserve, `free_space` is called before a second measurement.
    """

    def __init__(
        self,
        folder: Path,
        reserve_bytes: int,
        *,
        free_space: Callable[[], None] = lambda: None,
        read_free_bytes: Callable[[Path], int] = read_free_bytes,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._folder = folder
        self._reserve_bytes = reserve_bytes
        self._free_space = free_space
        self._read_free_bytes = read_free_bytes
        self._clock = clock
        self._measuring = threading.Lock()
        self._measured_at = float("-inf")
        self._has_space = True

    def has_space(self) -> bool:
        """Whether more may be written.  Blocking.

        Raises:
            OSError: The disk cannot be measured.
        """
        if not self._measuring.acquire(blocking=False):
            return self._has_space  # another thread measures it
        try:
            if self._clock() - self._measured_at >= _FRESH_SECONDS:
                self._measure()
                self._measured_at = self._clock()
            return self._has_space
        finally:
            self._measuring.release()

    def _measure(self) -> None:
        free = self._read_free_bytes(self._folder)
        if free < self._reserve_bytes:
            self._free_space()
            free = self._read_free_bytes(self._folder)
        had_space, self._has_space = self._has_space, free >= self._reserve_bytes
        if had_space and not self._has_space:
            logger.error(
                "The disk of %s has %d bytes left, fewer than limits.max_total_bytes "
                "(%d): events are refused and stay with their senders. Make room, or "
                "set events.retention_days lower and rewrite the file with VACUUM",
                *(self._folder, free, self._reserve_bytes),
            )
        if self._has_space and not had_space:
            logger.warning("The disk of %s has room again for events", self._folder)


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


@dataclass(frozen=True, slots=True)
class StoreResult:
    stored: int
    duplicates: int


class EventStore:
    """A database of events.  All methods block, and may be called on any thread.

    The schema is created or migrated with the first call: a database that is down does
    not keep the server from starting. SQLite stores nothing while its disk has less
    than `reserve_bytes` free.

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
                "than limits.max_total_bytes."
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

    def events(
        self,
        first: date | None = None,
        last: date | None = None,
        *,
        kinds: Collection[str] = (),
    ) -> Iterator[Mapping[str, Any]]:
        """Iterate over the events of some days and types, as sent, in no order."""
        query = select(events).where(happened_within(first, last))
        if kinds:
            query = query.where(events.c.kind.in_(kinds))
        with self.reading() as connection:
            for _, event in stream_events(connection, query):
                yield event

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
            for table in roll_ups, day_figures:
                connection.execute(delete(table).where(table.c.day < limit.date().toordinal()))
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
        is_away = _has_no_connection(error)
        hint = ". Check its address, and whether it can be reached from here." if is_away else ""
        return EventStoreError(f"{message}{_first_error_line(error)}{hint}")

    def _insert(self, connection: Connection, rows: list[dict[str, Any]]) -> int:
        statement = self.insert_into(events).on_conflict_do_nothing()
        done = connection.execute(statement, rows, execution_options=_WITH_ROWCOUNT)
        return max(0, done.rowcount)

    def _upsert_heartbeat(self, connection: Connection, beat: Heartbeat, now: datetime) -> int:
        """Store a heartbeat, unless a newer one of the day is stored."""
        moment = min(beat.happened_at, now)  # or a wrong clock would stay the newest
        row = {
            "happened_at": moment,
            "version": beat.version,
            "transport": beat.transport,
            "sources": [asdict(source) for source in beat.sources],
        }
        keys = {"server_id": beat.server_id, "day": moment.date()}
        statement = self.insert_into(heartbeats).values(**keys, **row)
        excluded = statement.excluded
        statement = statement.on_conflict_do_update(
            index_elements=list(keys),
            set_={name: excluded[name] for name in row},
            where=excluded.happened_at > heartbeats.c.happened_at,
        )
        done = connection.execute(statement, execution_options=_WITH_ROWCOUNT)
        return max(0, done.rowcount)

    def insert_into(self, table: Table) -> sqlite.Insert | postgresql.Insert:
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


def _has_no_connection(error: Exception) -> bool:
    """Whether the connection failed: such an error has no statement."""
    return isinstance(error, DBAPIError) and error.statement is None


def stream_events(
    connection: Connection, query: Select[Any]
) -> Iterator[tuple[datetime, Mapping[str, Any]]]:
    found = connection.execution_options(yield_per=_ROWS).execute(query)
    for row in found.mappings():
        names = "kind", "happened_at", "server_id", "data", "event_id", "content_commit"
        yield row["received_at"], render_event(*(row[name] for name in names))


def _to_row(received: ReceivedEvent, now: datetime) -> dict[str, Any]:
    # Not `asdict`, whose deep copies take as long as all else that is done with an event.
    row = {item.name: getattr(received, item.name) for item in fields(received)}
    return {**row, "received_at": now}


def _to_heartbeat(row: RowMapping) -> Heartbeat:
    return Heartbeat(
        server_id=row["server_id"],
        happened_at=row["happened_at"],
        version=row["version"],
        transport=row["transport"],
        sources=tuple(ServedSource(**source) for source in row["sources"]),
    )


def happened_within(first: date | None, last: date | None) -> ColumnElement[bool]:
    """The condition for the events of some days; None for no limit."""
    moment = events.c.happened_at
    after: ColumnElement[bool] = moment >= _start_of(first) if first else true()
    if last is None or last == date.max:
        return after
    return and_(after, moment < _start_of(last + timedelta(days=1)))


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)


# A day is the finest step of the retention.
_MAINTENANCE_SECONDS = 60 * 60.0

# Replicas that were started together do not delete together.
_JITTER = 0.2

# Between two short transactions, so that what is being stored goes first.
_STEP_PAUSE_SECONDS = 0.05

_FIRST_RETRY_SECONDS = 30.0


async def repeat_hourly(
    open_steps: Callable[[], Iterator[object]],
    pause_seconds: float = _STEP_PAUSE_SECONDS,
) -> None:
    """Run maintenance of the database each hour until cancelled.

    Args:
        open_steps: Opens the steps of a round; each is short, and blocks.
        pause_seconds: Between two steps.
    """
    while True:
        seconds = _MAINTENANCE_SECONDS
        try:
            await run_steps(open_steps, pause_seconds)
        except EventStoreError as error:
            logger.error("Events cannot be stored now: %s", error)  # noqa: TRY400
            seconds = _FIRST_RETRY_SECONDS
        except Exception:
            logger.exception("The maintenance of the database of events has failed")
        await anyio.sleep(seconds * (1 + random.random() * _JITTER))  # noqa: S311


async def run_steps(
    open_steps: Callable[[], Iterator[object]],
    pause_seconds: float = _STEP_PAUSE_SECONDS,
) -> None:
    """Run one round on worker threads, with a pause after each step.

    Raises:
        EventStoreError: The database cannot be used.
    """
    steps = await anyio.to_thread.run_sync(open_steps)
    while True:
        if await anyio.to_thread.run_sync(next, steps, None) is None:
            return
        await anyio.sleep(pause_seconds)


def prune_events(store: EventStore, retention_days: Callable[[], int]) -> Iterator[int]:
    """Delete events older than the retention, some rows with each step.

    Raises:
        EventStoreError: The database cannot be used.
    """
    total, days = 0, retention_days()
    while count := store.prune(days):
        total += count
        yield count
    if total:
        logger.info("Events older than the retention were deleted: %d", total)


class PendingFiles:
    """Files by name and owner.  All methods block.

    Args:
        store: The database.
        max_bytes: Of all files; the oldest make room.
        max_age: Older files are deleted with the next one that comes.

    Raises:
        EventStoreError: By every method: the database cannot be used.
    """

    def __init__(self, store: EventStore, max_bytes: int, max_age: timedelta) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._max_age = max_age

    def put(self, name: str, owner: str, suffix: str, data: bytes) -> None:
        row = {"name": name, "owner": owner, "suffix": suffix, "data": data}
        with self._store.writing() as connection:
            self._make_room(connection, len(data))
            connection.execute(pending_files.insert().values(**row, created_at=datetime.now(UTC)))

    def find(self, name: str, owner: str) -> tuple[str, bytes] | None:
        """Suffix and data of a file; None if it is another owner's, or too old."""
        query = (
            select(pending_files.c.suffix, pending_files.c.data)
            .where(pending_files.c.name == name, pending_files.c.owner == owner)
            .where(pending_files.c.created_at >= datetime.now(UTC) - self._max_age)
        )
        with self._store.reading() as connection:
            found = connection.execute(query).one_or_none()
        return (found.suffix, bytes(found.data)) if found else None

    def delete(self, name: str) -> None:
        with self._store.writing() as connection:
            connection.execute(delete(pending_files).where(pending_files.c.name == name))

    def _make_room(self, connection: Connection, coming_bytes: int) -> None:
        kept = pending_files.c
        sizes = select(kept.name, kept.created_at, func.length(kept.data)).order_by(
            kept.created_at.desc()
        )
        oldest, total = datetime.now(UTC) - self._max_age, coming_bytes
        removed = []
        for name, created_at, size in connection.execute(sizes).all():
            total += size
            if created_at < oldest or total > self._max_bytes:
                removed.append(name)
        connection.execute(delete(pending_files).where(kept.name.in_(removed)))


_MAX_HEARTBEATS = 20_000  # each names its commits, and others name them, too
_MAX_NAMED_COMMITS = 50_000  # commits with a name; a day has a few of each source
_MAX_COMMITS = 5  # that a message names


@dataclass(frozen=True, slots=True)
class DayRollUp:
    """How much of a day is in its roll-up."""

    day: date
    layout: str
    """The version of the figures; those of another one are made again."""
    events: int
    received_until: datetime | None
    """When the last of these events was received; None if unknown."""


@dataclass(frozen=True, slots=True)
class DayCount:
    read: int
    events: int
    received_until: datetime | None
    """When the last event read was received."""


@dataclass(frozen=True, slots=True)
class EventRange:
    events: int
    oldest: datetime
    newest: datetime


class RollUpTable:
    """The roll-ups in a database.  All methods block.

    Raises:
        EventStoreError: By every method: the database cannot be reached, or refuses it.
    """

    def __init__(self, store: EventStore) -> None:
        self._store = store

    def has_space(self) -> bool:
        return self._store.has_space()

    def measure(self) -> EventRange | None:
        moment = events.c.happened_at
        queries = (
            select(func.count()).select_from(events),
            select(func.min(moment)),  # by itself, it is one look into the index
            select(func.max(moment)),
        )
        with self._store.reading() as connection:
            count, oldest, newest = (connection.execute(query).scalar_one() for query in queries)
        return EventRange(count, oldest, newest) if count else None

    def count(self, first: date, last: date) -> dict[date, int]:
        """Days without events are left out."""
        days = map(date.fromordinal, range(first.toordinal(), last.toordinal() + 1))
        with self._store.reading() as connection:
            counted = {day: connection.execute(_count_day(day)).scalar_one() for day in days}
        return {day: count for day, count in counted.items() if count}

    def read(
        self,
        day: date,
        consume: Callable[[Mapping[str, Any]], None],
        *,
        after: datetime | None = None,
    ) -> DayCount:
        """Pass the events of a day, or those received after a moment, to `consume`."""
        query = select(events).where(happened_within(day, day))
        if after:
            query = query.where(events.c.received_at > after)
        number, until = 0, after
        with self._store.reading(is_snapshot=True) as connection:
            total = connection.execute(_count_day(day)).scalar_one()
            for moment, event in stream_events(connection, query):
                consume(event)
                number += 1
                until = max(until or moment, moment)
        return DayCount(number, total, until)

    def load(self, first: date, last: date) -> dict[date, DayRollUp]:
        """The state of the roll-ups of some days, of any layout."""
        days = roll_ups.c.day.between(first.toordinal(), last.toordinal())
        with self._store.reading() as connection:
            return {
                roll_up.day: roll_up
                for day, *rest in connection.execute(select(roll_ups).where(days))
                for roll_up in [DayRollUp(date.fromordinal(day), *rest)]
            }

    def save(
        self,
        old: DayRollUp | None,
        new: DayRollUp,
        rows: Sequence[Mapping[str, Any]],
        *,
        is_whole: bool,
    ) -> None:
        """Store the figures of a day; unless `is_whole`, add them to those of before.

        Nothing is stored if another server was faster, or if the disk has no space: a
        report counts the day again.
        """
        if not self._store.has_space():
            return
        with self._store.writing() as connection:
            if not self._claim(connection, old, new):
                return
            if is_whole:
                connection.execute(
                    delete(day_figures).where(day_figures.c.day == new.day.toordinal())
                )
            if rows:
                connection.execute(insert(day_figures), rows)

    def _claim(self, connection: Connection, old: DayRollUp | None, new: DayRollUp) -> bool:
        """Replace the state of a day, if it is still the `old` one."""
        values = {"layout": new.layout, "events": new.events, "received_until": new.received_until}
        if old is None:
            statement = self._store.insert_into(roll_ups).on_conflict_do_nothing()
            row = {"day": new.day.toordinal(), **values}
            return connection.execute(statement, row, execution_options=_WITH_ROWCOUNT).rowcount > 0
        is_old = (
            (roll_ups.c.day == old.day.toordinal())
            & (roll_ups.c.layout == old.layout)
            & (roll_ups.c.events == old.events)
            & (roll_ups.c.received_until.is_not_distinct_from(old.received_until))
        )
        return bool(connection.execute(update(roll_ups).where(is_old), values).rowcount)

    @contextmanager
    def open_query(self) -> Iterator[Callable[[str, Mapping[str, Any]], Iterable[Row[Any]]]]:
        """Run statements over the figures as of one moment."""
        with self._store.reading(is_snapshot=True) as connection:
            yield lambda sql, parameters: connection.execute(text(sql), parameters)

    def name_commits(self, first: date, last: date) -> dict[str, str]:
        """The repository, or else the mount, of each served commit."""
        query = (
            select(heartbeats.c.sources)
            .where(heartbeats.c.day.between(first, last))
            .order_by(heartbeats.c.day.desc())
            .limit(_MAX_HEARTBEATS)
        )
        names: dict[str, str] = {}
        with self._store.reading() as connection:
            connection.execution_options(yield_per=_ROWS)
            with connection.execute(query) as rows:
                for (sources,) in rows:
                    names |= name_commits(ServedSource(**source) for source in sources)
                    if len(names) >= _MAX_NAMED_COMMITS:
                        break
        return names

    def find_commits(self, prefix: str) -> dict[str, datetime]:
        """Commits with this prefix, and when each was first in an event."""
        commit = events.c.content_commit
        query = (
            select(commit, func.min(events.c.happened_at))
            .where(commit.startswith(prefix, autoescape=True))
            .group_by(commit)
            .order_by(func.min(events.c.happened_at).desc())
            .limit(_MAX_COMMITS)
        )
        with self._store.reading() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}


def _count_day(day: date) -> Select[int]:
    return select(func.count()).select_from(events).where(happened_within(day, day))
