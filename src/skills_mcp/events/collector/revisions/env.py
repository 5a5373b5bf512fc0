"""How alembic finds the connection on which a revision runs."""

from alembic import context

from skills_mcp.events.collector.event_tables import metadata


def run_revisions() -> None:
    """Run the revisions that alembic has chosen."""
    given = context.config.attributes
    context.configure(
        connection=given["connection"],
        target_metadata=metadata,
        version_table=given["version_table"],
        transactional_ddl=True,  # also of SQLite: `open_engine` begins transactions
    )
    with context.begin_transaction():
        context.run_migrations()


if hasattr(context, "config"):  # alembic runs this module, others only import it
    run_revisions()
