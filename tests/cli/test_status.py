"""`skills-mcp status`: what is here, how new it is, and nothing else is touched."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from skills_mcp.files.locks import acquire_lock
from skills_mcp.scripts.execution import CONFINING_TIERS, SandboxName
from tests.cli.conftest import Run
from tests.packages import package_text
from tests.support import Upstream, skill_text, write, write_skill

Known = dict[str, Any]


@pytest.fixture
def synced(invoke: Run, upstream: Upstream) -> str:
    """Return the commit that is here; the remote is gone."""
    commit = upstream.commit({"skills/one.md": skill_text()})
    invoke("sync", "--repo", upstream.url)
    upstream.bare.rename(upstream.bare.parent / "gone")
    return commit


@pytest.fixture
def pointer(synced: str, home: Path) -> Callable[[Known], None]:
    """Return what changes the file that says what is published."""
    assert synced

    def change(known: Known) -> None:
        [file] = home.glob(".skills-mcp/cache/*/current.json")
        file.write_text(json.dumps({**json.loads(file.read_text()), **known}))

    return change


def facts(text: str) -> list[Known]:
    """Return what is said of each source."""
    *sources, scripts = (
        {line[:12].strip(): line[12:] for line in each.splitlines()} for each in text.split("\n\n")
    )
    assert list(scripts) == ["Scripts", "Analytics"]
    return sources


@pytest.mark.spec("9.1")
def test_it_says_what_is_here_without_asking_the_repository(
    invoke: Run, upstream: Upstream, synced: str
) -> None:
    done = invoke("status", "--repo", upstream.url)

    [said] = facts(done.stdout)
    assert done.returncode == 0
    assert list(said) == ["Source", "Commit", "Synced"]
    assert (said["Source"], said["Commit"]) == (f"{upstream.url} (main)", synced)
    assert said["Synced"] == "just now"
    assert done.stderr == ""


def test_a_mistyped_variable_is_named(
    invoke: Run, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.commit({"skills/one.md": skill_text()})
    monkeypatch.setenv("SKILLS_MCP_LOGLEVEL", "debug")

    done = invoke("status", "--repo", upstream.url, "--log-level", "warning")
    data = json.loads(invoke("status", "--json", "--repo", upstream.url).stdout)

    said = "SKILLS_MCP_LOGLEVEL is not read. Did you mean SKILLS_MCP_LOG_LEVEL?"
    assert f"Variable    {said}" in done.stdout
    assert f"WARNING bootstrap: {said}" in done.stderr
    assert data["unknown_variables"] == [
        {"name": "SKILLS_MCP_LOGLEVEL", "meant": "SKILLS_MCP_LOG_LEVEL"}
    ]


def test_programs_get_what_list_skills_says_of_the_sources(
    invoke: Run, upstream: Upstream, synced: str
) -> None:
    done = invoke("status", "--json", "--repo", upstream.url)

    data = json.loads(done.stdout)
    [source] = data["sources"]
    assert list(data) == ["sources", "scripts", "analytics", "unknown_variables", "servers"]
    assert (source["commit"], source["stale"]) == (synced, False)
    assert source["age_seconds"] >= 0


def test_what_was_never_synced_is_missing_and_stays_untouched(
    invoke: Run, upstream: Upstream, home: Path
) -> None:
    done = invoke("status", "--repo", upstream.url)

    [said] = facts(done.stdout)
    assert done.returncode == 1
    assert (said["Commit"], said["Synced"]) == ("none yet", "never")
    assert list(home.rglob("*.git")) == []


def test_a_failed_sync_is_said_with_the_time_of_the_next(
    invoke: Run, upstream: Upstream, synced: str
) -> None:
    tried = invoke("sync", "--repo", upstream.url)

    done = invoke("status", "--repo", upstream.url)

    [said] = facts(done.stdout)
    assert done.returncode == 0  # what is here is not old yet
    failed = ", last sync failed; serving the previous commit"
    assert f"at {synced}{failed}, synced just now" in tried.stdout
    assert said["Synced"] == f"just now{failed}"
    assert said["Commit"] == synced
    assert "repository not found" in said["Error"]
    assert said["Failed"] <= said["Retry"]


@pytest.mark.parametrize(
    "settings, is_stale",
    [
        pytest.param({}, True, id="followed"),
        pytest.param({"refresh": {"enabled": False}}, False, id="without-a-timer"),
        pytest.param({"sync": {"offline": True}}, False, id="offline"),
    ],
)
def test_content_that_missed_three_intervals_needs_somebodys_care(
    invoke: Run,
    upstream: Upstream,
    pointer: Callable[[Known], None],
    settings: Known,
    is_stale: bool,  # noqa: FBT001
) -> None:
    pointer({"fetched_at": 1_600_000_000.0})
    config = write(upstream.work / "mine.yaml", json.dumps(settings))

    done = invoke("status", "--config", str(config), "--repo", upstream.url)

    [said] = facts(done.stdout)
    assert done.returncode == int(is_stale)
    assert said["Synced"].endswith("days ago (stale)" if is_stale else "days ago")


def test_the_interval_that_the_content_asks_for_decides_what_is_stale(
    invoke: Run, upstream: Upstream, home: Path
) -> None:
    files = {"config.yaml": "refresh: {interval_minutes: 600}"}
    upstream.commit({"skills/one.md": skill_text(), **files})
    invoke("sync", "--repo", upstream.url)
    [file] = home.glob(".skills-mcp/cache/*/current.json")
    known = json.loads(file.read_text())
    two_hours_ago = {"fetched_at": known["fetched_at"] - 2 * 60 * 60}
    file.write_text(json.dumps({**known, **two_hours_ago}))

    done = invoke("status", "--json", "--repo", upstream.url)

    [source] = json.loads(done.stdout)["sources"]
    assert (done.returncode, source["stale"]) == (0, False)
    assert source["age_seconds"] >= 2 * 60 * 60


def test_a_commit_that_is_held_is_said_with_the_way_back(
    invoke: Run,
    upstream: Upstream,
    synced: str,
    pointer: Callable[[Known], None],
) -> None:
    taken_back = "f" * 40
    hold = {"since": 1_600_000_000.0, "instead_of": taken_back}
    pointer({"hold": hold, "fetched_at": 1_600_000_000.0})

    done = invoke("status", "--repo", upstream.url)

    [said] = facts(done.stdout)
    assert done.returncode == 0
    assert (said["Commit"], said["Instead of"]) == (synced, taken_back)
    assert said["Held"].startswith("since 2020-09-1")
    assert said["Undo with"] == f"skills-mcp rollback --repo {upstream.url} --resume"


def test_every_source_is_said(invoke: Run, upstream: Upstream, synced: str, tmp_path: Path) -> None:
    write_skill(tmp_path, "mine/notes.md")
    sources = [
        {"repo": upstream.url},
        {"folder": "mine", "mount": "teams/mine"},
        {"folder": "missing", "mount": "teams/other"},
    ]
    file = write(tmp_path / "mine.yaml", json.dumps({"sources": sources}))

    done = invoke("status", "--config", str(file))

    remote, mine, missing = facts(done.stdout)
    assert done.returncode == 1
    assert remote["Commit"] == synced
    assert mine == {"Source": f"{tmp_path}/mine", "Mount": "teams/mine"}
    assert "cannot be read" in missing["Error"]


def test_where_discovery_finds_nothing_it_says_so(
    invoke: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")

    done = invoke("status", "--discover")

    assert done.returncode == 0
    first, _, _ = done.stdout.partition("\n")
    assert first == "There is no source: no .agents/skills was found here."


@pytest.fixture
def somebody_else_syncs(synced: str, home: Path) -> Iterator[None]:
    assert synced
    [lock] = home.glob(".skills-mcp/cache/*/sync.lock")
    with acquire_lock(lock):
        yield


@pytest.mark.usefixtures("somebody_else_syncs")
def test_it_does_not_wait_for_a_sync_of_another_process(
    invoke: Run, upstream: Upstream, synced: str
) -> None:
    done = invoke("status", "--repo", upstream.url)

    assert done.returncode == 0
    assert synced in done.stdout


def test_it_imports_nothing_that_takes_long(upstream: Upstream, synced: str) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "skills_mcp", "status"]

    done = subprocess.run(
        [*command, "--repo", upstream.url],
        check=True,
        capture_output=True,
        text=True,
    )

    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert synced in done.stdout
    assert imported & {"numpy", "httpx", "mcp", "mcp_types", "Stemmer"} == set()


UNCONFINED = "a script can read and change what you can"


def what_holds_scripts(invoke: Run, *, settings: str = "") -> tuple[str, Known]:
    """Return what is said of scripts, to people and to programs."""
    config = write(Path("settings.yaml").absolute(), settings)
    options = ("--skills-dir", ".", "--config", str(config))
    said = invoke("status", *options).stdout.splitlines()[-2]
    told: Known = json.loads(invoke("status", "--json", *options).stdout)["scripts"]
    return said.removeprefix("Scripts").strip(), told


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_skill(tmp_path / "skills", "one.md")
    monkeypatch.chdir(tmp_path / "skills")


@pytest.mark.usefixtures("_elsewhere")
def test_it_says_which_sandbox_scripts_would_run_in(invoke: Run) -> None:
    said, told = what_holds_scripts(invoke)

    assert told["enabled"]
    assert told["sandbox"] in get_args(SandboxName)
    assert told["confined"] is (told["sandbox"] in CONFINING_TIERS)
    assert ("not confined" in said) is not told["confined"]
    assert told["sandbox"] in said
    assert all(reason in said for reason in told["missing"])


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize(
    "settings, expected",
    [
        ("scripts: {enabled: false}", "off (scripts.enabled)"),
        (
            "scripts: {sandbox: 'off'}",
            f"not confined, {UNCONFINED}: scripts.sandbox is off",
        ),
    ],
)
def test_it_says_if_scripts_are_off_or_not_held(invoke: Run, settings: str, expected: str) -> None:
    said, told = what_holds_scripts(invoke, settings=settings)

    assert said == expected
    assert told["sandbox"] == (None if not told["enabled"] else "none")
    assert told["confined"] is (None if not told["enabled"] else False)


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a sandbox of Linux")
@pytest.mark.parametrize("demand", ["best_effort", "required"])
def test_a_machine_without_a_sandbox_says_what_scripts_can_do(tmp_path: Path, demand: str) -> None:
    settings = f"scripts: {{sandbox: {demand}}}"
    file = write(tmp_path / "config.yaml", settings)
    # No number of its calls is known, so neither sandbox of Linux works.
    words = ("setarch", "linux32", sys.executable, "-m", "skills_mcp", "status")

    done = subprocess.run(
        [*words, "--config", str(file), "--skills-dir", str(tmp_path / "skills")],
        check=False,
        capture_output=True,
        text=True,
    )

    if "setarch" in done.stderr:
        pytest.skip(f"not permitted here: {done.stderr}")
    [said] = [x for x in done.stdout.splitlines() if x.startswith("Scripts")]
    plain, refused = f"not confined, {UNCONFINED}: limits", "refused: "
    assert (refused if demand == "required" else plain) in said
    assert "no filter of system calls for i686" in said
    assert ("Install bubblewrap 0.8" in said) is (demand == "required")


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a sandbox of Linux")
def test_a_broken_bubblewrap_is_named_with_what_it_said(
    invoke: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = write(tmp_path / "bin/bwrap", "#!/bin/sh\necho no namespaces >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")

    said, told = what_holds_scripts(invoke, settings="scripts: {network: true}")

    assert told["sandbox"] != "bubblewrap"
    assert told["missing"][0] == "bubblewrap: no namespaces"
    assert told["network"]
    assert "(bubblewrap: no namespaces" in said


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize(
    "variables, expected",
    [
        ({}, "off"),
        ({"DO_NOT_TRACK": "1"}, "off (DO_NOT_TRACK)"),
        (
            {"ANALYTICS_ENDPOINT": "https://count.example/secret-path?key=1"},
            "on, sent to count.example; context hashed, identity hash",
        ),
    ],
)
def test_it_says_whether_and_where_events_go(
    invoke: Run, variables: dict[str, str], expected: str
) -> None:
    done = invoke("status", "--skills-dir", ".", **variables)

    assert done.stdout.splitlines()[-1] == f"Analytics   {expected}"


@pytest.mark.usefixtures("_elsewhere")
def test_it_says_that_events_stay_here(invoke: Run) -> None:
    config = write(Path("mine.yaml").absolute(), "analytics: {enabled: true}")

    done = invoke("status", "--skills-dir", ".", "--config", str(config))

    last = done.stdout.splitlines()[-1]
    assert last == "Analytics   on, kept on this machine; context hashed, identity hash"


def test_a_default_branch_that_stands_in_for_main_is_named(invoke: Run, tmp_path: Path) -> None:
    upstream = Upstream.create(tmp_path, branch="trunk")
    upstream.commit({"skills/a.md": skill_text(keywords=["a"])})

    synced = invoke("sync", SKILLS_REPO=upstream.url)
    shown = invoke("status", SKILLS_REPO=upstream.url)
    as_json = invoke("status", "--json", SKILLS_REPO=upstream.url)

    assert ", the default branch, as there is no main" in synced.stdout
    [said] = facts(shown.stdout)
    assert said["Source"] == f"{upstream.url} (trunk)"
    assert said["Branch"] == "trunk, the default branch, as there is no main"
    [source] = json.loads(as_json.stdout)["sources"]
    assert source["default_branch"] == "trunk"


@pytest.mark.parametrize("form", ["folder", "repository"])
def test_it_counts_the_packages_that_are_not_served(
    form: str, invoke: Run, upstream: Upstream
) -> None:
    upstream.commit(
        {f"{place}/SKILL.md": package_text() for place in ("skills/a", "eval/b", "eval/c")}
    )
    is_folder = form == "folder"
    place = ("--skills-dir", str(upstream.work)) if is_folder else ("--repo", upstream.url)
    invoke("sync", *place)

    done = invoke("status", *place)
    data = json.loads(invoke("status", "--json", *place).stdout)

    [said] = facts(done.stdout)
    assert said["Not served"] == f"2 packages: skills-mcp tree {' '.join(place)} --problems"
    assert data["sources"][0]["not_served"] == 2


def test_a_refused_commit_is_said_beside_the_one_that_is_served(
    invoke: Run, upstream: Upstream
) -> None:
    synced = upstream.commit({"skills/one.md": skill_text()})
    invoke("sync", "--repo", upstream.url)
    refused = upstream.commit({"skills/one.md": "no frontmatter"})
    tried = invoke("sync", "--repo", upstream.url)

    done = invoke("status", "--repo", upstream.url)
    data = json.loads(invoke("status", "--json", "--repo", upstream.url).stdout)

    said = f"serving {synced[:12]}, refused {refused[:12]}"
    assert done.returncode == 4
    assert said in facts(done.stdout)[0]["Synced"]
    assert said in tried.stdout
    assert data["sources"][0]["refused_commit"] == refused


def test_a_sync_that_fails_for_longer_than_an_interval_is_an_error(
    invoke: Run, upstream: Upstream, pointer: Callable[[Known], None]
) -> None:
    pointer({"fetched_at": time.time() - 10 * 60})
    invoke("sync", "--repo", upstream.url)
    often = write(upstream.work / "a.yaml", "refresh: {interval_minutes: 5}")
    seldom = write(upstream.work / "b.yaml", "refresh: {interval_minutes: 30}")

    codes = [
        invoke("status", "--config", str(file), "--repo", upstream.url).returncode
        for file in (often, seldom)
    ]

    assert codes == [4, 0]


def test_times_have_a_zone(
    invoke: Run, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    invoke("sync", "--repo", upstream.url)

    [said] = facts(invoke("status", "--repo", upstream.url).stdout)
    monkeypatch.undo()
    time.tzset()

    assert said["Failed"].endswith("+09:00")


def test_settings_of_the_content_count_as_in_a_server(invoke: Run, tmp_path: Path) -> None:
    write(tmp_path / "skills/one.md", skill_text())
    settings = (
        "{analytics: {endpoint: 'https://x.example', enabled: true}, scripts: {enabled: false}}"
    )
    write(tmp_path / "config.yaml", settings)

    done = invoke("status", "--skills-dir", str(tmp_path), "--json")

    told = json.loads(done.stdout)
    assert (told["analytics"]["enabled"], told["analytics"]["receiver"]) == (True, "x.example")
    assert told["scripts"]["enabled"] is False
