"""Schema migration, safe while several servers start."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, func, select

from skills_mcp.files.locks import acquire_lock

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
