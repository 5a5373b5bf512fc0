import os
import subprocess
import sys
from pathlib import Path

import pytest

from repositories.layouts import BIG, LAYOUTS, make_layout
from repositories.tree import Tree, iterate_paths, load_tree
from tests.support import git, write

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="some of the names cannot be written elsewhere"
)


def names_below(folder: Path) -> list[str]:
    return sorted(each.relative_to(folder).as_posix() for each in iterate_paths(folder))


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_folder_and_a_commit_hold_the_same_files(tmp_path: Path, name: str) -> None:
    tree = make_layout(name)

    folder = tree.write(tmp_path / "folder")
    tree.commit(tmp_path / "bare.git")

    command = ["git", "ls-tree", "-r", "-z", "main"]
    listed = subprocess.check_output(command, cwd=tmp_path / "bare.git")
    committed = [line.partition("\t") for line in os.fsdecode(listed).split("\0")[:-1]]
    files = [file for kind, _, file in committed if not kind.startswith("160000")]
    assert sorted(files) == names_below(folder)
    assert len(committed) == len(files) + len(tree.submodules)


def test_content_and_links_are_the_same_in_both(tmp_path: Path) -> None:
    tree = Tree(files={'a "b"\\c\n.md': b"one\ntwo"}, links={"in/link": "../a"})

    folder = tree.write(tmp_path / "folder")
    url = tree.commit(tmp_path / "bare.git")
    git("clone", "-q", url, "clone", cwd=tmp_path)

    assert names_below(tmp_path / "clone") == names_below(folder)
    assert (tmp_path / "clone" / 'a "b"\\c\n.md').read_bytes() == b"one\ntwo"
    assert (tmp_path / "clone" / "in/link").readlink() == Path("../a")


def test_a_folder_of_the_disk_becomes_a_tree_without_what_git_keeps(
    tmp_path: Path,
) -> None:
    write(tmp_path / "a/b.md", "text")
    write(tmp_path / ".git/config")
    write(tmp_path / "module/.git", "gitdir: elsewhere")
    (tmp_path / "folder").symlink_to("a")

    tree = load_tree(tmp_path)

    assert tree.files == {"a/b.md": tmp_path / "a/b.md"}
    assert tree.links == {"folder": "a"}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_always_the_same(name: str) -> None:
    assert make_layout(name) == make_layout(name)


def test_the_big_layout_is_made_only_by_its_name() -> None:
    assert BIG not in LAYOUTS
