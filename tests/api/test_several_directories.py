from pathlib import Path

import pytest

import skills_mcp
from skills_mcp.api.in_process import derive_mounted_sources
from skills_mcp.errors import AmbiguousNameError
from tests.packages import write_package


def test_one_directory_is_served_at_the_top() -> None:
    assert derive_mounted_sources(["/work/skills"]) == [{"folder": "/work/skills"}]


def test_each_of_several_is_named_by_its_folder_or_the_one_around_it() -> None:
    folders = ["/home/ann/.codex/skills", "/work/Shop Front", "/a/web-2", "/b/web"]
    more = ["/c/web", "/skills"]

    sources = derive_mounted_sources([*folders, *more], everywhere=True)

    mounts = ["codex", "shop-front", "web-2", "web", "web-3", "skills"]
    assert [source["mount"] for source in sources] == mounts
    assert all(source["everywhere"] for source in sources)


def test_a_name_that_two_directories_have_names_both_paths(home: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "one" / "skills", tmp_path / "two"]
    for folder in folders:
        write_package(folder, "pdf", body=f"As in {folder}.")

    with skills_mcp.open_sync(directory=folders, home=home) as skills:
        with pytest.raises(AmbiguousNameError, match=r"one/pdf .*two/pdf"):
            skills.load("pdf")
        text = skills.load("two/pdf").instructions

    assert text == f"As in {folders[1]}."
