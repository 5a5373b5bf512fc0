"""The hook for pre-commit: which files it gets, and what it runs."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packages import write_package
from tests.support import PATIENCE_SECONDS, PROJECT, git


@pytest.fixture
def hook() -> dict[str, Any]:
    text = (PROJECT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    [hook] = yaml.safe_load(text)
    return dict(hook)


def run(hook: dict[str, Any], folder: Path, *files: str) -> "subprocess.CompletedProcess[str]":
    """Run the hook's entry as pre-commit does: at the top, with file names."""
    return subprocess.run(
        [*shlex.split(hook["entry"]), *files],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


@pytest.fixture(autouse=True)
def _program(shell_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", shell_path)


def test_the_hook_has_what_pre_commit_asks_for(hook: dict[str, Any]) -> None:
    assert {"id", "name", "entry", "language"} <= hook.keys()
    assert hook["language"] == "python"
    assert hook["types"] == ["markdown"]
    assert hook["require_serial"] is True


@pytest.mark.parametrize(
    "file, is_checked",
    [
        ("skills/ui/auth.md", True),
        ("skills/pdf/SKILL.md", True),
        ("plugins/office/skills/pdf/references/forms.md", True),
        ("SKILL.md", True),
        ("README.md", False),
        ("docs/index.md", False),
        ("docs/our-skills/x.md", False),
    ],
)
def test_the_hook_gets_skills_and_no_other_markdown(
    hook: dict[str, Any], file: str, *, is_checked: bool
) -> None:
    assert bool(re.search(hook["files"], file)) is is_checked


def test_the_entry_checks_the_files_of_a_commit(hook: dict[str, Any], tmp_path: Path) -> None:
    git("init", "-q", cwd=tmp_path)
    write_package(tmp_path, "skills/good")
    write_package(tmp_path, "skills/bad", description="x" * 1025)

    good = run(hook, tmp_path, "skills/good/SKILL.md")
    bad = run(hook, tmp_path, "skills/good/SKILL.md", "skills/bad/SKILL.md")

    assert (good.returncode, good.stderr) == (0, "")
    assert bad.returncode == 1
    assert bad.stdout.startswith("skills/bad/SKILL.md:")


def test_the_hook_that_the_page_shows_is_the_one_of_the_project(
    hook: dict[str, Any],
) -> None:
    page = (PROJECT / "docs/how-to/check-skills.md").read_text(encoding="utf-8")
    found = re.search(r"```yml hook\n(.*?)```", page, re.DOTALL)
    assert found is not None
    [repository] = yaml.safe_load(found[1])["repos"]
    [shown] = repository["hooks"]

    del hook["description"]
    assert shown == hook | {"language": "system"}
