import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support import SKILLS_CONTENT, Upstream, skill_text, write, write_skill


@pytest.mark.parametrize("folder", [SKILLS_CONTENT, SKILLS_CONTENT / "skills"])
@pytest.mark.spec("3.1")
def test_a_repository_and_its_skills_folder_show_the_same_skills(
    run: Run, folder: Path
) -> None:
    done = run("tree", "--skills-dir", str(folder))

    assert done.returncode == 0
    assert "auth  Login, logout, session handling" in done.stdout
    assert "react, auth, login, session, component" in done.stdout
    assert "3 assets" in done.stdout
    assert f"27 skills served at {folder}, 0 problems" in done.stdout


@pytest.mark.spec("8.2")
def test_programs_get_the_tree_of_list_skills(run: Run) -> None:
    done = run("tree", "--json", SKILLS_DIR=str(SKILLS_CONTENT))

    data = json.loads(done.stdout)
    assert list(data) == ["tree"]
    assert data["tree"]["path"] == "_root"
    areas = [child["name"] for child in data["tree"]["children"]]
    assert areas == ["api", "data", "infra", "security", "ui"]


@pytest.mark.spec("4.2")
def test_problems_are_counted_and_shown_when_asked_for(
    run: Run, tmp_path: Path
) -> None:
    write_skill(tmp_path, "good.md")
    write(tmp_path / "bad.md", "no [bold]frontmatter")

    brief = run("tree", "--skills-dir", str(tmp_path))
    whole = run("tree", "--problems", "--skills-dir", str(tmp_path))

    assert brief.returncode == whole.returncode == 0
    assert "1 skill served" in brief.stdout
    assert "1 problem: see --problems" in brief.stdout
    assert "has no frontmatter" not in brief.stdout
    assert "bad.md" in whole.stdout
    assert "has no frontmatter" in whole.stdout


def test_programs_get_the_problems_too(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "bad.md", "no frontmatter")

    done = run("tree", "--json", "--problems", "--skills-dir", str(tmp_path))

    [problem] = json.loads(done.stdout)["problems"]
    assert list(problem) == ["file", "reason", "hint", "level"]
    assert (problem["file"], problem["level"]) == ("bad.md", "error")


def test_what_looks_like_markup_is_printed_as_it_is(run: Run, tmp_path: Path) -> None:
    write_skill(tmp_path, "odd.md", description="Use [red]colours[/] and [x]")

    done = run("tree", "--skills-dir", str(tmp_path))

    assert "Use [red]colours[/] and [x]" in done.stdout


@pytest.mark.spec("9.1")
def test_a_repository_is_synced_first(run: Run, upstream: Upstream) -> None:
    commit = upstream.commit({"skills/one.md": skill_text(keywords=["one"])})

    done = run("tree", "--repo", upstream.url)

    assert done.returncode == 0
    assert f"1 skill served at {commit}" in done.stdout


@pytest.mark.spec("9.1")
def test_a_repository_that_is_down_shows_what_was_synced_before(
    run: Run, upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit({"skills/one.md": skill_text(keywords=["one"])})
    run("tree", "--repo", upstream.url)
    upstream.bare.rename(tmp_path / "gone")

    done = run("tree", "--repo", upstream.url)

    assert done.returncode == 0
    assert f"1 skill served at {commit}" in done.stdout
    assert "Showing what was synced before" in done.stderr


def test_without_anything_to_show_the_status_says_so(run: Run, tmp_path: Path) -> None:
    done = run("tree", "--repo", f"file://{tmp_path}/nothing.git")

    assert done.returncode == 4
    assert done.stdout == ""
    assert "Check SKILLS_REPO" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_not_there_is_named(run: Run, tmp_path: Path) -> None:
    done = run("tree", "--skills-dir", str(tmp_path / "nothing"))

    assert done.returncode == 4
    assert f"{tmp_path}/nothing" in done.stderr


@pytest.mark.spec("11.1")
def test_a_branch_is_chosen_by_the_environment(run: Run, tmp_path: Path) -> None:
    upstream = Upstream.create(tmp_path, branch="next")
    upstream.commit({"one.md": skill_text(keywords=["one"])})

    done = run("tree", SKILLS_REPO=upstream.url, SKILLS_BRANCH="next")

    assert done.returncode == 0
    assert "1 skill served" in done.stdout


@pytest.mark.spec("11.3")
def test_a_repository_that_is_typed_wins_over_a_folder_of_the_environment(
    run: Run, upstream: Upstream
) -> None:
    commit = upstream.commit({"one.md": skill_text(keywords=["one"])})

    done = run("tree", "--repo", upstream.url, SKILLS_DIR=str(SKILLS_CONTENT))

    assert f"1 skill served at {commit}" in done.stdout


@pytest.mark.spec("3.1")
def test_of_two_variables_the_folder_wins(run: Run, upstream: Upstream) -> None:
    done = run("tree", SKILLS_REPO=upstream.url, SKILLS_DIR=str(SKILLS_CONTENT))

    assert f"27 skills served at {SKILLS_CONTENT}" in done.stdout
