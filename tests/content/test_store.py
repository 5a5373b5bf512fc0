import json
import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from skills_mcp.content.source import Checkout
from skills_mcp.content.store import Current, SnapshotStore
from skills_mcp.errors import SyncError
from tests.support import run_python, running_python, wait_for, write

ONE, TWO = "1" * 40, "2" * 40

OTHER_PROCESS = """
import sys
from pathlib import Path
from skills_mcp.content.store import SnapshotStore
store = SnapshotStore(Path(sys.argv[1]))
"""
COLLECT = f"""{OTHER_PROCESS}
with store.exclusive(timeout_seconds=20):
    store.collect()
"""
READ = f"""{OTHER_PROCESS}
checkout = store.open_current()
print("reading", flush=True)
sys.stdin.read()
"""
WRITE = f"""{OTHER_PROCESS}
with store.exclusive(timeout_seconds=20):
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "store")


def publish(store: SnapshotStore, commit: str, *, at: float = 1.0) -> None:
    with store.exclusive(timeout_seconds=10):
        store.stage(commit, lambda folder: fill(folder, commit))
        store.publish(Current(commit, at))


def fill(folder: Path, text: str) -> tuple[str, ...]:
    write(folder / "a.md", text)
    return ()


def collect(store: SnapshotStore) -> None:
    with store.exclusive(timeout_seconds=10):
        store.collect()


def opened(store: SnapshotStore) -> Checkout:
    checkout = store.open_current()
    assert checkout is not None
    return checkout


def snapshots(tmp_path: Path) -> list[str]:
    return sorted(p.name for p in (tmp_path / "store/snap").iterdir() if p.is_dir())


def test_what_is_published_is_opened(store: SnapshotStore) -> None:
    publish(store, ONE, at=1_000_000.5)

    checkout = opened(store)

    assert checkout.revision == ONE
    assert (checkout.directory / "a.md").read_text() == ONE
    assert checkout.synced_at.timestamp() == 1_000_000.5


def test_nothing_is_published_where_nothing_is(store: SnapshotStore) -> None:
    assert store.current() is None
    assert store.open_current() is None


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_the_cache_is_for_its_user_alone(store: SnapshotStore, tmp_path: Path) -> None:
    publish(store, ONE)

    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700


@pytest.mark.spec("9.1")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        f'{{"commit": "{ONE}"}}',
        f'{{"commit": "{ONE}", "fetched_at": "yesterday"}}',
        f'{{"commit": "{ONE}", "fetched_at": NaN}}',
        f'{{"commit": "{ONE}", "fetched_at": 1e300}}',
        f'{{"commit": "{TWO}", "fetched_at": 1}}',
        '{"commit": "", "fetched_at": 1}',
        '{"commit": "..", "fetched_at": 1}',
        b"\xff\xfe\x00",
    ],
)
def test_a_pointer_that_makes_no_sense_publishes_nothing(
    text: str | bytes, store: SnapshotStore, tmp_path: Path
) -> None:
    publish(store, ONE)
    write(tmp_path / "store" / "current.json", text)

    assert store.current() is None
    assert store.open_current() is None


def test_a_snapshot_that_was_deleted_publishes_nothing(
    store: SnapshotStore, tmp_path: Path
) -> None:
    publish(store, ONE)
    (tmp_path / f"store/snap/{ONE}/a.md").unlink()
    (tmp_path / f"store/snap/{ONE}").rmdir()

    assert store.open_current() is None


def test_a_lease_that_cannot_be_taken_publishes_nothing(
    store: SnapshotStore, tmp_path: Path
) -> None:
    publish(store, ONE)
    (tmp_path / f"store/snap/{ONE}.lease").mkdir()

    assert store.open_current() is None


def test_a_commit_that_is_staged_already_is_not_written_again(
    store: SnapshotStore,
) -> None:
    publish(store, ONE)

    def refuse(folder: Path) -> tuple[str, ...]:
        raise AssertionError(folder)

    with store.exclusive(timeout_seconds=10):
        store.stage(ONE, refuse)


def test_a_commit_gets_its_name_only_when_it_is_complete(
    store: SnapshotStore, tmp_path: Path
) -> None:
    def write_half(folder: Path) -> tuple[str, ...]:
        fill(folder, "half")
        assert snapshots(tmp_path) == [folder.name]
        raise OSError("No space left on device")

    with store.exclusive(timeout_seconds=10), pytest.raises(OSError, match="No space"):
        store.stage(ONE, write_half)

    assert snapshots(tmp_path) == []


def test_a_staging_folder_that_was_left_over_disappears_and_is_never_served(
    store: SnapshotStore, tmp_path: Path
) -> None:
    publish(store, ONE)
    write(tmp_path / "store/snap/.staging-dead/a.md", "half")
    write(tmp_path / "store/.current-dead", "{}")

    served = opened(store)
    collect(store)

    assert served.revision == ONE
    assert snapshots(tmp_path) == [ONE]
    assert not (tmp_path / "store/.current-dead").exists()


def test_the_pointer_is_never_half_written(
    store: SnapshotStore, tmp_path: Path
) -> None:
    publish(store, ONE)
    publish(store, TWO)
    seen: set[str] = set()
    stop = threading.Event()

    def read() -> None:
        pointer = tmp_path / "store/current.json"
        while not stop.is_set():
            seen.add(json.loads(pointer.read_bytes())["commit"])

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(300):
        store.publish(Current((ONE, TWO)[number % 2], 1.0))
    stop.set()
    reader.join()

    assert seen == {ONE, TWO}


def test_a_snapshot_that_nobody_reads_is_collected(
    store: SnapshotStore, tmp_path: Path
) -> None:
    publish(store, ONE)
    publish(store, TWO)

    collect(store)

    assert snapshots(tmp_path) == [TWO]
    assert not (tmp_path / f"store/snap/{ONE}.lease").exists()


def test_a_snapshot_is_kept_for_as_long_as_its_checkout_is_referenced(
    store: SnapshotStore, tmp_path: Path
) -> None:
    publish(store, ONE)
    reading = opened(store)
    publish(store, TWO)

    collect(store)
    while_read = (reading.directory / "a.md").read_text()
    del reading
    collect(store)

    assert while_read == ONE
    assert snapshots(tmp_path) == [TWO]


def test_two_readers_of_one_commit_each_protect_it(
    store: SnapshotStore, tmp_path: Path
) -> None:
    publish(store, ONE)
    first, second = opened(store), opened(store)
    publish(store, TWO)

    del first
    collect(store)

    assert second.directory.is_dir()
    assert snapshots(tmp_path) == [ONE, TWO]


def test_another_process_that_collects_respects_our_lease(
    store: SnapshotStore, tmp_path: Path
) -> None:
    publish(store, ONE)
    reading = opened(store)
    publish(store, TWO)

    run_python(COLLECT, tmp_path / "store")
    while_read = snapshots(tmp_path)
    del reading
    run_python(COLLECT, tmp_path / "store")

    assert while_read == [ONE, TWO]
    assert snapshots(tmp_path) == [TWO]


def test_we_respect_the_lease_of_another_process_until_it_dies(
    store: SnapshotStore, tmp_path: Path
) -> None:
    publish(store, ONE)

    with running_python(READ, tmp_path / "store") as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"reading\n"
        publish(store, TWO)
        collect(store)
        while_read = snapshots(tmp_path)
    collect(store)

    assert while_read == [ONE, TWO]
    assert snapshots(tmp_path) == [TWO]


def test_what_is_published_is_never_collected(
    store: SnapshotStore, tmp_path: Path
) -> None:
    publish(store, ONE)

    collect(store)

    assert snapshots(tmp_path) == [ONE]


def test_a_snapshot_that_was_collected_a_moment_ago_cannot_be_leased(
    store: SnapshotStore,
) -> None:
    publish(store, ONE)
    publish(store, TWO)
    collect(store)

    assert store._take_lease(ONE) is None


def test_opening_while_others_publish_and_collect_never_sees_a_torn_snapshot(
    store: SnapshotStore,
) -> None:
    commits = [f"{number:040x}" for number in range(60)]
    publish(store, commits[0])
    stop = threading.Event()
    torn: list[str] = []
    opened_count = 0

    def read() -> None:
        nonlocal opened_count
        while not stop.is_set():
            checkout = store.open_current()
            if checkout is None:
                torn.append("nothing")
                continue
            opened_count += 1
            if (checkout.directory / "a.md").read_text() != checkout.revision:
                torn.append(str(checkout.revision))

    reader = threading.Thread(target=read)
    reader.start()
    for commit in commits[1:]:
        publish(store, commit)
        collect(store)
    stop.set()
    reader.join()

    assert torn == []
    assert opened_count > 0


@pytest.mark.spec("9.5")
def test_only_one_process_writes_at_a_time(
    store: SnapshotStore, tmp_path: Path
) -> None:
    with running_python(WRITE, tmp_path / "store") as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        with (
            pytest.raises(SyncError, match="picked up at the next refresh"),
            store.exclusive(timeout_seconds=0),
        ):
            pytest.fail("two writers")

    with store.exclusive(timeout_seconds=10):
        pass  # the lock of a process that died is free


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs inherited descriptors")
def test_a_child_that_inherits_the_lock_keeps_it_when_its_parent_dies(
    store: SnapshotStore, tmp_path: Path
) -> None:
    orphan = f"""{OTHER_PROCESS}
import subprocess
with store.exclusive(timeout_seconds=20) as lock:
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        pass_fds=[lock.fileno()],
    )
    print(child.pid, flush=True)
    child.wait()
"""
    with running_python(orphan, tmp_path / "store") as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        with pytest.raises(SyncError), store.exclusive(timeout_seconds=0):
            pytest.fail("the orphan may still write")
        parent.stdin.close()  # ends the orphan, too
        wait_for(lambda: is_free(store))

    assert child != parent.pid


def is_free(store: SnapshotStore) -> bool:
    try:
        with store.exclusive(timeout_seconds=0):
            return True
    except SyncError:
        return False


def test_gits_own_store_can_be_discarded(store: SnapshotStore) -> None:
    publish(store, ONE)
    write(store.objects / "HEAD", "ref")

    store.discard_objects()

    assert not store.objects.exists()
    assert opened(store).revision == ONE
