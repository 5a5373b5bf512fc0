"""Where a script may run: in the folders that the operator allows, links resolved."""

import os
import sys
from pathlib import Path

import pytest

from skills_mcp.config import Scripts
from skills_mcp.errors import FolderNotAllowedError, InvalidArgumentsError
from skills_mcp.scripts.prepared_runs import ScriptEnvironment

HERE = Scripts()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which the server is started."""
    folder = tmp_path / "src" / "project"
    (folder / "web").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def require(cwd: Path | str, rules: Scripts = HERE) -> Path:
    return ScriptEnvironment.of(os.environ).require_folder(str(cwd), rules)


def test_the_folder_of_the_server_and_what_lies_in_it_are_open(project: Path) -> None:
    assert require(project) == project
    assert require(project / "web") == project / "web"
    assert require(f"{project}/web/../web/.") == project / "web"


@pytest.mark.parametrize("outside", ["..", "../..", "/", "/etc", "../project2"])
def test_a_folder_elsewhere_is_refused(project: Path, outside: str) -> None:
    (project.parent / "project2").mkdir()

    with pytest.raises(FolderNotAllowedError, match=r"scripts\.roots"):
        require(project / outside)


@pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")
def test_a_link_is_where_it_leads(project: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (project / "out").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in").symlink_to(project / "web")

    with pytest.raises(FolderNotAllowedError):
        require(project / "out")
    assert require(tmp_path / "in") == project / "web"


@pytest.mark.parametrize(
    "cwd", ["", ".", "relative", "/no/such/folder", "/\0", "/\ud800", "/" + "a" * 9999]
)
def test_what_is_no_absolute_folder_is_refused(cwd: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"^cwd: "):
        require(cwd)


def test_a_file_is_no_folder(project: Path) -> None:
    (project / "file").write_text("")

    with pytest.raises(InvalidArgumentsError):
        require(project / "file")


@pytest.mark.parametrize("above", ["home", ".", "/"])
def test_a_server_that_is_started_in_the_home_or_above_has_no_project(
    above: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "project").mkdir()
    monkeypatch.chdir(home.parent / above)

    with pytest.raises(FolderNotAllowedError):
        require(home / "project")


def test_a_server_whose_folder_is_gone_has_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    with pytest.raises(FolderNotAllowedError):
        require(tmp_path)


def test_the_operator_allows_other_folders(project: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / "deep").mkdir(parents=True)
    rules = Scripts(roots=(str(tmp_path / "other"),))

    assert require(tmp_path / "other/deep", rules) == tmp_path / "other/deep"
    with pytest.raises(FolderNotAllowedError):
        require(project, rules)
    with pytest.raises(FolderNotAllowedError):
        require(project, Scripts(roots=()))


def test_a_root_may_be_written_with_a_tilde(home: Path) -> None:
    (home / "src" / "web").mkdir(parents=True)

    assert require(home / "src/web", Scripts(roots=("~/src",))) == home / "src/web"
    assert require(home / "src/web", Scripts(roots=("~",))) == home / "src/web"


@pytest.mark.parametrize("root", ["~", "/"])
@pytest.mark.parametrize(
    "closed",
    [".", "..", ".skills-mcp", ".skills-mcp/cache", ".ssh", ".config/gh", ".aws"],
)
def test_no_root_opens_the_home_itself_or_where_programs_keep_keys(
    closed: str, root: str, home: Path
) -> None:
    (home / closed).mkdir(parents=True, exist_ok=True)

    with pytest.raises(FolderNotAllowedError):
        require(home / closed, Scripts(roots=(root,)))


def test_a_hidden_folder_that_is_named_is_open_but_for_our_own(home: Path) -> None:
    (home / ".dotfiles/vim").mkdir(parents=True)
    (home / ".skills-mcp/cache").mkdir(parents=True)

    named = require(home / ".dotfiles/vim", Scripts(roots=("~/.dotfiles",)))

    assert named == home / ".dotfiles/vim"
    with pytest.raises(FolderNotAllowedError):
        require(home / ".skills-mcp/cache", Scripts(roots=("~/.skills-mcp",)))


def test_a_folder_around_what_we_keep_is_closed_wherever_that_is(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "web/kept").mkdir()
    monkeypatch.setenv("SKILLS_MCP_HOME", str(project / "web/kept"))

    for folder in (project, project / "web", project / "web/kept"):
        with pytest.raises(FolderNotAllowedError):
            require(folder)
