"""Locks between processes, and what a process does that has waited for one."""

import errno
import fcntl
import math
import sys
from pathlib import Path

import pytest

from skills_mcp.files.durable import open_private
from skills_mcp.files.locks import acquire_lock, is_same_file, lock_file
from tests.support import running_python

HOLD = """
import sys
from pathlib import Path
from skills_mcp.files.locks import acquire_lock
with acquire_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_process_holds_a_lock_until_it_dies(tmp_path: Path) -> None:
    path = tmp_path / "folder/lock"

    with running_python(HOLD, path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError):
            acquire_lock(path)

    with acquire_lock(path, timeout_seconds=10) as handle:
        assert is_same_file(handle, path)


def test_a_lock_is_free_again_after_its_block(tmp_path: Path) -> None:
    with acquire_lock(tmp_path / "lock"), pytest.raises(BlockingIOError):
        acquire_lock(tmp_path / "lock")

    acquire_lock(tmp_path / "lock").release()


def test_readers_share_a_lock_and_keep_a_writer_out(tmp_path: Path) -> None:
    path = tmp_path / "lock"

    with open_private(path) as first, open_private(path) as second:
        lock_file(first, is_shared=True)
        lock_file(second, is_shared=True)
        with pytest.raises(BlockingIOError):
            acquire_lock(path)


def test_a_process_that_gives_up_waits_no_longer(tmp_path: Path) -> None:
    waits: list[float] = []

    def give_up(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) == 3

    with acquire_lock(tmp_path / "lock"), pytest.raises(BlockingIOError):
        acquire_lock(tmp_path / "lock", timeout_seconds=math.inf, wait=give_up)

    assert len(waits) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="deletes a file that is open")
def test_a_lock_whose_file_was_deleted_meanwhile_is_taken_anew(tmp_path: Path) -> None:
    path = tmp_path / "folder/lock"
    held = acquire_lock(path)

    def replace(_: float) -> bool:
        path.unlink()
        path.parent.rmdir()
        held.release()
        return False

    with acquire_lock(path, timeout_seconds=math.inf, wait=replace) as handle:
        assert is_same_file(handle, path)
        with pytest.raises(BlockingIOError):
            acquire_lock(path)


def test_a_file_system_without_locks_is_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS)

    monkeypatch.setattr(fcntl, "flock", refuse)

    with pytest.raises(OSError) as raised:  # noqa: PT011 - its number is what counts
        acquire_lock(tmp_path / "lock", timeout_seconds=math.inf)

    assert raised.value.errno == errno.ENOLCK
