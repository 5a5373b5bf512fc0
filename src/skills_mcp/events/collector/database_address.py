"""URLs of the event database: parsing, drivers and display without secrets."""

from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from skills_mcp.about import DISTRIBUTION
from skills_mcp.errors import ConfigError
from skills_mcp.text.redaction import register_secret

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
            f"installed: pip install '{DISTRIBUTION}[http,postgres]'"
        )
    return url.set(drivername=driver)


def _parse_sqlite_url(url: URL) -> URL:
    if url.host or not url.database or url.database == ":memory:":
        raise ConfigError(
            _describe_fault("names no file; an absolute path has four slashes in a row")
        )
    file = Path(url.database).expanduser().absolute()
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
