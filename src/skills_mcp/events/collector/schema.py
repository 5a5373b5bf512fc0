"""The schema of the event database, and its migrations.

A change of a table needs a new migration.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    Date,
    DateTime,
    Dialect,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    func,
    select,
    table,
)
from sqlalchemy.dialects.postgresql import JSONB

from skills_mcp.files.locks import acquire_lock

metadata = MetaData()

Json = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
"""Queryable by SQL."""


class UtcTime(TypeDecorator[datetime]):
    """A timestamp with time zone; SQLite stores it in UTC without one."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        is_bare = dialect.name == "sqlite"
        moment: datetime = value.replace(tzinfo=UTC) if is_bare else value
        return moment.astimezone(UTC)


events = Table(
    "events",
    metadata,
    Column("event_id", String(200), primary_key=True),
    Column("kind", String(40), nullable=False),
    Column("happened_at", UtcTime, nullable=False),
    Column("received_at", UtcTime, nullable=False),
    Column("server_id", String(200), nullable=False),
    Column("content_commit", String(200)),
    Column("data", Json, nullable=False),
    Index("events_happened_at", "happened_at"),
    Index("events_received_at", "received_at"),
)

heartbeats = Table(
    "heartbeats",
    metadata,
    Column("server_id", String(200), primary_key=True),
    Column("day", Date, primary_key=True),
    Column("happened_at", UtcTime, nullable=False),
    Column("version", String(200), nullable=False),
    Column("transport", String(40), nullable=False),
    Column("sources", Json, nullable=False),
    Index("heartbeats_day", "day"),
)
"""The newest heartbeat of each server and day.

They are no rows of `events`: those are never changed, which the roll-up relies on, and
a heartbeat replaces the one before. Servers of the version before write this table
while others are updated, and would count heartbeats among the events of a day.
"""

# Ordered and compared byte by byte, as in SQLite and in Python.
_Name = Text().with_variant(Text(collation="C"), "postgresql")


def _name_column(name: str) -> Column[str]:
    return Column(name, _Name, nullable=False, server_default="")


roll_ups = Table(
    "rolled_days",
    metadata,
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("layout", String(40), nullable=False),
    Column("events", Integer, nullable=False),
    Column("received_until", UtcTime),
)
"""The days with figures: of how many events, and when the last of them was received."""

day_figures = Table(
    "day_figures",
    metadata,
    Column("day", Integer, nullable=False),
    Column("figure", String(20), nullable=False),
    *map(_name_column, ("content_commit", "team", "person", "skill", "other", "mark", "wording")),
    Column("duration_ms", BigInteger),
    Column("number", BigInteger, nullable=False),
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    Index("day_figures_figure", "figure", "day"),
)
"""The daily roll-up: what happened on a day, and how often.

Several rows may have the same names: their numbers add up. Days are ordinals of the
calendar, moments microseconds since 1970: SQLite and PostgreSQL calculate alike.
"""

pending_files = Table(
    "pending_files",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("suffix", String(40), nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("created_at", UtcTime, nullable=False),
)


logger = logging.getLogger(__name__)

VERSION_TABLE = "skills_mcp_revision"

_version = Table(VERSION_TABLE, MetaData(), Column("version_num", String(32), primary_key=True))

# Any number that no other program locks in the same database; this one spells "skills".
_LOCK_KEY = 0x736B696C6C73

# A revision of a large table may take minutes, and the other replicas wait for it.
_LOCK_TIMEOUT_SECONDS = 300.0

_MOMENT = DateTime(timezone=True)


def _create_events(operations: Operations) -> None:
    operations.create_table(
        "events",
        Column("event_id", String(200), primary_key=True),
        Column("kind", String(40), nullable=False),
        Column("happened_at", _MOMENT, nullable=False),
        Column("received_at", _MOMENT, nullable=False),
        Column("server_id", String(200), nullable=False),
        Column("content_commit", String(200)),
        Column("data", Json, nullable=False),
    )
    operations.create_index("events_happened_at", "events", ["happened_at"])
    operations.create_index("events_received_at", "events", ["received_at"])
    operations.create_table(
        "heartbeats",
        Column("server_id", String(200), primary_key=True),
        Column("day", Date, primary_key=True),
        Column("happened_at", _MOMENT, nullable=False),
        Column("version", String(200), nullable=False),
        Column("transport", String(40), nullable=False),
        Column("sources", Json, nullable=False),
    )
    operations.create_index("heartbeats_day", "heartbeats", ["day"])


def _create_kept_days(operations: Operations) -> None:
    operations.create_table(
        "kept_days",
        Column("day", Date, primary_key=True),
        Column("layout", String(40), nullable=False),
        Column("events", Integer, nullable=False),
        Column("totals", LargeBinary, nullable=False),
        Column("body", LargeBinary, nullable=False),
    )


def _add_late_events(operations: Operations) -> None:
    for column in Column("received_until", _MOMENT), Column("unfinished", LargeBinary):
        operations.add_column("kept_days", column)


def _create_figures(operations: Operations) -> None:
    """Create the roll-up as rows, and empty the one of bytes.

    That one stays a table: servers of the version before go on with it.
    """
    operations.create_table(
        "rolled_days",
        Column("day", Integer, primary_key=True, autoincrement=False),
        Column("layout", String(40), nullable=False),
        Column("events", Integer, nullable=False),
        Column("received_until", _MOMENT),
    )
    names = ("content_commit", "team", "person", "skill", "other", "mark", "wording")
    operations.create_table(
        "day_figures",
        Column("day", Integer, nullable=False),
        Column("figure", String(20), nullable=False),
        *map(_name_column, names),
        Column("duration_ms", BigInteger),
        Column("number", BigInteger, nullable=False),
        Column("first_at", BigInteger, nullable=False),
        Column("last_at", BigInteger, nullable=False),
    )
    operations.create_index("day_figures_figure", "day_figures", ["figure", "day"])
    operations.execute(table("kept_days").delete())


def _create_pending_files(operations: Operations) -> None:
    operations.create_table(
        "pending_files",
        Column("name", String(200), primary_key=True),
        Column("owner", Text, nullable=False),
        Column("suffix", String(40), nullable=False),
        Column("data", LargeBinary, nullable=False),
        Column("created_at", _MOMENT, nullable=False),
    )


_MIGRATIONS: Mapping[str, Callable[[Operations], None]] = {
    "0001": _create_events,
    "0002": _create_kept_days,
    "0003": _add_late_events,
    "0004": _create_figures,
    "0005": _create_pending_files,
}


def migrate_schema(engine: Engine, revision: str = max(_MIGRATIONS)) -> None:
    """Migrate the tables; the first of several servers does it.  Blocking.

    A migration only adds, and tables of a newer version are used as they are: so
    servers of the version before go on meanwhile, and after a rollback.

    Raises:
        OSError: The file of the database cannot be locked.
        SQLAlchemyError: The database cannot be reached, or refuses it.
    """
    with _begin_exclusive(engine) as connection:
        options = {"version_table": VERSION_TABLE}
        context = MigrationContext.configure(connection, opts=options)
        current = context.get_current_revision() or ""
        if current and current not in _MIGRATIONS:
            logger.warning(
                "The tables of events were made by a newer version of this program "
                "(revision %s), and are used as they are",
                current,
            )
            return
        pending = [name for name in _MIGRATIONS if current < name <= revision]
        for name in pending:
            _MIGRATIONS[name](Operations(context))
        if pending:
            _version.create(connection, checkfirst=True)
            connection.execute(_version.delete())
            connection.execute(_version.insert().values(version_num=pending[-1]))
            logger.info("The tables of events were made or changed")


@contextmanager
def _begin_exclusive(engine: Engine) -> Iterator[Connection]:
    """Begin a transaction and exclude all other servers."""
    if engine.dialect.name == "sqlite":
        file = Path(engine.url.database or "")
        lock = file.with_name(f"{file.name}.lock")
        with (
            acquire_lock(lock, timeout_seconds=_LOCK_TIMEOUT_SECONDS),
            engine.begin() as locked,
        ):
            yield locked
        return
    with engine.begin() as connection:
        # It ends with the transaction, also behind a pool of connections, and when this
        # process is killed.
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK_KEY)))
        yield connection
