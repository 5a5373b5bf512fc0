"""A folder and what it says of its entries."""

import os
import sys
from pathlib import Path

import pytest

from skills_mcp.skills.listing import is_package, load_listing
from skills_mcp.skills.model import Stamp
from tests.support import write

NOTHING: frozenset[str] = frozenset()


def test_entries_come_in_the_order_of_their_names_with_what_they_are(
    tmp_path: Path,
) -> None:
    write(tmp_path / "b.txt", "four")
    (tmp_path / "a").mkdir()
    (tmp_path / "c").symlink_to("a", target_is_directory=True)
    (tmp_path / "d").symlink_to("d")

    entries = load_listing(tmp_path, "", skipped=NOTHING, most=99).entries

    assert [name for name in entries if name != "home"] == ["a", "b.txt", "c", "d"]
    assert [name for name in "acd" if entries[name].leads_to_folder] == ["a", "c"]
    assert [name for name in "acd" if entries[name].is_folder] == ["a"]
    assert [name for name in "acd" if entries[name].is_link] == ["c", "d"]
    assert entries["b.txt"].is_file
    assert entries["b.txt"].stamp == Stamp.of((tmp_path / "b.txt").stat())


def test_of_a_huge_folder_only_the_first_names_are_looked_at(tmp_path: Path) -> None:
    for number in range(50):
        write(tmp_path / f"x/{number:02}.txt")
    write(tmp_path / "x/SKILL.md")
    write(tmp_path / "x/00.txt")

    listing = load_listing(tmp_path, "x", skipped=frozenset({"01.txt"}), most=2)

    assert list(listing.entries) == ["00.txt", "02.txt"]
    assert listing.count == 50
    assert listing.has_main
    assert load_listing(tmp_path, "x", skipped=NOTHING, most=0).count == 51


@pytest.mark.skipif(sys.platform == "win32", reason="links")
@pytest.mark.spec("12.1")
def test_a_folder_behind_a_link_has_no_entries(tmp_path: Path) -> None:
    write(tmp_path / "outside/inner/SKILL.md")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/link").symlink_to(tmp_path / "outside")

    for folder in ("link", "link/inner", "link/inner/"):
        with pytest.raises(OSError, match=r"."):
            load_listing(tmp_path / "root", folder, skipped=NOTHING, most=9)

    assert not is_package(tmp_path / "root", "link/inner")
    assert is_package(tmp_path / "outside", "inner")


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
@pytest.mark.skipif(os.geteuid() == 0, reason="root may look at everything")
def test_an_entry_that_nobody_may_look_at_still_has_a_kind(tmp_path: Path) -> None:
    write(tmp_path / "locked/a.md")
    (tmp_path / "locked/b").mkdir()
    (tmp_path / "locked").chmod(0o400)

    entries = load_listing(tmp_path, "locked", skipped=NOTHING, most=9).entries

    (tmp_path / "locked").chmod(0o700)
    assert [entry.stamp for entry in entries.values()] == [None, None]
    assert entries["a.md"].is_file
    assert entries["b"].is_folder
