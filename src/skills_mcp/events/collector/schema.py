"""The schema of the event database, and its migration.

A change of a table needs a migration in the folder `revisions`.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    JSON,
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
    TypeDecorator,
    func,
    select,
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
"""The newest heartbeat of each server and day."""

roll_ups = Table(
    "kept_days",
    metadata,
    Column("day", Date, primary_key=True),
    Column("layout", String(40), nullable=False),
    Column("events", Integer, nullable=False),
    Column("totals", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("received_until", UtcTime),
    Column("unfinished", LargeBinary),
)
"""Daily roll-ups for reports."""


logger = logging.getLogger(__name__)

MIGRATIONS = Path(__file__).with_name("revisions")

_VERSION_TABLE = "skills_mcp_revision"

# Any number that no other program locks in the same database; this one spells "skills".
_LOCK_KEY = 0x736B696C6C73

# A revision of a large table may take minutes, and the other replicas wait for it.
_LOCK_TIMEOUT_SECONDS = 300.0

# Alembic keeps what it works on in a module: one database of a process at a time.
_alembic = threading.Lock()


def migrate_schema(engine: Engine, revision: str = "head") -> None:
    """Migrate the tables; the first of several servers does it.  Blocking.

    A migration only adds, and tables of a newer version are used as they are: so
    servers of
    the version before go on meanwhile, and after a rollback.

    Raises:
        OSError: The file of the database cannot be locked.
        SQLAlchemyError: The database cannot be reached, or refuses it.
    """
    configuration = Config()
    configuration.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    script = ScriptDirectory.from_config(configuration)
    known = [migration.revision for migration in script.walk_revisions()]
    with _begin_exclusive(engine) as connection:
        current = _read_revision(connection)
        if current and current not in known:
            logger.warning(
                "The tables of events were made by a newer version of this program "
                "(revision %s), and are used as they are",
                current,
            )
        elif current != known[0]:
            configuration.attributes["connection"] = connection
            configuration.attributes["version_table"] = _VERSION_TABLE
            with _alembic:
                command.upgrade(configuration, revision)
            logger.info("The tables of events were made or changed")


def _read_revision(connection: Connection) -> str | None:
    options = {"version_table": _VERSION_TABLE}
    return MigrationContext.configure(connection, opts=options).get_current_revision()


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
