"""One writer at a time, whatever stands in the place of the lock."""

import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from skills_mcp.content.store.snapshot_store import SnapshotStore
from skills_mcp.errors import SyncError
from tests.content.store.snapshots import (
    ONE,
    OTHER_PROCESS,
    make_folder,
    make_link,
    make_pipe,
    opened,
    publish,
)
from tests.support import PATIENCE_SECONDS, running_python, wait_for, write


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "store")


WRITE = f"""{OTHER_PROCESS}
with store.exclusive(timeout_seconds=20):
    print("writing", flush=True)
    sys.stdin.read()
"""


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


def test_a_folder_in_the_place_of_the_lock_is_no_obstacle(
    store: SnapshotStore,
) -> None:
    make_folder(store.directory / "sync.lock")

    publish(store, ONE)

    assert opened(store).revision == ONE


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes")
@pytest.mark.parametrize("damage", [make_link, make_pipe])
def test_what_can_be_no_lock_is_named(
    damage: Callable[[Path], None], store: SnapshotStore
) -> None:
    publish(store, ONE)
    damage(store.directory / "sync.lock")

    with (
        pytest.raises(SyncError, match=r"sync\.lock is no plain file.*delete it"),
        store.exclusive(timeout_seconds=0),
    ):
        pytest.fail("a lock that locks nothing")


def test_a_file_in_the_place_of_the_cache_is_named(tmp_path: Path) -> None:
    write(tmp_path / "store", "in the way")
    store = SnapshotStore(tmp_path / "store")

    with (
        pytest.raises(SyncError, match="something else stands in its place"),
        store.exclusive(timeout_seconds=0),
    ):
        pytest.fail("no cache")
    assert store.open_current() is None
    assert store.commits() == ()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks at open files")
def test_who_waited_for_the_lock_of_a_cache_that_was_deleted_takes_the_new_one(
    store: SnapshotStore,
) -> None:
    held, done = threading.Event(), threading.Event()

    def wait_and_hold() -> None:
        with store.exclusive(timeout_seconds=20):
            held.set()
            done.wait(PATIENCE_SECONDS)

    waiting = threading.Thread(target=wait_and_hold)
    with store.exclusive(timeout_seconds=10):
        waiting.start()
        wait_for(lambda: count_open(store.directory / "sync.lock") == 2)
        shutil.rmtree(store.directory)
    assert held.wait(PATIENCE_SECONDS)
    with (
        pytest.raises(SyncError, match="another sync"),
        store.exclusive(timeout_seconds=0),
    ):
        pytest.fail("two writers")
    done.set()
    waiting.join()

    assert (store.directory / "snap").is_dir()


def count_open(path: Path) -> int:
    opened = 0
    for link in Path("/proc/self/fd").iterdir():
        try:
            opened += link.readlink() == path
        except OSError:
            continue
    return opened
