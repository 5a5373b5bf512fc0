from contextlib import ExitStack
from pathlib import Path

import pytest

from skills_mcp.features.hosts.host import describe_exports, find_exports
from tests.clients import ServerProcess
from tests.support import SKILLS_CONTENT, wait_for, write


def test_only_folders_that_an_export_has_written_are_told(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    write(home / ".claude/skills/mine/SKILL.md")
    write(project / ".gemini/skills/skills.lock")

    warnings = [*describe_exports(home, project)]

    assert [folder for folder, _ in find_exports(home, project)] == [project / ".gemini/skills"]
    assert len(warnings) == 1
    assert "which these read: Gemini CLI." in warnings[0]


@pytest.mark.parametrize(
    "folder, readers",
    [
        ("project/.claude/skills", {"claude-code", "cursor", "vscode", "opencode", "copilot"}),
        ("home/.claude/skills", {"claude-code", "cursor", "vscode", "opencode"}),
        ("home/.copilot/skills", {"vscode", "copilot"}),
        ("project/.codex/skills", {"codex", "cursor"}),
        ("home/.config/opencode/skills", {"opencode"}),
    ],
)
def test_a_host_is_named_where_it_reads_a_folder(
    tmp_path: Path, folder: str, readers: set[str]
) -> None:
    write(tmp_path / folder / "skills.lock")

    [(_, hosts)] = find_exports(tmp_path / "home", tmp_path / "project")

    assert {host.name for host in hosts} == readers


def test_a_project_that_is_the_home_names_a_host_once(tmp_path: Path) -> None:
    write(tmp_path / ".gemini/skills/skills.lock")

    [(_, hosts)] = find_exports(tmp_path, tmp_path)

    assert [host.name for host in hosts] == ["gemini"]


@pytest.mark.parametrize("share", ["0", "1"], ids=["by itself", "shared"])
def test_each_window_logs_the_export_in_its_project(
    share: str, near_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"SKILLS_MCP_SHARE": share, "SKILLS_DIR": str(SKILLS_CONTENT)}
    with ExitStack() as windows:
        for project in (tmp_path / "first", tmp_path / "second"):
            write(project / ".gemini/skills/skills.lock")
            monkeypatch.chdir(project)
            window = ServerProcess(environment=environment, log=near_home / f"{project.name}.log")
            windows.callback(window.close)
            window.request("server/discover")
            wait_for(lambda: str(project / ".gemini/skills") in window.log)  # noqa: B023
