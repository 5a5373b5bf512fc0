"""What lies in a folder of a disk."""

import os
import sys
from pathlib import Path

import pytest

from skills_mcp.skills.model import Stamp
from skills_mcp.skills.source_layout import MAX_READ_BYTES, FolderTree, has_folder
from tests.support import write


def test_entries_come_in_the_order_of_their_names_with_what_they_are(
    tmp_path: Path,
) -> None:
    write(tmp_path / "b.txt", "four")
    (tmp_path / "a").mkdir()
    (tmp_path / "c").symlink_to("a", target_is_directory=True)
    (tmp_path / "d").symlink_to("d")

    entries = FolderTree(tmp_path).list("", 99).entries

    assert {name: entries[name].kind for name in entries if name != "home"} == {
        "a": "folder",
        "b.txt": "file",
        "c": "link",
        "d": "link",
    }
    assert list(entries) == sorted(entries)
    assert entries["b.txt"].stamp == Stamp.of((tmp_path / "b.txt").stat())


def test_of_a_huge_folder_only_as_many_as_needed_are_looked_at(tmp_path: Path) -> None:
    for number in range(50):
        write(tmp_path / f"x/{number:02}.txt")

    listing = FolderTree(tmp_path).list("x", 2)

    assert len(listing.entries) == 2
    assert listing.number == 50


@pytest.mark.skipif(sys.platform == "win32", reason="links")
@pytest.mark.spec("12.1")
def test_a_folder_behind_a_link_has_no_entries(tmp_path: Path) -> None:
    write(tmp_path / "outside/inner/SKILL.md")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/link").symlink_to(tmp_path / "outside")
    tree = FolderTree(tmp_path / "root")

    for folder in ("link", "link/inner", "link/inner/"):
        with pytest.raises(OSError, match=r"."):
            tree.list(folder, 9)

    assert tree.read("link/inner/SKILL.md") is None
    assert not has_folder(tree, "link")
    assert has_folder(FolderTree(tmp_path / "outside"), "inner")


def test_only_a_small_file_is_read(tmp_path: Path) -> None:
    write(tmp_path / "fits.json", "x" * MAX_READ_BYTES)
    write(tmp_path / "large.json", "x" * (MAX_READ_BYTES + 1))
    tree = FolderTree(tmp_path)

    assert tree.read("fits.json") == b"x" * MAX_READ_BYTES
    assert tree.read("large.json") is None
    assert tree.read("none.json") is None


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
@pytest.mark.skipif(os.geteuid() == 0, reason="root may look at everything")
def test_an_entry_that_may_not_be_looked_at_still_has_a_kind(tmp_path: Path) -> None:
    write(tmp_path / "locked/a.md")
    (tmp_path / "locked/b").mkdir()
    (tmp_path / "locked").chmod(0o400)

    entries = FolderTree(tmp_path).list("locked", 9).entries

    (tmp_path / "locked").chmod(0o700)
    assert (entries["a.md"].kind, entries["a.md"].stamp) == ("file", None)
    assert entries["b"].kind == "folder"
