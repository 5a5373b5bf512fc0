"""Files of ours on a disk, with anything in their place."""

import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skills_mcp.errors import SyncError
from skills_mcp.files.durable import (
    append_line,
    atomic_write,
    delete_tree,
    flush_to_disk,
    open_private,
    open_regular,
    read_regular,
    replaced_with_rollback,
    write_text_atomically,
)
from tests.content.store.snapshots import make_folder, make_link, make_pipe
from tests.support import write

MAX_BYTES = 1024 * 1024

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes")


@needs_posix
@pytest.mark.parametrize("is_writing", [False, True])
@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "sparse"])
def test_what_is_no_regular_file_is_not_waited_for(
    kind: str, tmp_path: Path, *, is_writing: bool
) -> None:
    path = tmp_path / "1.jsonl"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to(write(tmp_path / "target", "{}"))
        case "folder":
            path.mkdir()
        case _:
            path.touch()
            os.truncate(path, MAX_BYTES + 1)

    try:
        opened = open_regular(path, max_bytes=MAX_BYTES, is_writing=is_writing)
    except OSError:
        opened = None

    assert opened is None


def test_a_regular_file_is_opened(tmp_path: Path) -> None:
    handle = open_regular(write(tmp_path / "1.jsonl", "{}"))

    assert handle is not None
    with handle:
        assert stat.S_ISREG(os.fstat(handle.fileno()).st_mode)
        assert handle.read() == b"{}"


@needs_posix
def test_a_link_is_never_followed(tmp_path: Path) -> None:
    write(tmp_path / "target", "theirs")
    (tmp_path / "link").symlink_to(tmp_path / "target")

    read = read_regular(tmp_path / "link")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        open_private(tmp_path / "link")

    assert read is None
    assert (tmp_path / "target").read_text() == "theirs"


@needs_posix
def test_a_file_that_is_made_is_for_its_owner_alone(tmp_path: Path) -> None:
    with open_private(tmp_path / "appended") as handle:
        append_line(handle, b"line\n")
    write_text_atomically(tmp_path / "replaced", "text")

    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("*ed")}
    assert modes == {0o600}


@needs_posix
def test_a_replaced_file_may_be_for_others_too(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with atomic_write(tmp_path / "page", mode=0o666) as handle:
            handle.write(b"page")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "page").stat().st_mode) == 0o644


@needs_posix
@pytest.mark.parametrize("damage", [make_folder, make_link, make_pipe])
def test_only_a_regular_file_is_appended_to(damage: Callable[[Path], None], tmp_path: Path) -> None:
    damage(tmp_path / "file")

    with pytest.raises(OSError):  # noqa: PT011 - each system says something else
        open_private(tmp_path / "file")


def test_what_is_appended_stands_at_the_end(tmp_path: Path) -> None:
    write(tmp_path / "file", "one\n")

    with open_private(tmp_path / "file") as handle:
        handle.seek(0)
        append_line(handle, b"two\n")

    assert (tmp_path / "file").read_bytes() == b"one\ntwo\n"


def test_a_new_file_may_not_exist(tmp_path: Path) -> None:
    write(tmp_path / "file", "theirs")

    with pytest.raises(FileExistsError):
        open_private(tmp_path / "file", is_new=True)


def is_folder(number: int) -> bool:
    return stat.S_ISDIR(os.fstat(number).st_mode)


@needs_posix
def test_content_and_name_are_on_the_disk_before_a_replacement_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(
        os,
        "fsync",
        lambda number: synced.append(stat.S_ISDIR(os.fstat(number).st_mode)),
    )

    write_text_atomically(tmp_path / "file", "text")

    assert synced == [False, True]


def test_a_small_file_is_read_and_a_large_one_is_none(tmp_path: Path) -> None:
    path = write(tmp_path / "file", "12345")

    assert read_regular(path, 5) == b"12345"
    assert read_regular(path, 4) is None


@needs_posix
def test_what_is_no_file_is_none(tmp_path: Path) -> None:
    make_folder(tmp_path / "folder")
    make_link(tmp_path / "link")
    make_pipe(tmp_path / "pipe")

    names = ("folder", "link", "pipe", "missing", "folder/inner/file/deeper")

    assert [read_regular(tmp_path / name) for name in names] == [None] * 5


@needs_posix
@pytest.mark.parametrize("damage", [make_folder, make_link, make_pipe])
def test_a_text_takes_the_place_of_anything(damage: object, tmp_path: Path) -> None:
    assert callable(damage)
    damage(tmp_path / "file")

    write_text_atomically(tmp_path / "file", "new")

    assert (tmp_path / "file").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "home"]


def test_a_text_that_cannot_be_written_leaves_the_old_one_alone(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "folder"
    write(folder / "file", "old")

    with pytest.raises(UnicodeEncodeError):
        write_text_atomically(folder / "file", "\ud800")

    assert (folder / "file").read_text() == "old"
    assert [path.name for path in folder.iterdir()] == ["file"]


@needs_posix
def test_a_link_is_deleted_and_not_what_it_leads_to(tmp_path: Path) -> None:
    write(tmp_path / "theirs/file.md", "theirs")
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/link").symlink_to(tmp_path / "theirs")

    for name in ("link", "ours", "missing"):
        delete_tree(tmp_path / name)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "theirs"]
    assert (tmp_path / "theirs/file.md").read_text() == "theirs"


def test_what_is_made_anew_replaces_the_old_and_only_if_all_goes_well(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store"
    write(store / "file", "old")

    def fail() -> None:
        with replaced_with_rollback(store):
            write(store / "half", "new")
            raise SyncError("the network is gone")

    with pytest.raises(SyncError):
        fail()
    kept = [path.name for path in store.iterdir()]
    with replaced_with_rollback(store):
        write(store / "whole", "new")

    assert kept == ["file"]
    assert [path.name for path in store.iterdir()] == ["whole"]
    assert not list(tmp_path.glob(".deleted-*"))


def test_what_was_never_there_can_be_made_anew(tmp_path: Path) -> None:
    with pytest.raises(SyncError), replaced_with_rollback(tmp_path / "store"):
        raise SyncError("the network is gone")
    with replaced_with_rollback(tmp_path / "store"):
        write(tmp_path / "store/whole", "new")

    assert (tmp_path / "store/whole").is_file()


def test_files_can_be_flushed_to_the_disk(tmp_path: Path) -> None:
    flush_to_disk(tmp_path)

    with pytest.raises(OSError, match="No such file"):
        flush_to_disk(tmp_path / "missing")
