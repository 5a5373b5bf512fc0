"""What a disk can do to small files, and what is said about it."""

import errno
import os
import sys
from pathlib import Path

import pytest

from skills_mcp.content.disk import (
    delete,
    explained,
    made_anew,
    read_small,
    replace_text,
)
from skills_mcp.errors import SyncError
from tests.content.store.snapshots import make_folder, make_link, make_pipe
from tests.support import write

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes")


@pytest.mark.parametrize(
    "number, advice",
    [
        (errno.ENOSPC, "make room"),
        (errno.EDQUOT, "make room"),
        (errno.EROFS, "set SKILLS_MCP_HOME"),
        (errno.EACCES, "set SKILLS_MCP_HOME"),
        (errno.EPERM, "set SKILLS_MCP_HOME"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EIO, "check it"),
        (errno.ENOTEMPTY, "check the disk and the permissions"),
    ],
)
def test_what_the_disk_refuses_is_said_with_what_to_do(
    number: int, advice: str
) -> None:
    with (
        pytest.raises(SyncError, match=advice) as raised,
        explained(Path("/cache")),
    ):
        raise OSError(number, os.strerror(number))

    assert "/cache" in str(raised.value)
    assert os.strerror(number) in str(raised.value)


def test_an_error_that_is_explained_already_stays_as_it_is() -> None:
    with pytest.raises(SyncError, match="the remote is gone"), explained(Path("/c")):
        raise SyncError("the remote is gone")


def test_a_small_file_is_read_and_a_large_one_is_none(tmp_path: Path) -> None:
    path = write(tmp_path / "file", "12345")

    assert read_small(path, 5) == b"12345"
    assert read_small(path, 4) is None


@needs_posix
def test_what_is_no_file_is_none(tmp_path: Path) -> None:
    make_folder(tmp_path / "folder")
    make_link(tmp_path / "link")
    make_pipe(tmp_path / "pipe")

    names = ("folder", "link", "pipe", "missing", "folder/inner/file/deeper")

    assert [read_small(tmp_path / name) for name in names] == [None] * 5


@needs_posix
@pytest.mark.parametrize("damage", [make_folder, make_link, make_pipe])
def test_a_text_takes_the_place_of_anything(damage: object, tmp_path: Path) -> None:
    assert callable(damage)
    damage(tmp_path / "file")

    replace_text(tmp_path / "file", "new")

    assert (tmp_path / "file").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "home"]


def test_a_text_that_cannot_be_written_leaves_the_old_one_alone(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "folder"
    write(folder / "file", "old")

    with pytest.raises(UnicodeEncodeError):
        replace_text(folder / "file", "\ud800")

    assert (folder / "file").read_text() == "old"
    assert [path.name for path in folder.iterdir()] == ["file"]


@needs_posix
def test_a_link_is_deleted_and_not_what_it_leads_to(tmp_path: Path) -> None:
    write(tmp_path / "theirs/file.md", "theirs")
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/link").symlink_to(tmp_path / "theirs")

    for name in ("link", "ours", "missing"):
        delete(tmp_path / name)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "theirs"]
    assert (tmp_path / "theirs/file.md").read_text() == "theirs"


def test_what_is_made_anew_replaces_the_old_and_only_if_all_goes_well(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store"
    write(store / "file", "old")

    def fail() -> None:
        with made_anew(store):
            write(store / "half", "new")
            raise SyncError("the network is gone")

    with pytest.raises(SyncError):
        fail()
    kept = [path.name for path in store.iterdir()]
    with made_anew(store):
        write(store / "whole", "new")

    assert kept == ["file"]
    assert [path.name for path in store.iterdir()] == ["whole"]
    assert not list(tmp_path.glob(".deleted-*"))


def test_what_was_never_there_can_be_made_anew(tmp_path: Path) -> None:
    with pytest.raises(SyncError), made_anew(tmp_path / "store"):
        raise SyncError("the network is gone")
    with made_anew(tmp_path / "store"):
        write(tmp_path / "store/whole", "new")

    assert (tmp_path / "store/whole").is_file()
