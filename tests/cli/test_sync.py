"""`skills-mcp sync`: for cron, and for images."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.clients import HangingRemote
from tests.support import PATIENCE_SECONDS, Upstream, git, skill_text, write, write_skill


def settings(folder: Path, **sections: Any) -> str:
    """Write the operator's file; a JSON object is YAML, too."""
    return str(write(folder / "mine.yaml", json.dumps(sections)))


@pytest.mark.spec("9.1")
def test_the_newest_content_is_brought_here_and_said(run: Run, upstream: Upstream) -> None:
    upstream.commit({"skills/one.md": skill_text()})
    run("sync", "--repo", upstream.url)
    commit = upstream.commit({"skills/two.md": skill_text()})

    done = run("sync", "--repo", upstream.url)

    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        f"top: {upstream.url} (main) at {commit}, synced just now",
        "2 skills",
    ]
    assert done.stderr == ""


def test_programs_get_what_list_skills_says_of_the_sources(invoke: Run, upstream: Upstream) -> None:
    commit = upstream.commit({"skills/one.md": skill_text()})

    done = invoke("sync", "--json", "--repo", upstream.url)

    data = json.loads(done.stdout)
    [source] = data.pop("sources")
    assert data == {"skills": 1}
    assert (source["mount"], source["mode"], source["commit"]) == ("", "git", commit)
    assert source["name"] == f"{upstream.url} (main)"
    assert (source["stale"], "error" in source) == (False, False)


def test_what_arrived_is_indexed_for_the_servers_that_start_later(
    invoke: Run, upstream: Upstream, home: Path
) -> None:
    upstream.commit({"skills/one.md": skill_text()})

    invoke("sync", "--repo", upstream.url)

    assert list((home / ".skills-mcp/cache/index").iterdir())


@pytest.mark.spec("9.4")
@pytest.mark.parametrize("format_option", [(), ("--json",)])
def test_a_sync_that_fails_says_so_and_what_there_still_is(
    invoke: Run, upstream: Upstream, tmp_path: Path, format_option: tuple[str, ...]
) -> None:
    commit = upstream.commit({"skills/one.md": skill_text()})
    invoke("sync", "--repo", upstream.url)
    upstream.bare.rename(tmp_path / "gone")

    done = invoke("sync", *format_option, "--repo", upstream.url)

    assert done.returncode == 4
    assert commit in done.stdout
    assert "skills-mcp: " in done.stderr
    assert "repository not found" in done.stderr
    assert "Traceback" not in done.stderr
    if format_option:
        data = json.loads(done.stdout)
        assert data["skills"] == 1
        assert data["sources"][0]["error"]["code"] == "REMOTE_NOT_FOUND"


def test_without_anything_at_all_it_still_answers_in_full(invoke: Run, tmp_path: Path) -> None:
    done = invoke("sync", "--skills-dir", str(tmp_path / "nothing"))

    assert done.returncode == 4
    assert done.stdout == f"top: {tmp_path}/nothing, not available\n0 skills\n"
    assert f"the folder {tmp_path}/nothing cannot be read" in done.stderr


def test_each_source_has_a_line_and_one_that_fails_takes_nothing_from_the_others(
    invoke: Run, upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit({"one.md": skill_text()})
    write_skill(tmp_path, "mine/notes.md")
    sources = [
        {"folder": "mine", "mount": "teams/mine"},
        {"repo": upstream.url},
        {"repo": f"{tmp_path}/never.git", "mount": "cold"},
    ]

    done = invoke("sync", "--config", settings(tmp_path, sources=sources))

    assert done.returncode == 4
    assert done.stdout.splitlines() == [
        f"teams/mine: {tmp_path}/mine",
        f"top: {upstream.url} (main) at {commit}, synced just now",
        f"cold: {tmp_path}/never.git (main), not available",
        "2 skills",
    ]
    said = f"skills-mcp: {tmp_path}/never.git (main): repository not found"
    assert said in done.stderr


def test_a_rewritten_history_is_followed_once_if_somebody_says_so(
    invoke: Run, upstream: Upstream, tmp_path: Path
) -> None:
    base = upstream.commit({"skills/one.md": skill_text()})
    served = upstream.commit({"skills/two.md": skill_text()})
    config = settings(tmp_path, sync={"allow_non_fast_forward": False})
    command = ("sync", "--config", config, "--repo", upstream.url)
    invoke(*command)
    upstream.reset(base)

    refused = invoke(*command)
    allowed = invoke(*command, "--allow-rewrite")

    assert (refused.returncode, allowed.returncode) == (4, 0)
    assert f"at {served}" in refused.stdout
    assert "--allow-rewrite" in refused.stderr
    assert f"at {base}" in allowed.stdout


def test_removed_skills_wait_and_are_let_through_once_if_somebody_says_so(
    invoke: Run, upstream: Upstream, tmp_path: Path
) -> None:
    names = [f"skills/{name}.md" for name in "abcd"]
    served = upstream.commit(dict.fromkeys(names, skill_text()))
    config = settings(tmp_path, sync={"max_removed": 0.5})
    command = ("sync", "--config", config, "--repo", upstream.url)
    invoke(*command)
    newer = upstream.commit(dict.fromkeys(names[:3]))

    refused = invoke(*command)
    waits = invoke("status", *command[1:])
    allowed = invoke(*command, "--allow-removal")
    status = invoke("status", *command[1:])

    assert (refused.returncode, waits.returncode) == (4, 4)
    assert (allowed.returncode, status.returncode) == (0, 0)
    assert f"at {served}" in refused.stdout
    assert "--allow-removal" in refused.stderr
    assert "--allow-removal" in waits.stdout
    for done in (allowed, status):
        assert newer in done.stdout
        assert "3 of 4 skills are gone: a, b, c" in done.stdout


def test_a_commit_without_any_readable_skill_is_not_published(
    invoke: Run, upstream: Upstream
) -> None:
    good = upstream.commit({"skills/one.md": skill_text()})
    invoke("sync", "--repo", upstream.url)
    upstream.commit({"skills/one.md": "no frontmatter"})

    done = invoke("sync", "--repo", upstream.url)

    assert done.returncode == 4
    assert f"at {good}" in done.stdout
    assert "can be read, so it is not published" in done.stderr


def test_without_a_network_what_is_here_will_do(
    invoke: Run, upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit({"skills/one.md": skill_text()})
    invoke("sync", "--repo", upstream.url)
    upstream.bare.rename(tmp_path / "gone")

    here = invoke("sync", "--offline", "--repo", upstream.url)
    never = invoke("sync", "--offline", "--repo", f"{tmp_path}/never.git")

    assert (here.returncode, never.returncode) == (0, 4)
    assert f"at {commit}" in here.stdout
    assert "was never synced on this machine" in never.stderr


def test_programs_learn_why_nothing_is_here_without_a_network(invoke: Run, tmp_path: Path) -> None:
    done = invoke("sync", "--offline", "--json", "--repo", f"{tmp_path}/never.git")

    data = json.loads(done.stdout)
    [source] = data["sources"]
    assert (data["skills"], source["error"]["code"]) == (0, "SYNC_FAILED")
    assert "was never synced on this machine" in source["error"]["message"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_on_a_terminal_it_says_what_it_is_at(upstream: Upstream) -> None:
    import pty

    upstream.commit({"skills/one.md": skill_text()})
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "skills_mcp", "sync", "--repo", upstream.url]
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "300"},
    ) as process:
        os.close(theirs)
        shown = read_to_the_end(ours)
        status = process.wait(timeout=PATIENCE_SECONDS)
    os.close(ours)

    assert status == 0
    assert f"Reading {upstream.url}" in shown


def read_to_the_end(terminal: int) -> str:
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # how a terminal says that nobody writes to it any more
            return shown.decode()
        if not piece:
            return shown.decode()
        shown += piece


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal of POSIX")
def test_an_interrupt_ends_the_only_fetch() -> None:
    remote = HangingRemote()
    command = [sys.executable, "-m", "skills_mcp", "sync", "--repo", remote.url]

    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        remote.wait_for_request()
        process.send_signal(signal.SIGINT)
        status = process.wait(timeout=PATIENCE_SECONDS)
        remote.wait_for_hang_up()
        remote.close()

    assert status != 0


@pytest.mark.parametrize("address", ["{}", "file://{}"])
def test_a_repository_that_is_a_partial_clone_says_how_to_complete_it(
    invoke: Run, upstream: Upstream, tmp_path: Path, address: str
) -> None:
    git("config", "uploadpack.allowFilter", "true", cwd=upstream.bare)
    commit = upstream.commit({"skills/a.md": skill_text(description="A")})
    clone = tmp_path / "partial"
    words = ("clone", "-q", "--no-checkout", "--filter=blob:none", upstream.url, str(clone))
    git(*words, cwd=tmp_path)
    line = ("sync", "--repo", address.format(clone))

    refused = invoke(*line)
    command = refused.stderr.partition("Fetch them once: ")[2].partition(". Git said")[0]
    git(*shlex.split(command)[1:], cwd=tmp_path)
    done = invoke(*line)

    assert refused.returncode == 4
    assert "Try again" not in refused.stderr
    assert commit in done.stdout


def test_a_scheme_in_capitals_is_the_same_repository(invoke: Run, upstream: Upstream) -> None:
    commit = upstream.commit({"skills/a.md": skill_text()})

    done = invoke("sync", "--repo", upstream.url.replace("file:", "FILE:"))

    assert commit in done.stdout
    assert upstream.url in done.stdout


def test_the_branches_of_a_clone_are_told_from_those_of_its_remote(
    invoke: Run, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"skills/a.md": skill_text()})
    clone = tmp_path / "clone"
    git("clone", "-q", upstream.url, str(clone), cwd=tmp_path)
    git("remote", "set-head", "origin", "main", cwd=clone)
    git("checkout", "-q", "--detach", cwd=clone)
    git("branch", "-q", "-m", "main", "release", cwd=clone)

    named = invoke("sync", "--repo", str(clone))
    git("branch", "-q", "-D", "release", cwd=clone)
    without = invoke("sync", "--repo", str(clone))
    followed = invoke("sync", "--repo", str(clone), "--branch", "HEAD")

    assert "release" in named.stderr
    assert "refs/remotes" not in named.stderr + without.stderr
    assert "HEAD" in without.stderr
    assert followed.returncode == 0
