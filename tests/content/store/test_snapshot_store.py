"""Snapshots on disk: one whole commit for every reader, whatever happens."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skills_mcp.content import commit_store as snapshot_store
from skills_mcp.content.commit_store import CommitStore, PublishedCommit
from skills_mcp.content.source import Hold, Surveyed, SurveyedPart, SyncAttempt
from skills_mcp.errors import SyncError
from skills_mcp.skills.model import Problem
from skills_mcp.skills.source_layout import RelativeRoot, Selection
from tests.content.store.snapshots import (
    FOUR,
    ONE,
    OTHER_PROCESS,
    THREE,
    TWO,
    collect,
    fill,
    found,
    make_folder,
    make_link,
    make_pipe,
    opened,
    publish,
    snapshots,
)
from tests.support import PATIENCE_SECONDS, running_python, wait_for, write


@pytest.fixture
def store(tmp_path: Path) -> CommitStore:
    return CommitStore(tmp_path / "store")


SURVEYED: Surveyed = {
    Selection(plugins=("a",)): SurveyedPart(
        (RelativeRoot("plugins/a/skills", "a/", only=("x",), without=("y",)),),
        (Problem("caf\udce9.md", "is large", "cut it", rule="file-size", count=2),),
    )
}


def refuse(folder: Path) -> Surveyed:
    raise AssertionError(folder)


def test_what_is_published_is_opened(store: CommitStore) -> None:
    publish(store, ONE, at=1_000_000.5)

    checkout = opened(store)

    assert checkout.revision == ONE
    assert (checkout.directory / "a.md").read_text() == ONE
    assert checkout.synced_at.timestamp() == 1_000_000.5


def test_nothing_is_published_where_nothing_is(store: CommitStore) -> None:
    assert store.current() is None
    assert store.open_current() is None


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_the_cache_is_for_its_user_alone(store: CommitStore, tmp_path: Path) -> None:
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
    text: str | bytes, store: CommitStore, tmp_path: Path
) -> None:
    publish(store, ONE)
    write(tmp_path / "store" / "current.json", text)

    assert store.current() is None
    assert store.open_current() is None


def test_a_snapshot_that_was_deleted_publishes_nothing(store: CommitStore, tmp_path: Path) -> None:
    publish(store, ONE)
    (tmp_path / f"store/snap/{ONE}/a.md").unlink()
    (tmp_path / f"store/snap/{ONE}").rmdir()

    assert store.open_current() is None


def test_a_commit_that_is_staged_already_is_not_written_again(
    store: CommitStore,
) -> None:
    publish(store, ONE)

    with store.exclusive(timeout_seconds=10):
        folder = store.stage(ONE, refuse)

    assert folder == store.folder(ONE)


def test_a_commit_gets_its_name_only_when_it_is_complete(
    store: CommitStore, tmp_path: Path
) -> None:
    def write_half(folder: Path) -> Surveyed:
        fill(folder, "half")
        assert snapshots(tmp_path) == [folder.name]
        assert store.commits() == ()
        raise OSError(28, "No space left on device")

    with (
        store.exclusive(timeout_seconds=10),
        pytest.raises(SyncError, match="the disk is full: make room"),
    ):
        store.stage(ONE, write_half)

    assert snapshots(tmp_path) == []


def test_a_staging_folder_that_was_left_over_disappears_and_is_never_served(
    store: CommitStore, tmp_path: Path
) -> None:
    publish(store, ONE)
    write(tmp_path / "store/snap/.staging-dead/a.md", "half")
    write(tmp_path / "store/snap/.deleted-dead/a.md", "half")
    for leftover in (
        ".current-dead",
        ".new-dead",
        "snap/.new-dead",
        f"snap/{TWO}.lease",
    ):
        write(tmp_path / "store" / leftover, "{}")

    served = opened(store)
    collect(store)

    assert served.revision == ONE
    assert sorted(found(tmp_path / "store")) == [
        "current.json",
        "snap",
        f"snap/{ONE}",
        f"snap/{ONE}.lease",
        f"snap/{ONE}.survey",
        f"snap/{ONE}/a.md",
        "sync.lock",
    ]


def test_the_pointer_is_never_half_written(store: CommitStore, tmp_path: Path) -> None:
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
    for number in range(10_000):
        store.publish(PublishedCommit((ONE, TWO)[number % 2], 1.0))
        # The scheduler may keep the reader away from every second pointer for a while.
        if number >= 100 and (seen == {ONE, TWO} or not reader.is_alive()):
            break
    stop.set()
    reader.join()

    assert seen == {ONE, TWO}


def test_a_snapshot_that_nobody_reads_is_collected(store: CommitStore, tmp_path: Path) -> None:
    publish(store, ONE)
    reading = opened(store)
    publish(store, TWO)
    del reading

    collect(store)

    assert snapshots(tmp_path) == [TWO]
    assert not list((tmp_path / "store/snap").glob(f"{ONE}*"))


def test_what_is_published_is_never_collected(store: CommitStore, tmp_path: Path) -> None:
    publish(store, ONE)

    collect(store)

    assert snapshots(tmp_path) == [ONE]


def test_nothing_is_collected_while_nobody_can_tell_what_is_needed(
    store: CommitStore, tmp_path: Path
) -> None:
    publish(store, ONE)
    publish(store, TWO)
    write(tmp_path / "store/current.json", "half a poin")

    collect(store)

    assert snapshots(tmp_path) == [ONE, TWO]


def test_a_checkout_says_who_has_signed_it_and_whether_it_is_held(
    store: CommitStore,
) -> None:
    publish(store, ONE)
    hold = Hold(3.5, TWO)
    store.publish(PublishedCommit(ONE, 2.5, "ada@example.com", TWO, hold))

    checkout = opened(store)

    assert store.current() == PublishedCommit(ONE, 2.5, "ada@example.com", TWO, hold)
    assert checkout.verified_by == "ada@example.com"
    assert checkout.hold == hold


def test_the_commit_before_is_no_stand_in_for_one_that_was_deleted(
    store: CommitStore,
) -> None:
    publish(store, ONE)
    publish(store, TWO)
    store.publish(PublishedCommit(TWO, 1.0, previous=ONE))
    shutil.rmtree(store.folder(TWO))

    pointer = store.pointer()
    assert pointer is not None
    assert pointer.previous == ONE
    assert store.current() is None
    assert store.open_current() is None
    assert not list((store.directory / "snap").glob("*.lease"))


def test_a_survey_is_kept_with_its_commit(store: CommitStore) -> None:
    with store.exclusive(timeout_seconds=10):
        store.stage(ONE, lambda folder: fill(folder, ONE) or SURVEYED)
        store.publish(PublishedCommit(ONE, 1.0))

    assert opened(store).surveyed == SURVEYED


def test_a_survey_can_be_replaced(store: CommitStore) -> None:
    publish(store, ONE)

    store.replace_survey(ONE, SURVEYED)

    assert opened(store).surveyed == SURVEYED


@pytest.mark.parametrize("text", ['["a:b"]', "{", "[[1, 2]]", None])
def test_a_survey_that_is_old_or_broken_does_no_harm(text: str | None, store: CommitStore) -> None:
    publish(store, ONE)
    path = store.directory / f"snap/{ONE}.survey"
    path.unlink() if text is None else write(path, text)

    assert opened(store).surveyed == {}


def test_a_stamp_differs_as_soon_as_somebody_has_published(
    store: CommitStore,
) -> None:
    stamps = [store.stamp()]
    publish(store, ONE)
    stamps.append(store.stamp())
    store.publish(PublishedCommit(ONE, 1.0))
    stamps.append(store.stamp())
    opened(store)
    collect(store)

    assert len(set(stamps)) == 3
    assert store.stamp() == stamps[-1]


def test_how_the_last_syncs_went_is_remembered_by_every_process(
    store: CommitStore,
) -> None:
    attempt = SyncAttempt(
        attempted_at=1.5, failures=2, error_code="SYNC_FAILED", error_message="no"
    )

    with store.exclusive(timeout_seconds=10):
        before = store.attempt()
        store.save_attempt(attempt)

    assert before == SyncAttempt()
    assert CommitStore(store.directory).attempt() == attempt


def test_what_a_pointer_names_is_kept(store: CommitStore) -> None:
    for commit in (ONE, TWO, THREE, FOUR):
        publish(store, commit)
    store.publish(PublishedCommit(TWO, 1.0, previous=ONE, hold=Hold(1.0, THREE)))

    with store.exclusive(timeout_seconds=10):
        kept = store.delete_unreferenced()

    assert kept == store.commits() == (ONE, TWO, THREE)


def test_the_commit_before_is_kept_even_if_the_published_one_is_gone(
    store: CommitStore,
) -> None:
    publish(store, ONE)
    publish(store, TWO)
    store.publish(PublishedCommit(TWO, 1.0, previous=ONE))
    shutil.rmtree(store.folder(TWO))

    collect(store)

    assert store.commits() == (ONE,)


def test_what_somebody_reads_is_among_the_commits_that_stay(
    store: CommitStore,
) -> None:
    publish(store, ONE)
    reading = opened(store)
    publish(store, TWO)

    with store.exclusive(timeout_seconds=10):
        kept = store.delete_unreferenced()

    assert kept == (ONE, TWO)
    assert reading.revision == ONE


def test_a_staged_commit_can_be_read_before_it_is_published(
    store: CommitStore,
) -> None:
    publish(store, ONE)
    with store.exclusive(timeout_seconds=10):
        store.stage(TWO, lambda folder: fill(folder, TWO))
        checkout = store.open_commit(TWO, PublishedCommit(TWO, 5.0, "ada"))
        while_read = store.delete_unreferenced()
        published = store.current()
        del checkout
        afterwards = store.delete_unreferenced()

    assert while_read == (ONE, TWO)
    assert published == PublishedCommit(ONE, 1.0)
    assert afterwards == (ONE,)


def test_a_staged_commit_says_what_its_pointer_is_going_to_say(
    store: CommitStore,
) -> None:
    with store.exclusive(timeout_seconds=10):
        folder = store.stage(ONE, lambda folder: fill(folder, ONE))

    checkout = store.open_commit(ONE, PublishedCommit(ONE, 5.0, "ada"))

    assert checkout is not None
    assert checkout.directory == folder
    assert (checkout.revision, checkout.verified_by) == (ONE, "ada")
    assert checkout.synced_at.timestamp() == 5.0


@pytest.mark.parametrize("commit", [TWO, "..", "", "main"])
def test_a_commit_that_is_not_here_cannot_be_read(commit: str, store: CommitStore) -> None:
    publish(store, ONE)
    before = sorted(found(store.directory))

    assert store.open_commit(commit, PublishedCommit(ONE, 1.0)) is None
    assert sorted(found(store.directory)) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals of POSIX")
def test_a_collector_that_is_killed_leaves_no_half_snapshot(
    store: CommitStore,
) -> None:
    publish(store, ONE)
    publish(store, TWO)
    killed = f"""{OTHER_PROCESS}
import os, signal
def die(event, arguments):
    if event == "shutil.rmtree":
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(die)
with store.exclusive(timeout_seconds=20):
    store.delete_unreferenced()
"""

    with running_python(killed, store.directory) as collector:
        assert collector.wait() == -signal.SIGKILL
    left = store.commits()
    collect(store)

    assert left == (TWO,)
    assert not list((store.directory / "snap").glob(".*"))


def make_garbage(path: Path) -> None:
    write(path, b"\0\xff" * 5000)


def make_empty(path: Path) -> None:
    write(path, b"")


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes")
@pytest.mark.parametrize(
    "damage", [make_folder, make_garbage, make_empty, make_link, make_pipe, remove]
)
@pytest.mark.parametrize(
    "name",
    ["current.json", "state.json", f"snap/{ONE}.lease", f"snap/{ONE}.survey"],
)
def test_whatever_stands_in_the_place_of_a_file_the_next_sync_heals_it(
    name: str, damage: Callable[[Path], None], store: CommitStore
) -> None:
    publish(store, ONE)
    damage(store.directory / name)

    before = store.open_current()
    attempted = store.attempt()
    with store.exclusive(timeout_seconds=10):
        store.stage(ONE, lambda folder: fill(folder, ONE))
        store.replace_survey(ONE, SURVEYED)
        store.save_attempt(replace(attempted, attempted_at=3.0, failures=1))
        store.publish(PublishedCommit(ONE, 2.0))
        store.delete_unreferenced()

    assert before is None or before.revision == ONE
    assert opened(store).surveyed == SURVEYED
    assert store.attempt().failures == 1
    assert store.current() == PublishedCommit(ONE, 2.0)


@pytest.mark.parametrize("name", ["snap", f"snap/{ONE}"])
def test_a_file_in_the_place_of_a_folder_is_no_obstacle(name: str, store: CommitStore) -> None:
    publish(store, ONE)
    shutil.rmtree(store.directory / name)
    write(store.directory / name, "in the way")

    before = store.open_current()
    publish(store, ONE)

    assert before is None
    assert opened(store).revision == ONE


def test_what_is_being_deleted_is_no_snapshot(store: CommitStore) -> None:
    publish(store, ONE)
    store.folder(ONE).rename(store.directory / "snap/.deleted-half")

    assert store.commits() == ()
    assert store.open_current() is None


def test_a_link_in_the_place_of_a_snapshot_is_none(store: CommitStore, tmp_path: Path) -> None:
    publish(store, ONE)
    store.folder(ONE).rename(tmp_path / "elsewhere")
    store.folder(ONE).symlink_to(tmp_path / "elsewhere")

    before = store.open_current()
    publish(store, ONE)

    assert before is None
    assert opened(store).directory.is_dir()
    assert (tmp_path / "elsewhere/a.md").exists()


def test_when_the_whole_cache_is_deleted_the_next_sync_makes_it_again(
    store: CommitStore,
) -> None:
    publish(store, ONE)
    reading = opened(store)
    shutil.rmtree(store.directory)

    gone = store.open_current()
    publish(store, ONE)

    assert gone is None
    assert opened(store).revision == reading.revision


KILLED_WHILE = {
    "staging": "store.stage(two, lambda folder: (write(folder), die()))",
    "staged": "store.stage(two, write); die()",
    "published": "store.stage(two, write); store.publish(PublishedCommit(two, 2.0)); die()",
}


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("moment", KILLED_WHILE)
def test_a_writer_that_is_killed_leaves_one_whole_commit_and_no_lock(
    moment: str, store: CommitStore, tmp_path: Path
) -> None:
    publish(store, ONE)
    code = f"""{OTHER_PROCESS}
import os, signal
from skills_mcp.content.commit_store import PublishedCommit
two = "{TWO}"
def write(folder):
    (folder / "a.md").write_text(two)
    return {{}}
def die():
    os.kill(os.getpid(), signal.SIGKILL)
with store.exclusive(timeout_seconds=20):
    {KILLED_WHILE[moment]}
"""

    with running_python(code, store.directory) as writer:
        assert writer.wait() == -signal.SIGKILL
    served = opened(store)
    publish(store, TWO)
    collect(store)

    assert (served.directory / "a.md").read_text() == served.revision
    assert served.revision == (TWO if moment == "published" else ONE)
    assert (opened(store).directory / "a.md").read_text() == TWO
    assert not list((tmp_path / "store/snap").glob(".*"))


def can_trace() -> bool:
    if shutil.which("strace") is None:
        return False
    tried = subprocess.run(["strace", "-o", os.devnull, "true"], check=False, capture_output=True)
    return tried.returncode == 0


needs_strace = pytest.mark.skipif(not can_trace(), reason="strace is missing, or not permitted")


@needs_strace
@pytest.mark.parametrize(
    "call, number, words",
    [
        ("mkdir", "EROFS", "the disk is read-only"),
        ("syncfs", "EIO", "the disk is failing"),
        ("rename", "ENOSPC", "the disk is full"),
        ("fsync", "EDQUOT", "your quota is used up"),
    ],
)
def test_a_disk_that_refuses_a_call_costs_nothing_that_is_published(
    call: str, number: str, words: str, store: CommitStore
) -> None:
    publish(store, ONE)
    code = f"""{OTHER_PROCESS}
from skills_mcp.content.commit_store import PublishedCommit
from skills_mcp.errors import SyncError
try:
    with store.exclusive(timeout_seconds=20):
        store.stage("{TWO}", lambda folder: {{}})
        store.publish(PublishedCommit("{TWO}", 1.0))
except SyncError as error:
    print(error)
"""

    done = subprocess.run(
        [
            *("strace", "-f", "-o", os.devnull, "-e", f"inject={call}:error={number}"),
            *(sys.executable, "-c", code, store.directory),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    served = opened(store).revision
    publish(store, TWO)
    collect(store)

    assert words in done.stdout
    assert served == ONE
    assert opened(store).revision == TWO
    assert not list((store.directory / "snap").glob(".*"))


@needs_strace
def test_nothing_gets_its_name_before_it_is_on_the_disk(store: CommitStore, tmp_path: Path) -> None:
    code = f"""{OTHER_PROCESS}
from skills_mcp.content.commit_store import PublishedCommit
with store.exclusive(timeout_seconds=20):
    store.stage("{ONE}", lambda folder: {{}})
    store.publish(PublishedCommit("{ONE}", 1.0))
"""
    calls = "trace=syncfs,sync,rename,renameat,renameat2,fsync"
    trace = tmp_path / "trace"

    subprocess.run(
        [
            *("strace", "-f", "-y", "-e", calls, "-o", trace),
            *(sys.executable, "-c", code, store.directory),
        ],
        check=True,
    )

    done = iter(trace.read_text().splitlines())
    for step in (
        ("syncfs", ".staging-"),
        ("rename", f'snap/{ONE}"'),
        ("fsync", "/store/snap>"),
        ("fsync", "/store/.new-"),
        ("rename", 'current.json"'),
        ("fsync", "/store>"),
    ):
        assert any(all(word in line for word in step) for line in done), step


WRITE = f"""{OTHER_PROCESS}
with store.exclusive(timeout_seconds=20):
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.mark.spec("9.5")
def test_only_one_process_writes_at_a_time(store: CommitStore, tmp_path: Path) -> None:
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
    store: CommitStore, tmp_path: Path
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


def age(lock: Path, seconds: float) -> None:
    os.utime(lock, (time.time() - seconds,) * 2)


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="nothing can be stopped")
def test_a_writer_that_was_stopped_is_named_and_not_waited_for(
    store: CommitStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_store, "_SILENT_SECONDS", 0.1)
    publish(store, ONE)
    with running_python(WRITE, store.directory) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        writer.send_signal(signal.SIGSTOP)

        with (
            pytest.raises(SyncError, match=rf"shows no life \(process {writer.pid}\)"),
            store.exclusive(timeout_seconds=60 * 60),
        ):
            pytest.fail("two writers")
        assert opened(store).revision == ONE
        writer.send_signal(signal.SIGCONT)


OVERTAKEN = f"""{OTHER_PROCESS}
from skills_mcp.content.commit_store import PublishedCommit
with store.exclusive(timeout_seconds=20):
    print("writing", flush=True)
    sys.stdin.readline()
    try:
        store.publish(PublishedCommit("{ONE}", 3.0))
    except Exception as error:
        print(type(error).__name__, flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="nothing can be stopped")
def test_a_writer_without_life_for_minutes_loses_its_claim(
    store: CommitStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_store, "_SILENT_SECONDS", 0.1)
    publish(store, ONE)
    with running_python(OVERTAKEN, store.directory) as writer:
        assert writer.stdout is not None
        assert writer.stdin is not None
        assert writer.stdout.readline() == b"writing\n"
        writer.send_signal(signal.SIGSTOP)
        wait_for(lambda: state_of(writer.pid) == "T")
        age(store.directory / "sync.lock", 60 * 60)

        publish(store, TWO)

        writer.send_signal(signal.SIGCONT)
        writer.stdin.write(b"\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == b"LockLostError\n"
    assert opened(store).revision == TWO


def state_of(pid: int) -> str:
    words = ["ps", "-o", "stat=", "-p", str(pid)]
    listing = subprocess.run(words, check=False, capture_output=True, text=True)
    return listing.stdout.strip()[:1]


def test_an_old_lock_of_a_writer_that_works_is_not_taken(
    store: CommitStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_store, "_LOCK_EXPIRY_SECONDS", 0.0)
    with running_python(WRITE, store.directory) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"

        with (
            pytest.raises(SyncError, match="another sync has been running"),
            store.exclusive(timeout_seconds=1),
        ):
            pytest.fail("two writers")


def is_free(store: CommitStore) -> bool:
    try:
        with store.exclusive(timeout_seconds=0):
            return True
    except SyncError:
        return False


def test_a_folder_in_the_place_of_the_lock_is_no_obstacle(
    store: CommitStore,
) -> None:
    make_folder(store.directory / "sync.lock")

    publish(store, ONE)

    assert opened(store).revision == ONE


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes")
@pytest.mark.parametrize("damage", [make_link, make_pipe])
def test_what_can_be_no_lock_is_named(damage: Callable[[Path], None], store: CommitStore) -> None:
    publish(store, ONE)
    damage(store.directory / "sync.lock")

    with (
        pytest.raises(SyncError, match=r"sync\.lock is no plain file.*delete it"),
        store.exclusive(timeout_seconds=0),
    ):
        pytest.fail("a lock that locks nothing")


def test_a_file_in_the_place_of_the_cache_is_named(tmp_path: Path) -> None:
    write(tmp_path / "store", "in the way")
    store = CommitStore(tmp_path / "store")

    with (
        pytest.raises(SyncError, match="something else stands in its place"),
        store.exclusive(timeout_seconds=0),
    ):
        pytest.fail("no cache")
    assert store.open_current() is None
    assert store.commits() == ()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks at open files")
def test_who_waited_for_the_lock_of_a_cache_that_was_deleted_takes_the_new_one(
    store: CommitStore,
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
