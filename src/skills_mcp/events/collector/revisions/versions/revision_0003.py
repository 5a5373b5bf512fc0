"""Add columns to continue a roll-up with late events."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns; earlier versions leave them empty."""
    for column in (
        sa.Column("received_until", sa.DateTime(timezone=True)),
        sa.Column("unfinished", sa.LargeBinary),
    ):
        op.add_column("kept_days", column)
