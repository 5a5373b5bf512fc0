"""`skills-mcp rollback`: what to do about a bad commit at three in the morning."""

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support import Upstream, skill_text, write


def sources_file(folder: Path, *sources: dict[str, str]) -> str:
    """Write the operator's file; a JSON object is YAML, too."""
    return str(write(folder / "mine.yaml", json.dumps({"sources": sources})))


def push(upstream: Upstream, description: str) -> str:
    return upstream.commit({"skills/one.md": skill_text(description=description)})


def test_the_commit_before_is_served_until_told_otherwise(invoke: Run, upstream: Upstream) -> None:
    good = push(upstream, "Good")
    invoke("sync", "--repo", upstream.url)
    bad = push(upstream, "Bad")
    invoke("sync", "--repo", upstream.url)

    done = invoke("rollback", "--repo", upstream.url)
    push(upstream, "Worse")
    synced = invoke("sync", "--repo", upstream.url)

    assert done.returncode == synced.returncode == 0
    assert done.stdout.splitlines() == [
        f"{upstream.url} (main) is held at {good} instead of {bad}.",
        "Every server on this machine serves it within seconds.",
        f"To follow again: skills-mcp rollback --repo {upstream.url} --resume",
    ]
    assert f"at {good}, synced" in synced.stdout
    assert f"held instead of {bad}" in synced.stdout


def test_afterwards_the_repository_is_followed_again(invoke: Run, upstream: Upstream) -> None:
    push(upstream, "Good")
    invoke("sync", "--repo", upstream.url)
    bad = push(upstream, "Bad")
    invoke("sync", "--repo", upstream.url)
    invoke("rollback", "--repo", upstream.url)
    repaired = push(upstream, "Repaired")

    done = invoke("rollback", "--resume", "--repo", upstream.url)
    synced = invoke("sync", "--repo", upstream.url)

    assert done.returncode == 0
    assert f"is followed again, and serves {bad}" in done.stdout
    assert f"at {repaired}, synced" in synced.stdout
    assert "held" not in synced.stdout


@pytest.mark.parametrize("digits", [40, 10])
def test_it_goes_back_to_the_commit_that_is_named(
    invoke: Run, upstream: Upstream, digits: int
) -> None:
    wanted = push(upstream, "Best")
    invoke("sync", "--repo", upstream.url)
    push(upstream, "Good")
    invoke("sync", "--repo", upstream.url)

    done = invoke("rollback", "--to", wanted[:digits], "--json", "--repo", upstream.url)

    data = json.loads(done.stdout)
    assert (data["commit"], "held" in data) == (wanted, True)


def test_a_commit_that_is_not_on_this_machine_is_fetched(invoke: Run, upstream: Upstream) -> None:
    wanted = push(upstream, "Best")
    push(upstream, "Good")
    bad = push(upstream, "Bad")
    invoke("sync", "--repo", upstream.url)

    short = invoke("rollback", "--to", wanted[:10], "--repo", upstream.url)
    offline = invoke("rollback", "--to", wanted, "--offline", "--repo", upstream.url)
    done = invoke("rollback", "--to", wanted, "--repo", upstream.url)
    tree = invoke("tree", "--offline", "--repo", upstream.url)
    resumed = invoke("rollback", "--resume", "--repo", upstream.url)

    assert (short.returncode, offline.returncode) == (4, 4)
    assert "Write all 40 digits" in short.stderr
    assert "Leave out --offline to fetch it" in offline.stderr
    assert f"is held at {wanted} instead of {bad}" in done.stdout
    assert "Best" in tree.stdout
    assert f"and serves {bad}" in resumed.stdout


def test_from_a_held_commit_it_goes_to_another(invoke: Run, upstream: Upstream) -> None:
    first, second = push(upstream, "First"), push(upstream, "Second")
    newest = push(upstream, "Newest")
    invoke("sync", "--repo", upstream.url)
    invoke("rollback", "--to", first, "--repo", upstream.url)

    done = invoke("rollback", "--to", second, "--repo", upstream.url)
    back = invoke("rollback", "--to", first[:8], "--repo", upstream.url)
    resumed = invoke("rollback", "--resume", "--repo", upstream.url)

    assert f"is held at {second} instead of {newest}" in done.stdout
    assert f"is held at {first} instead of {newest}" in back.stdout
    assert f"and serves {newest}" in resumed.stdout


@pytest.mark.parametrize("unknown", ["0" * 39 + "1", "0123abc", "HEAD~1", "release/1"])
def test_an_unknown_commit_is_named_whether_one_is_held_or_not(
    invoke: Run, upstream: Upstream, unknown: str
) -> None:
    first = push(upstream, "First")
    push(upstream, "Second")
    invoke("sync", "--repo", upstream.url)

    followed = invoke("rollback", "--to", unknown, "--repo", upstream.url)
    invoke("rollback", "--to", first, "--repo", upstream.url)
    held = invoke("rollback", "--to", unknown, "--repo", upstream.url)
    status = json.loads(invoke("status", "--json", "--repo", upstream.url).stdout)

    assert (followed.returncode, held.returncode) == (4, 4)
    assert unknown in followed.stderr
    assert unknown in held.stderr
    assert status["sources"][0]["commit"] == first


def test_to_and_resume_exclude_each_other(invoke: Run, upstream: Upstream) -> None:
    done = invoke("rollback", "--to", "abc", "--resume", "--repo", upstream.url)

    assert done.returncode == 2
    assert "--to and --resume exclude each other" in done.stderr


@pytest.mark.parametrize(
    "options, said",
    [
        ((), "no previous commit to go back to"),
        (("--resume",), "nothing is held"),
    ],
)
def test_where_there_is_no_way_it_says_so(
    invoke: Run, upstream: Upstream, options: tuple[str, ...], said: str
) -> None:
    push(upstream, "Good")
    invoke("sync", "--repo", upstream.url)

    done = invoke("rollback", *options, "--repo", upstream.url)

    assert done.returncode == 4
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_has_no_commit_to_go_back_to(invoke: Run, tmp_path: Path) -> None:
    alone = invoke("rollback", "--skills-dir", str(tmp_path))
    named = invoke("rollback", "--mount", "", "--skills-dir", str(tmp_path))
    resumed = invoke("rollback", "--resume", "--mount", "", "--skills-dir", str(tmp_path))

    assert (alone.returncode, named.returncode, resumed.returncode) == (4, 4, 4)
    assert "no source is a Git repository" in alone.stderr
    assert "serve it from a Git repository" in named.stderr
    assert "is a folder: nothing is held" in resumed.stderr


def test_of_several_repositories_the_one_at_the_place_goes_back(
    invoke: Run, tmp_path: Path
) -> None:
    one, two = (Upstream.create(tmp_path / name) for name in ("one", "two"))
    config = sources_file(tmp_path, {"repo": one.url}, {"repo": two.url, "mount": "teams/two"})
    push(one, "Good")
    good = push(two, "Good")
    invoke("sync", "--config", config)
    one_commit, bad = push(one, "Better"), push(two, "Bad")
    invoke("sync", "--config", config)

    unclear = invoke("rollback", "--config", config)
    wrong = invoke("rollback", "--config", config, "--mount", "teams/three")
    done = invoke("rollback", "--config", config, "--mount", "teams/two/")
    status = json.loads(invoke("status", "--json", "--config", config).stdout)
    shown = invoke("status", "--config", config)

    resume = f"skills-mcp rollback --config {config} --resume --mount teams/two\n"
    assert f"Undo with   {resume}" in shown.stdout
    assert (unclear.returncode, wrong.returncode, done.returncode) == (2, 2, 0)
    choose = "Choose a repository with --mount: '' or 'teams/two'"
    assert f"Error: {choose}" in unclear.stderr
    assert f"No source has the mount 'teams/three'. {choose}" in wrong.stderr
    assert f"held at {good} instead of {bad}" in done.stdout
    assert done.stdout.endswith(f"To follow again: {resume}")
    first, second = status["sources"]
    assert (first["commit"], "held" in first) == (one_commit, False)
    assert (second["commit"], second["held"]["instead_of"]) == (good, bad)


def test_the_way_back_is_said_so_that_it_works_at_the_top_of_several(
    invoke: Run, tmp_path: Path
) -> None:
    one, two = (Upstream.create(tmp_path / name) for name in ("one", "two"))
    config = sources_file(tmp_path, {"repo": one.url}, {"repo": two.url, "mount": "b"})
    push(one, "Good")
    push(two, "Good")
    invoke("sync", "--config", config)
    push(one, "Bad")
    invoke("sync", "--config", config)

    held = invoke("rollback", "--config", config, "--mount", "")
    command = shlex.split(held.stdout.splitlines()[-1].partition(": ")[2])
    resumed = invoke(*command[1:])

    assert command[2:] == ["--config", config, "--resume", "--mount", ""]
    assert resumed.returncode == 0
