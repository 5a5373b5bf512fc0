from pathlib import Path

from skills_mcp.features.hosts.host import describe_exports, find_exports
from tests.support import write


def test_only_folders_that_an_export_has_written_are_told(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    write(home / ".claude/skills/mine/SKILL.md")
    write(project / ".gemini/skills/skills.lock")

    warnings = [*describe_exports(home, project)]

    assert [folder for folder, _ in find_exports(home, project)] == [project / ".gemini/skills"]
    assert len(warnings) == 1
    assert "which these read: Gemini CLI." in warnings[0]
