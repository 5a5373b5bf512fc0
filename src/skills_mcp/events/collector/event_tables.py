"""The schema of the event database, and its migration.

A change of a table needs a migration in the folder `revisions`.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    Date,
    DateTime,
    Dialect,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    TypeDecorator,
)
from sqlalchemy.dialects.postgresql import JSONB

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
