"""The Alembic environment."""

from alembic import context

from skills_mcp.events.collector.schema import metadata


def run_migrations() -> None:
    attributes = context.config.attributes
    context.configure(
        connection=attributes["connection"],
        target_metadata=metadata,
        version_table=attributes["version_table"],
        transactional_ddl=True,  # also of SQLite: `open_engine` begins transactions
    )
    with context.begin_transaction():
        context.run_migrations()


if hasattr(context, "config"):  # alembic runs this module, others only import it
    run_migrations()
