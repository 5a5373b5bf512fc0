"""Where settings, cache and state are."""

from pathlib import Path

import pytest

from skills_mcp.files.user_folders import find_user_folders
from tests.cli.conftest import Run, invoke
from tests.support import SKILLS_CONTENT, write

__all__ = ["invoke"]


def find(environment: dict[str, str]) -> tuple[str, ...]:
    return find_user_folders(environment)


def test_a_new_machine_has_the_folders_of_xdg(home: Path) -> None:
    moved = {"XDG_CONFIG_HOME": "/c", "XDG_CACHE_HOME": "/k", "XDG_STATE_HOME": "relative"}

    assert find({}) == (
        f"{home}/.config/skills-mcp",
        f"{home}/.cache/skills-mcp",
        f"{home}/.local/state/skills-mcp",
    )
    assert find(moved) == ("/c/skills-mcp", "/k/skills-mcp", f"{home}/.local/state/skills-mcp")


def test_a_machine_with_the_folder_of_before_keeps_it(home: Path) -> None:
    old = home / ".skills-mcp"
    old.mkdir()

    assert find({"XDG_CACHE_HOME": "/k"}) == (str(old), f"{old}/cache", str(old))


def test_settings_that_the_folder_of_before_hides_are_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, invoke: Run
) -> None:
    monkeypatch.delenv("SKILLS_MCP_HOME")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    hidden = write(home / ".config/skills-mcp/config.yaml", "sources: []\n")
    (home / ".skills-mcp").mkdir()

    done = invoke("tree")

    assert f"{hidden} is not read, as {home}/.skills-mcp exists" in done.stderr


def test_one_folder_of_yours_holds_all_three(home: Path) -> None:
    assert find({"SKILLS_MCP_HOME": "~/x"}) == (f"{home}/x", f"{home}/x/cache", f"{home}/x")


def test_a_user_without_a_home_has_folders_that_are_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda path: path)

    assert find({})[0] == "/nonexistent/.config/skills-mcp"


def test_nothing_is_written_into_the_home_itself(
    home: Path, monkeypatch: pytest.MonkeyPatch, invoke: Run
) -> None:
    monkeypatch.delenv("SKILLS_MCP_HOME")

    source = ("--skills-dir", str(SKILLS_CONTENT))
    invoke("install", "--client=cursor", *source, "--yes")
    tree = invoke("tree", SKILLS_MCP_ANALYTICS_ENABLED="true")

    assert tree.returncode == 0
    assert {file.name for file in home.iterdir()} <= {".config", ".cache", ".cursor", ".local"}
    assert (home / ".config/skills-mcp/config.yaml").is_file()
    assert (home / ".cache/skills-mcp/index").is_dir()
