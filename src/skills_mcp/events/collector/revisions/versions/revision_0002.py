"""Create the table of daily roll-ups."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "kept_days",
        sa.Column("day", sa.Date, primary_key=True),
        sa.Column("layout", sa.String(40), nullable=False),
        sa.Column("events", sa.Integer, nullable=False),
        sa.Column("totals", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
