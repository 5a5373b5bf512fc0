"""Readers and those who delete, with and without the right to write."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from skills_mcp.content.commit_store import (
    CommitStore,
    PublishedCommit,
    acquire_lease,
    exclusive_lease,
)
from tests.content.store.snapshots import (
    COLLECT,
    ONE,
    OTHER_PROCESS,
    TWO,
    collect,
    opened,
    publish,
    snapshots,
)
from tests.support import run_python, running_python, write


@pytest.fixture
def store(tmp_path: Path) -> CommitStore:
    return CommitStore(tmp_path / "store")


READ = f"""{OTHER_PROCESS}
checkout = store.open_current()
print("reading", flush=True)
sys.stdin.read()
"""


def test_a_snapshot_is_kept_for_as_long_as_its_checkout_is_referenced(
    store: CommitStore, tmp_path: Path
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


def test_two_readers_of_one_commit_each_protect_it(store: CommitStore, tmp_path: Path) -> None:
    publish(store, ONE)
    first, second = opened(store), opened(store)
    publish(store, TWO)

    del first
    collect(store)

    assert second.directory.is_dir()
    assert snapshots(tmp_path) == [ONE, TWO]


def test_another_process_that_collects_respects_our_lease(
    store: CommitStore, tmp_path: Path
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
    store: CommitStore, tmp_path: Path
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


def test_a_snapshot_that_was_collected_a_moment_ago_cannot_be_leased(
    store: CommitStore,
) -> None:
    publish(store, ONE)
    publish(store, TWO)
    collect(store)

    assert store.open_commit(ONE, PublishedCommit(ONE, 1.0)) is None


def test_a_lease_on_what_was_deleted_is_given_back(tmp_path: Path) -> None:
    lease = tmp_path / "lease"

    taken = acquire_lease(lease, lambda: False)

    assert taken is None
    with exclusive_lease(lease) as is_free:
        assert is_free


def test_a_lease_whose_file_was_deleted_guards_nothing(tmp_path: Path) -> None:
    lease = tmp_path / "lease"

    def look_as_somebody_deletes_it() -> bool:
        lease.unlink()
        return True

    assert acquire_lease(lease, look_as_somebody_deletes_it) is None


def test_a_pointer_that_moves_on_while_it_is_followed_is_followed_again(
    store: CommitStore,
) -> None:
    publish(store, ONE)
    hidden = store.folder(ONE).rename(store.directory / "hidden")

    printed = run_python(
        f"""{OTHER_PROCESS}
import os
looks = []
def look(event, arguments):
    if event == "open" and str(arguments[0]).endswith("current.json"):
        looks.append(event)
        if len(looks) == 2:
            os.rename({str(hidden)!r}, store.folder("{ONE}"))
sys.addaudithook(look)
print(store.open_current().revision)
""",
        store.directory,
    )

    assert printed == ONE


def test_opening_while_others_publish_and_collect_never_sees_a_torn_snapshot(
    store: CommitStore,
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


WITHOUT_ROOTS_RIGHTS = """
import ctypes, os, sys
if sys.argv[1] != "again":
    for capability in (1, 2):  # to write and to read whatever the modes say
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
    again = ["-c", sys.orig_argv[2], "again", *sys.argv[1:]]
    os.execv(sys.executable, [sys.executable, *again])
from pathlib import Path
from skills_mcp.content.commit_store import exclusive_lease, acquire_lease
from skills_mcp.content.commit_store import PublishedCommit
from skills_mcp.content.commit_store import CommitStore
from skills_mcp.errors import SyncError
store = CommitStore(Path(sys.argv[2]))
def publish(commit):
    with store.exclusive(timeout_seconds=5):
        store.stage(commit, lambda folder: {})
        store.publish(PublishedCommit(commit, 1.0))
        store.delete_unreferenced()
"""


needs_modes = pytest.mark.skipif(
    sys.platform != "linux", reason="modes bind root, too, only without capabilities"
)


@needs_modes
def test_what_is_ours_and_closed_is_opened_again(store: CommitStore) -> None:
    publish(store, ONE)
    opened(store)
    for name in (
        "sync.lock",
        "current.json",
        f"snap/{ONE}.lease",
        f"snap/{ONE}.survey",
    ):
        (store.directory / name).chmod(0)
    write(store.folder(ONE) / "inner/file.md")
    for folder in (f"snap/{ONE}/inner", f"snap/{ONE}", "snap", "."):
        (store.directory / folder).chmod(0)

    printed = run_python(
        f"{WITHOUT_ROOTS_RIGHTS}\npublish('{TWO}')\n"
        "print(store.open_current().revision, store.commits())",
        store.directory,
    )

    assert printed == f"{TWO} ('{TWO}',)"
    assert not list((store.directory / "snap").glob(".*"))


@needs_modes
def test_a_cache_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)

    printed = run_python(
        f"{WITHOUT_ROOTS_RIGHTS}\ntry:\n    publish('{ONE}')\n"
        "except SyncError as error:\n    print(error)",
        closed / "store",
    )

    assert "set SKILLS_MCP_HOME to a folder of your own" in printed


AS_NOBODY = """
import os, sys
from pathlib import Path
from skills_mcp.content.commit_store import exclusive_lease, acquire_lease
from skills_mcp.content.commit_store import PublishedCommit
from skills_mcp.content.commit_store import CommitStore
from skills_mcp.errors import SyncError
os.chdir(sys.argv[1])
CommitStore(Path("store")).open_current()  # imports what it needs
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
store = CommitStore(Path("store"))
checkout = store.open_current()
print(checkout.revision, (checkout.directory / "a.md").read_text(), flush=True)
try:
    with store.exclusive(timeout_seconds=0):
        print("written")
except SyncError as error:
    print(error, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can be nobody")
@pytest.mark.parametrize("has_lease", [True, False])
def test_a_cache_that_belongs_to_somebody_else_is_read(
    store: CommitStore, tmp_path: Path, *, has_lease: bool
) -> None:
    publish(store, ONE)
    if has_lease:
        opened(store)
    for path in (tmp_path, store.directory, *store.directory.rglob("*")):
        path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))

    with running_python(AS_NOBODY, tmp_path) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline().decode() == f"{ONE} {ONE}\n"
        assert b"cannot be written" in reader.stdout.readline()
        publish(store, TWO)
        collect(store)
        while_read = store.commits()

    assert while_read == (ONE, TWO) if has_lease else (TWO,)


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode
    != 0,
    reason="cannot mount",
)
@pytest.mark.parametrize("has_lease", [True, False])
def test_a_disk_that_was_remounted_read_only_is_read(
    store: CommitStore, *, has_lease: bool
) -> None:
    publish(store, ONE)
    if has_lease:
        opened(store)
    code = f"""{OTHER_PROCESS}
from skills_mcp.errors import SyncError
print(store.open_current().revision)
try:
    with store.exclusive(timeout_seconds=0):
        print("written")
except SyncError as error:
    print(error)
"""
    mount = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && "$2" -c "$3" "$1"'

    done = subprocess.run(
        [
            *("unshare", "--mount", "sh", "-c", mount, "sh"),
            *(store.directory, sys.executable, code),
        ],
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout.startswith(f"{ONE}\nthe cache ")
    assert "the disk is read-only" in done.stdout


def test_in_a_cache_of_ours_nothing_is_served_without_a_lease(
    store: CommitStore,
) -> None:
    publish(store, ONE)
    (store.directory / f"snap/{ONE}.lease").mkdir()

    assert store.open_current() is None


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_with_too_many_open_files_nothing_counts_as_deleted(
    store: CommitStore,
) -> None:
    publish(store, ONE)

    printed = run_python(
        f"""{OTHER_PROCESS}
import errno, os, resource
from skills_mcp.content.commit_store import acquire_lease
from skills_mcp.errors import SyncError
store.open_current()
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
try:
    while True:
        os.dup(0)
except OSError:
    pass
def lock():
    with store.exclusive(timeout_seconds=0):
        return "written"
def lease():
    return acquire_lease(store.directory / "lease", lambda: True)
for action in (store.current, store.open_current, lock, lease):
    try:
        print(action())
    except SyncError as error:
        print("ulimit -n" in str(error))
    except OSError as error:
        print(error.errno == errno.EMFILE)
""",
        store.directory,
    )

    assert printed.split() == ["True"] * 4
