"""Folders that are served as they are, and where they are discovered."""

from pathlib import Path

import pytest

from skills_mcp.content.mounts import (
    FOLDER,
    Mounts,
    derive_folders,
    derive_mounts,
    find_project_root,
)
from skills_mcp.content.source import ContentPart, DiscoveredFolder, LocalFolder, Mount
from skills_mcp.errors import SyncError
from tests.support import git, sync_all, write


@pytest.mark.spec("3.1")
def test_a_folder_is_served_where_it_is(tmp_path: Path) -> None:
    source = LocalFolder(tmp_path)

    checkout = source.open()

    assert checkout is not None
    assert checkout.directory == tmp_path
    assert checkout.revision is None
    assert source.mode == "local"
    assert source.name == str(tmp_path)


@pytest.mark.spec("3.1")
def test_a_folder_that_is_not_there_is_said_with_what_to_do(tmp_path: Path) -> None:
    source = LocalFolder(tmp_path / "missing")

    with pytest.raises(SyncError, match="Create it, or set SKILLS_DIR"):
        source.open()


def test_a_folder_that_appears_later_is_served(tmp_path: Path) -> None:
    source = LocalFolder(tmp_path / "late")
    (tmp_path / "late").mkdir()

    checkout = source.open()

    assert checkout is not None
    assert checkout.directory == tmp_path / "late"


def test_each_sync_says_when_it_looked(tmp_path: Path) -> None:
    source = LocalFolder(tmp_path)

    first, second = source.open(), source.open()

    assert first is not None
    assert second is not None
    assert first.synced_at <= second.synced_at
    assert first.synced_at.tzinfo is not None


def test_the_message_names_the_setting_that_named_the_folder(tmp_path: Path) -> None:
    source = LocalFolder(tmp_path / "missing", "sources[1].folder")

    with pytest.raises(SyncError, match=r"set sources\[1\].folder to the folder"):
        source.open()


@pytest.mark.parametrize("parent", ["missing", "file"])
def test_a_discovered_folder_that_is_not_there_is_no_failure(tmp_path: Path, parent: str) -> None:
    write(tmp_path / "file")
    source = DiscoveredFolder(tmp_path / parent / "skills")

    assert source.open() is None


def test_a_discovered_folder_that_is_there_is_served(tmp_path: Path) -> None:
    source = DiscoveredFolder(tmp_path)

    checkout = source.open()

    assert checkout is not None
    assert (checkout.directory, checkout.revision) == (tmp_path, None)
    assert (source.mode, source.name) == ("local", str(tmp_path))


def test_a_discovered_folder_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(SyncError, match="or set discover to false"):
        DiscoveredFolder(tmp_path / "loop").open()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder that holds `packages/web`, and no marker."""
    (tmp_path / "project" / "packages" / "web").mkdir(parents=True)
    return tmp_path / "project"


def parts_of(mounts: tuple[Mount, ...]) -> dict[str, ContentPart]:
    return {part.mount.at: part for part in sync_all(Mounts(mounts)).parts}


@pytest.mark.parametrize("marker", [".git", ".jj", ".codelia"])
def test_the_nearest_marker_above_is_the_root(project: Path, marker: str) -> None:
    (project / marker).mkdir()
    (project.parent / marker).mkdir()

    assert find_project_root(project / "packages" / "web") == project


def test_the_working_directory_may_be_the_root_itself(project: Path) -> None:
    git("init", "-q", cwd=project / "packages")

    assert find_project_root(project / "packages") == project / "packages"


def test_the_file_of_a_worktree_is_a_marker_too(project: Path) -> None:
    write(project / ".git", "gitdir: elsewhere\n")

    assert find_project_root(project / "packages") == project


def test_without_a_marker_the_working_directory_stands_alone(project: Path) -> None:
    working = project / "packages" / "web"

    assert find_project_root(working) == working
    assert derive_folders(working, working) == (working,)


def test_every_folder_from_the_root_down_is_looked_at(project: Path) -> None:
    working = project / "packages" / "web"

    folders = derive_folders(project, working)

    assert folders == (project, project / "packages", working)


def test_of_a_root_elsewhere_only_the_root_is_looked_at(project: Path) -> None:
    assert derive_folders(project, project.parent) == (project,)


def test_places_are_named_from_the_root_and_the_users_own_come_last(
    project: Path, home: Path
) -> None:
    mounts = derive_mounts(project, project / "packages" / "web", home)

    assert [(mount.at, mount.scope) for mount in mounts] == [
        (".agents/skills", "repo"),
        ("packages/.agents/skills", "repo"),
        ("packages/web/.agents/skills", "repo"),
        ("~/.agents/skills", "user"),
    ]


def test_only_what_is_there_is_served(project: Path, home: Path) -> None:
    mounts = derive_mounts(project, project / "packages" / "web", home)
    before = parts_of(mounts)
    for folder in (project / "packages" / "web", home):
        (folder / FOLDER).mkdir(parents=True)

    after = parts_of(mounts)

    assert before == {}
    assert list(after) == ["packages/web/.agents/skills", "~/.agents/skills"]
    assert after["~/.agents/skills"].checkout.directory == home / FOLDER


def test_the_skills_of_a_home_that_is_the_project_are_the_projects(home: Path) -> None:
    (home / FOLDER).mkdir(parents=True)

    parts = parts_of(derive_mounts(home, home / "work", home))

    assert [part.mount.scope for part in parts.values()] == ["repo"]


def test_the_folder_itself_may_be_a_link(project: Path, home: Path) -> None:
    (project / "docs" / "pdf").mkdir(parents=True)
    (project / ".agents").mkdir()
    (project / FOLDER).symlink_to("../docs")

    [part] = parts_of(derive_mounts(project, project, home)).values()

    assert [path.name for path in part.checkout.directory.iterdir()] == ["pdf"]


def test_a_link_to_nowhere_is_like_nothing(project: Path, home: Path) -> None:
    (project / ".agents").mkdir()
    (project / FOLDER).symlink_to("nowhere")

    assert parts_of(derive_mounts(project, project, home)) == {}
