"""Which folders are looked at, from where the server was started."""

from pathlib import Path

import pytest

from skills_mcp.content.mounts import Mounts
from skills_mcp.content.project import (
    FOLDER,
    derive_folders,
    derive_mounts,
    find_project_root,
)
from skills_mcp.content.source import Mount, Part
from tests.support import git, sync_all, write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder that holds `packages/web`, and no marker."""
    (tmp_path / "project" / "packages" / "web").mkdir(parents=True)
    return tmp_path / "project"


def parts_of(mounts: tuple[Mount, ...]) -> dict[str, Part]:
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
