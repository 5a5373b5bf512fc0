"""A file that waits for a confirmation is found by every replica, and by its owner alone."""

from datetime import timedelta

from skills_mcp.events.collector.event_store import EventStore, PendingFiles

HOUR = timedelta(hours=1)


def test_each_replica_finds_a_file_for_its_owner_until_it_is_deleted(store: EventStore) -> None:
    one, other = (PendingFiles(store, 1000, HOUR) for _ in range(2))
    one.put("name", "https://login\nada", ".zip", b"\x00PK")

    found = other.find("name", "https://login\nada")
    stranger, late = other.find("name", "bob"), PendingFiles(store, 1000, -HOUR)
    is_expired = late.find("name", "https://login\nada") is None
    other.delete("name")

    assert found == (".zip", b"\x00PK")
    assert stranger is None
    assert is_expired
    assert one.find("name", "https://login\nada") is None


def test_the_oldest_files_make_room(store: EventStore) -> None:
    files = PendingFiles(store, 10, HOUR)

    for name in "abc":
        files.put(name, "ada", ".zip", bytes(4))

    assert [bool(files.find(name, "ada")) for name in "abc"] == [False, True, True]
