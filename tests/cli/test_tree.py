import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.clients import HangingRemote
from tests.support import (
    PATIENCE_SECONDS,
    SKILLS_CONTENT,
    Upstream,
    git,
    skill_text,
    write,
    write_skill,
)


@pytest.mark.parametrize("folder", [SKILLS_CONTENT, SKILLS_CONTENT / "skills"])
@pytest.mark.spec("3.1")
def test_a_repository_and_its_skills_folder_show_the_same_skills(invoke: Run, folder: Path) -> None:
    done = invoke("tree", "--skills-dir", str(folder))

    assert done.returncode == 0
    assert "auth  Login, logout, session handling" in done.stdout
    assert "react, auth, login, session, component" in done.stdout
    assert "3 assets" in done.stdout
    assert f"27 skills served at {folder}, 0 problems" in done.stdout


@pytest.mark.spec("8.2")
def test_programs_get_the_tree_of_list_skills(invoke: Run) -> None:
    done = invoke("tree", "--json", SKILLS_DIR=str(SKILLS_CONTENT))

    data = json.loads(done.stdout)
    assert list(data) == ["tree"]
    assert data["tree"]["path"] == "_root"
    areas = [child["name"] for child in data["tree"]["children"]]
    assert areas == ["api", "data", "infra", "security", "ui"]


def test_only_the_levels_that_are_asked_for_are_shown(invoke: Run) -> None:
    content = ("--skills-dir", str(SKILLS_CONTENT))
    done = invoke("tree", "--depth", "1", *content)
    data = json.loads(invoke("tree", "--depth", "1", "--json", *content).stdout)

    children = data["tree"]["children"]
    assert "auth" not in done.stdout
    assert "skills below" in done.stdout
    assert {child["name"]: child["children"] for child in children}["ui"] == []
    assert sum(child["skillCount"] + 1 for child in children) == 27 - 1


def test_only_skills_with_all_words_are_shown_with_their_folders(invoke: Run) -> None:
    content = ("--skills-dir", str(SKILLS_CONTENT))
    done = invoke("tree", "--search", "react LOGIN", *content)
    data = json.loads(invoke("tree", "--search", "login", "--json", *content).stdout)
    none = invoke("tree", "--search", "[zeppelin]", *content)

    assert "auth  Login" in done.stdout
    assert "infra" not in done.stdout
    assert "1 skill with 'react LOGIN' in the path" in done.stdout
    assert "ui" in [child["name"] for child in data["tree"]["children"]]
    assert "0 skills with '[zeppelin]'" in none.stdout
    assert none.returncode == 0


def test_tokens_are_shown_where_they_are_asked_for(invoke: Run) -> None:
    content = ("--skills-dir", str(SKILLS_CONTENT))
    plain = invoke("tree", *content).stdout
    done = invoke("tree", "--tokens", *content).stdout
    data = json.loads(invoke("tree", "--json", *content).stdout)

    tokens = data["tree"]["tokens"]
    shown = f"root  {tokens['own']:,} + {tokens['inherited']:,} tokens  Working"
    assert done.startswith(shown)
    assert " tokens  " not in plain


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
@pytest.mark.parametrize("options, is_paged", [((), True), (("--no-pager",), False)])
def test_a_long_tree_is_shown_in_a_pager_on_a_terminal(
    tmp_path: Path, options: tuple[str, ...], *, is_paged: bool
) -> None:
    seen = tmp_path / "seen"
    pager = write(tmp_path / "pager", f"#!/bin/sh\ncat > {seen}\n")
    pager.chmod(0o755)
    command = [sys.executable, "-m", "skills_mcp", "tree", *options]

    shown = run_on_terminal(
        [*command, "--skills-dir", str(SKILLS_CONTENT)],
        {"PAGER": str(pager), "LINES": "10", "COLUMNS": "60"},
    )

    assert seen.exists() is is_paged
    assert ("27 skills served" in shown) is not is_paged
    if is_paged:
        assert "27 skills served" in seen.read_text()


def run_on_terminal(command: list[str], environment: dict[str, str]) -> str:
    """Run a command whose output is a terminal, and return what it shows."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **environment}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # how Linux tells that the other end is closed
            pass
    os.close(ours)
    return shown.decode()


def test_a_dumb_terminal_gets_no_line_of_progress() -> None:
    command = [sys.executable, "-m", "skills_mcp", "tree", "--no-pager"]

    shown = run_on_terminal([*command, f"--skills-dir={SKILLS_CONTENT}"], {"TERM": "dumb"})

    assert shown.startswith("root")


@pytest.mark.spec("4.2")
def test_problems_are_counted_and_shown_when_asked_for(invoke: Run, tmp_path: Path) -> None:
    write_skill(tmp_path, "good.md")
    write(tmp_path / "bad.md", "no [bold]frontmatter")

    brief = invoke("tree", "--skills-dir", str(tmp_path))
    whole = invoke("tree", "--problems", "--skills-dir", str(tmp_path))

    assert brief.returncode == whole.returncode == 0
    assert "1 skill served" in brief.stdout
    assert "1 problem: see --problems" in brief.stdout
    assert "has no frontmatter" not in brief.stdout
    assert "bad.md" in whole.stdout
    assert "has no frontmatter" in whole.stdout


def test_programs_get_the_problems_too(invoke: Run, tmp_path: Path) -> None:
    write(tmp_path / "bad.md", "no frontmatter")

    done = invoke("tree", "--json", "--problems", "--skills-dir", str(tmp_path))

    [problem] = json.loads(done.stdout)["problems"]
    assert list(problem) == ["file", "line", "rule", "level", "reason", "hint"]
    assert (problem["file"], problem["level"]) == ("bad.md", "error")


def test_what_looks_like_markup_is_printed_as_it_is(invoke: Run, tmp_path: Path) -> None:
    write_skill(tmp_path, "odd.md", description="Use [red]colours[/] and [x]")

    done = invoke("tree", "--skills-dir", str(tmp_path))

    assert "Use [red]colours[/] and [x]" in done.stdout


@pytest.mark.spec("9.1")
def test_a_repository_is_synced_first(invoke: Run, upstream: Upstream) -> None:
    commit = upstream.commit({"skills/one.md": skill_text(keywords=["one"])})

    done = invoke("tree", "--repo", upstream.url)

    assert done.returncode == 0
    assert f"1 skill served at {commit}" in done.stdout


@pytest.mark.spec("9.1")
def test_a_repository_that_is_down_shows_what_was_synced_before(
    invoke: Run, upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit({"skills/one.md": skill_text(keywords=["one"])})
    invoke("tree", "--repo", upstream.url)
    upstream.bare.rename(tmp_path / "gone")

    done = invoke("tree", "--repo", upstream.url)

    assert done.returncode == 0
    assert f"1 skill served at {commit}" in done.stdout
    [said] = done.stderr.splitlines()  # whole, so that it can be searched for
    assert said.startswith(f"Sync failed; showing the previous content: {upstream.url} (main): ")


def test_without_anything_to_show_the_status_says_so(invoke: Run, tmp_path: Path) -> None:
    done = invoke("tree", "--repo", f"file://{tmp_path}/nothing.git")

    assert done.returncode == 4
    assert done.stdout == ""
    assert "Check its address" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_not_there_is_named(invoke: Run, tmp_path: Path) -> None:
    done = invoke("tree", "--skills-dir", str(tmp_path / "nothing"))

    assert done.returncode == 4
    assert f"{tmp_path}/nothing" in done.stderr


@pytest.mark.spec("11.1")
def test_a_branch_is_chosen_by_the_environment(invoke: Run, tmp_path: Path) -> None:
    upstream = Upstream.create(tmp_path, branch="next")
    upstream.commit({"one.md": skill_text(keywords=["one"])})

    done = invoke("tree", SKILLS_REPO=upstream.url, SKILLS_BRANCH="next")

    assert done.returncode == 0
    assert "1 skill served" in done.stdout


@pytest.mark.spec("11.3")
def test_a_repository_that_is_typed_wins_over_a_folder_of_the_environment(
    invoke: Run, upstream: Upstream
) -> None:
    commit = upstream.commit({"one.md": skill_text(keywords=["one"])})

    done = invoke("tree", "--repo", upstream.url, SKILLS_DIR=str(SKILLS_CONTENT))

    assert f"1 skill served at {commit}" in done.stdout


@pytest.mark.spec("3.1")
def test_of_two_variables_the_folder_wins(invoke: Run, upstream: Upstream) -> None:
    done = invoke("tree", SKILLS_REPO=upstream.url, SKILLS_DIR=str(SKILLS_CONTENT))

    assert f"27 skills served at {SKILLS_CONTENT}" in done.stdout


def sources_file(folder: Path, *sources: dict[str, str]) -> str:
    """Write the operator's file; a JSON object is YAML, too."""
    return str(write(folder / "mine.yaml", json.dumps({"sources": sources})))


def test_several_sources_are_listed_below_the_skills(
    invoke: Run, upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit({"one.md": skill_text(keywords=["one"])})
    write_skill(tmp_path, "mine/notes.md")
    file = sources_file(tmp_path, {"repo": upstream.url}, {"folder": "mine", "mount": "teams/mine"})

    done = invoke("tree", "--config", file)

    assert done.returncode == 0
    assert done.stdout.splitlines()[-3:] == [
        "2 skills served from 2 sources, 0 problems",
        f"  top: {upstream.url} (main) at {commit}",
        f"  teams/mine: {tmp_path}/mine",
    ]
    assert done.stderr == ""


def test_a_source_that_is_down_is_said_and_the_others_are_shown(
    invoke: Run, upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit({"one.md": skill_text(keywords=["one"])})
    write_skill(tmp_path, "mine/notes.md")
    file = sources_file(
        tmp_path,
        {"folder": "mine"},
        {"repo": upstream.url, "mount": "warm"},
        {"repo": f"{tmp_path}/never.git", "mount": "cold"},
    )
    warm = {"repo": upstream.url}
    invoke("tree", "--config", sources_file(tmp_path / "before", warm))
    upstream.bare.rename(tmp_path / "gone")

    done = invoke("tree", "--config", file)

    assert done.returncode == 0
    assert "2 skills served from 3 sources" in done.stdout
    line = f"  warm: {upstream.url} (main) at {commit}"
    assert f"{line}, last sync failed; serving the previous commit" in done.stdout
    assert f"  cold: {tmp_path}/never.git (main), not available" in done.stdout
    source = f"{upstream.url} (main)"
    said = f"Sync failed; showing the previous content: {source}: repository not found"
    assert said in done.stderr
    assert f"; {tmp_path}/never.git (main): repository not found" in done.stderr


def test_without_anything_from_any_source_the_status_says_so(invoke: Run, tmp_path: Path) -> None:
    names = ("a", "b")
    sources = [{"folder": str(tmp_path / name), "mount": name} for name in names]

    done = invoke("tree", "--config", sources_file(tmp_path, *sources))

    assert done.returncode == 4
    assert done.stdout == ""
    assert all(f"folder {tmp_path}/{name} cannot" in done.stderr for name in names)


def test_what_is_found_in_the_project_is_shown(invoke: Run, tmp_path: Path) -> None:
    write_skill(tmp_path, ".agents/skills/notes.md")

    done = invoke("tree", "--discover", SKILLS_MCP_PROJECT_ROOT=str(tmp_path))

    assert done.returncode == 0
    assert "notes" in done.stdout
    assert f"1 skill served at {tmp_path}/.agents/skills" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal of POSIX")
def test_an_interrupt_ends_every_fetch_that_is_running(tmp_path: Path) -> None:
    remotes = [HangingRemote() for _ in range(2)]
    sources = [{"repo": each.url, "mount": str(n)} for n, each in enumerate(remotes)]
    command = [sys.executable, "-m", "skills_mcp", "tree"]
    command += ["--config", sources_file(tmp_path, *sources)]

    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        for remote in remotes:
            remote.wait_for_request()
        process.send_signal(signal.SIGINT)
        status = process.wait(timeout=PATIENCE_SECONDS)
        for remote in remotes:
            remote.wait_for_hang_up()
            remote.close()

    assert status != 0


def test_an_empty_folder_is_told_what_a_skill_is(invoke: Run, tmp_path: Path) -> None:
    hides = ("--config", str(write(tmp_path / "c.yaml", "visibility: {deny: ['*']}")))

    (tmp_path / "a").mkdir()

    empty = invoke("tree", "--skills-dir", str(tmp_path / "a"))
    hidden = invoke("tree", "--skills-dir", str(SKILLS_CONTENT), *hides)

    assert "No skill was found: a skill is a Markdown file" in empty.stdout
    assert "0 skills served" in hidden.stdout
    assert "No skill was found" not in hidden.stdout


def test_a_bare_repository_is_named_with_how_to_serve_it(
    invoke: Run, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"skills/one.md": skill_text()})
    git("clone", "--quiet", "--bare", upstream.url, "bare.git", cwd=tmp_path)

    done = invoke("tree", "--skills-dir", str(tmp_path / "bare.git"))

    assert (done.returncode, done.stdout) == (4, "")
    assert "bare.git is a bare Git repository, without files." in done.stderr
    assert "--repo" in done.stderr


def test_a_wrong_subfolder_is_the_first_thing_that_is_said(invoke: Run, upstream: Upstream) -> None:
    upstream.commit({"skills/one.md": skill_text()})
    here = str(upstream.work)

    fetched = invoke("tree", "--repo", upstream.url, "--subfolder", "teams/web")
    local = invoke("tree", "--skills-dir", here, "--subfolder", "teams/web")

    assert "has no folder teams/web. Correct the subfolder" in fetched.stderr
    assert "teams/web: is not there" in local.stdout
    assert "correct the subfolder" in local.stdout


def test_the_summary_counts_what_visibility_hides(invoke: Run, tmp_path: Path) -> None:
    write_skill(tmp_path, "skills/a.md")
    write_skill(tmp_path, "skills/b.md")
    settings = write(tmp_path / "own.yaml", "visibility: {deny: [b]}")

    done = invoke("tree", "--skills-dir", str(tmp_path), "--config", str(settings))

    assert "1 skill served" in done.stdout
    assert "1 hidden by visibility, 0 problems" in done.stdout


@pytest.mark.parametrize("file", ["one.md", "SKILL.md"])
def test_a_mounted_config_map_says_how_it_can_be_served(
    invoke: Run, tmp_path: Path, file: str
) -> None:
    write(tmp_path / "mount" / "..2026" / file, skill_text())
    (tmp_path / "mount" / "..data").symlink_to("..2026")
    (tmp_path / "mount" / file).symlink_to(f"..data/{file}")

    done = invoke("tree", "--problems", "--json", "--skills-dir", str(tmp_path / "mount"))

    [hint] = [p["hint"] for p in json.loads(done.stdout)["problems"] if p["file"] == file]
    assert "cp -rL" in hint
