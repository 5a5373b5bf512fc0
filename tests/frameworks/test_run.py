"""What `make test-integrations` says of frameworks that work, fail, or are missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from frameworks import run
from frameworks.content import SKILL_FILES, GitSkills, write_skills
from frameworks.run import Framework, Result, is_failure, load_frameworks
from tests.support import git, write

_PROJECT = """
[project]
dependencies = ["anyio"]
[project.optional-dependencies]
agent-frame = ["agent-frame-core>=1,<2"]
"""


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    write(tmp_path / "pyproject.toml", _PROJECT)
    write(tmp_path / "frameworks/agent_frame/requirements.txt", "# Only the extra.\n")
    write(tmp_path / "frameworks/recipe/requirements.txt", "recipes[mcp]>=2\nother\n")
    write(tmp_path / "frameworks/no_framework/notes.txt")
    return tmp_path / "frameworks"


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ENVIRONMENTS", tmp_path / "environments")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


def load(folders: Path) -> list[Framework]:
    return load_frameworks(folders, folders.parent / "pyproject.toml")


def test_a_folder_called_like_an_extra_needs_it(folders: Path) -> None:
    adapter, recipe = load(folders)

    assert (adapter.name, adapter.extra) == ("agent_frame", "agent-frame")
    assert adapter.package == "agent-frame-core"
    assert (recipe.name, recipe.extra, recipe.package) == ("recipe", "", "recipes")


@pytest.mark.parametrize("file", ["requirements.txt", "constraints.txt"])
def test_an_environment_is_made_anew_when_a_file_changes(folders: Path, file: str) -> None:
    _, recipe = load(folders)
    before = recipe.derive_digest()

    write(recipe.folder / file, "recipes==2.1\n")

    assert recipe.derive_digest() != before


def test_an_environment_is_made_anew_when_its_extra_changes(folders: Path) -> None:
    [before, recipe] = load(folders)
    changed = _PROJECT.replace("<2", "<3")
    write(folders.parent / "pyproject.toml", changed)
    [after, same] = load(folders)

    assert after.derive_digest() != before.derive_digest()
    assert same.derive_digest() == recipe.derive_digest()


@pytest.mark.usefixtures("offline")
def test_without_a_network_the_reason_is_said(folders: Path, tmp_path: Path) -> None:
    _, recipe = load(folders)

    result = run.run(recipe, tmp_path, lambda _: None)

    assert result.verdict == "not installed"
    assert "Could not find a version that satisfies" in run.render_line(result)
    assert run.render_row(result)[-1].startswith("skipped: Could not find")
    assert not is_failure([result], is_ci=False)
    assert is_failure([result], is_ci=True)


def test_a_failed_test_is_a_failure_and_shown_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    good = Result(name="good", package="good", version="1.0", passed=3)
    bad = Result(name="bad", package="bad", passed=1, failed=1, output="assert [1]\n" * 9)

    run.print_results([good, bad])

    printed = capsys.readouterr().out
    assert printed.count("assert [1]") == 9
    assert printed.endswith("\n4 passed, 1 failed, 0 skipped\n")
    assert is_failure([good, bad], is_ci=False)
    assert not is_failure([good], is_ci=True)


def test_no_token_and_no_setting_of_the_developer_reaches_a_test(
    tmp_path: Path,
) -> None:
    mine = {"PATH": "/bin", "GITHUB_TOKEN": "t", "SKILLS_DIR": "/x", "HOME": "/me"}

    found = run.derive_environment(tmp_path, mine)

    assert not {"GITHUB_TOKEN", "SKILLS_DIR"} & set(found)
    assert found["HOME"] == str(tmp_path)
    assert Path(found["PATH"].split(os.pathsep)[0], "skills-mcp").is_file()


def test_a_merge_changes_the_repository(tmp_path: Path) -> None:
    skills = GitSkills.create(tmp_path)

    commit = skills.merge({"ui/_index.md": None, "new/SKILL.md": "---\n---\nNew.\n"})

    assert git("rev-parse", "main", cwd=skills.bare) == commit
    served = git("ls-tree", "-r", "--name-only", "main", cwd=skills.bare).splitlines()
    assert set(served) == {*SKILL_FILES, "new/SKILL.md"} - {"ui/_index.md"}


def test_the_skills_of_the_frameworks_are_valid(tmp_path: Path) -> None:
    skills = write_skills(tmp_path / "skills")

    done = subprocess.run(
        [sys.executable, "-m", "skills_mcp", "validate", str(skills)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
