"""Alembic migrations of the event database."""
