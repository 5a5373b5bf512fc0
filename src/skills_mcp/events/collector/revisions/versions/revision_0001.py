"""Create the tables of events and heartbeats."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None

_JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("event_id", sa.String(200), primary_key=True),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("happened_at", _MOMENT, nullable=False),
        sa.Column("received_at", _MOMENT, nullable=False),
        sa.Column("server_id", sa.String(200), nullable=False),
        sa.Column("content_commit", sa.String(200)),
        sa.Column("data", _JSON, nullable=False),
    )
    op.create_index("events_happened_at", "events", ["happened_at"])
    op.create_index("events_received_at", "events", ["received_at"])
    op.create_table(
        "heartbeats",
        sa.Column("server_id", sa.String(200), primary_key=True),
        sa.Column("day", sa.Date, primary_key=True),
        sa.Column("happened_at", _MOMENT, nullable=False),
        sa.Column("version", sa.String(200), nullable=False),
        sa.Column("transport", sa.String(40), nullable=False),
        sa.Column("sources", _JSON, nullable=False),
    )
    op.create_index("heartbeats_day", "heartbeats", ["day"])
