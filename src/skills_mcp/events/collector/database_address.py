"""The URL of the database of events: which ones there are, and what may be shown."""

from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from skills_mcp.about import DISTRIBUTION
from skills_mcp.errors import ConfigError
from skills_mcp.text.redaction import remember_secret

_POSTGRESQL = "postgresql+psycopg"

_DRIVERS = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgresql": _POSTGRESQL,
    "postgres": _POSTGRESQL,
    _POSTGRESQL: _POSTGRESQL,
}
"""What stands before `://`, and what SQLAlchemy calls it."""

FILE = "events.db"
"""The database of a server that names none, in the folder of skills-mcp."""


def parse_address(text: str, home: Path) -> URL:
    """Return the URL of the database; without a text, of the file in a folder.

    Its password is taken out of logs and messages from then on.

    Raises:
        ConfigError: It is no URL of a database that can be used.
    """
    if not text:
        return URL.create("sqlite", database=str(home / FILE))
    try:
        given = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError(_describe("is no URL of a database")) from None
    if given.password:
        remember_secret(given.password)
    driver = _DRIVERS.get(given.drivername)
    if driver is None:
        raise ConfigError(_describe("names a database that is not supported"))
    if driver == "sqlite":
        return _parse_file(given)
    if find_spec("psycopg") is None:
        raise ConfigError(
            "events.database names PostgreSQL, which needs psycopg, and that is not "
            f"installed: pip install '{DISTRIBUTION}[http,postgres]'"
        )
    return given.set(drivername=driver)


def _parse_file(given: URL) -> URL:
    if given.host or not given.database or given.database == ":memory:":
        raise ConfigError(
            _describe("names no file; an absolute path has four slashes in a row")
        )
    file = Path(given.database).expanduser().absolute()
    return given.set(drivername="sqlite", database=str(file))


def _describe(fault: str) -> str:
    return (
        f"events.database {fault}. Write sqlite:////var/lib/skills/events.db or "
        "postgresql+psycopg://USER@HOST/DATABASE."
    )


def show_address(address: URL) -> str:
    """Return where a database is, without what may be secret.

    >>> show_address(make_url("postgresql+psycopg://skills:1234@db/events?sslkey=k"))
    'postgresql at db, database events'
    >>> show_address(make_url("sqlite:////srv/events.db"))
    '/srv/events.db'
    """
    if address.get_backend_name() == "sqlite":
        return address.database or ""
    host = address.host or address.query.get("host") or "its default host"
    port = f":{address.port}" if address.port else ""
    return f"{address.get_backend_name()} at {host}{port}, database {address.database}"
