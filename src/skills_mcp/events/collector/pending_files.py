"""Files that wait for a confirmation, in the database that all replicas share.

Any replica may get the request that confirms a file.
"""

from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, delete, func, select

from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.events.collector.schema import pending_files


class PendingFiles:
    """Files by name and owner.  All methods block.

    Args:
        store: The database.
        max_bytes: Of all files; the oldest make room.
        max_age: Older files are deleted with the next one that comes.

    Raises:
        EventStoreError: By every method: the database cannot be used.
    """

    def __init__(self, store: EventStore, max_bytes: int, max_age: timedelta) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._max_age = max_age

    def put(self, name: str, owner: str, suffix: str, data: bytes) -> None:
        row = {"name": name, "owner": owner, "suffix": suffix, "data": data}
        with self._store.writing() as connection:
            self._make_room(connection, len(data))
            connection.execute(pending_files.insert().values(**row, created_at=datetime.now(UTC)))

    def find(self, name: str, owner: str) -> tuple[str, bytes] | None:
        """Suffix and data of a file; None if it is another owner's, or too old."""
        query = (
            select(pending_files.c.suffix, pending_files.c.data)
            .where(pending_files.c.name == name, pending_files.c.owner == owner)
            .where(pending_files.c.created_at >= datetime.now(UTC) - self._max_age)
        )
        with self._store.reading() as connection:
            found = connection.execute(query).one_or_none()
        return (found.suffix, bytes(found.data)) if found else None

    def delete(self, name: str) -> None:
        with self._store.writing() as connection:
            connection.execute(delete(pending_files).where(pending_files.c.name == name))

    def _make_room(self, connection: Connection, coming_bytes: int) -> None:
        kept = pending_files.c
        sizes = select(kept.name, kept.created_at, func.length(kept.data)).order_by(
            kept.created_at.desc()
        )
        oldest, total = datetime.now(UTC) - self._max_age, coming_bytes
        removed = []
        for name, created_at, size in connection.execute(sizes).all():
            total += size
            if created_at < oldest or total > self._max_bytes:
                removed.append(name)
        connection.execute(delete(pending_files).where(kept.name.in_(removed)))
