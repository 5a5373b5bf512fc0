"""Makes the tables of events, and changes older ones, while several servers start.

Rule: a revision only adds. So the servers of the version before go on while the first
one of a new version has changed the tables already, and after a step back.
"""

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

REVISIONS = Path(__file__).with_name("revisions")
"""The folder of the revisions."""

_VERSION_TABLE = "skills_mcp_revision"

# Any number that no other program locks in the same database; this one spells "skills".
_LOCK_KEY = 0x736B696C6C73

# A revision of a large table may take minutes, and the other replicas wait for it.
_WAIT_SECONDS = 300.0

# Alembic keeps what it works on in a module: one database of a process at a time.
_alembic = threading.Lock()


def upgrade_schema(engine: Engine, revision: str = "head") -> None:
    """Bring the tables to a revision; the first of several servers does it.  Blocking.

    Tables of a newer version of this program are used as they are.

    Raises:
        OSError: The file of the database cannot be locked.
        SQLAlchemyError: The database cannot be reached, or refuses it.
    """
    configuration = Config()
    configuration.set_main_option("script_location", str(REVISIONS).replace("%", "%%"))
    script = ScriptDirectory.from_config(configuration)
    ours = [each.revision for each in script.walk_revisions()]
    with _exclusive(engine) as connection:
        current = _read_revision(connection)
        if current and current not in ours:
            logger.warning(
                "The tables of events were made by a newer version of this program "
                "(revision %s), and are used as they are",
                current,
            )
        elif current != ours[0]:
            configuration.attributes["connection"] = connection
            configuration.attributes["version_table"] = _VERSION_TABLE
            with _alembic:
                command.upgrade(configuration, revision)
            logger.info("The tables of events were made or changed")


def _read_revision(connection: Connection) -> str | None:
    options = {"version_table": _VERSION_TABLE}
    return MigrationContext.configure(connection, opts=options).get_current_revision()


@contextmanager
def _exclusive(engine: Engine) -> Iterator[Connection]:
    """Yield a connection with one transaction, and keep all other servers out."""
    if engine.dialect.name == "sqlite":
        file = Path(engine.url.database or "")
        lock = file.with_name(f"{file.name}.lock")
        with acquire_lock(lock, timeout_seconds=_WAIT_SECONDS), engine.begin() as held:
            yield held
        return
    with engine.begin() as connection:
        # It ends with the transaction, also behind a pool of connections, and when this
        # process is killed.
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK_KEY)))
        yield connection
