"""`skills-mcp doctor --brief`: what a tool that manages many machines asks."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skills_mcp.about import __version__
from skills_mcp.events.publisher import SharedBackoff, classify_response
from skills_mcp.events.spool import Outbox
from tests.cli.conftest import Run
from tests.support import PROJECT, SKILLS_CONTENT, Upstream, skill_text, write


def test_a_machine_that_is_well_says_so_in_a_line(invoke: Run, upstream: Upstream) -> None:
    commit = upstream.commit({"skills/one.md": skill_text()})
    where = ("--repo", upstream.url)
    invoke("sync", *where)

    done = invoke("doctor", "--brief", *where, "--program-version", __version__)
    data = json.loads(invoke("doctor", "--brief", *where, "--json").stdout)

    assert done.returncode == 0
    assert done.stdout.startswith(f"ok: skills-mcp {__version__} serves {commit[:7]} of")
    assert done.stdout.count("\n") == 1
    assert (data["ok"], data["version"]) == (True, __version__)
    assert data["sources"][0]["commit"] == commit
    assert {"version", "cache", "disk", "content"} <= {each["name"] for each in data["checks"]}


def test_no_remote_is_asked(invoke: Run, upstream: Upstream) -> None:
    upstream.commit({"skills/one.md": skill_text()})
    invoke("sync", "--repo", upstream.url)
    shutil.rmtree(upstream.bare)

    done = invoke("doctor", "--brief", "--repo", upstream.url)

    assert done.returncode == 0


def test_each_thing_to_repair_is_a_line(invoke: Run, upstream: Upstream) -> None:
    wanted = ("--repo", upstream.url, "--program-version", "9.9")

    done = invoke("doctor", "--brief", *wanted, SKILLS_MCP_LOGLEVEL="x")

    assert done.returncode == 1
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "FAILED version",
        "FAILED variables",
        "FAILED content",
    ]
    assert "Repair: Install skills-mcp 9.9" in done.stdout


@pytest.mark.parametrize("hours, code", [("1", 0), ("0", 1)])
def test_the_age_that_is_asked_for_decides(
    invoke: Run, upstream: Upstream, hours: str, code: int
) -> None:
    upstream.commit({"skills/one.md": skill_text()})
    invoke("sync", "--repo", upstream.url)

    done = invoke("doctor", "--brief", "--repo", upstream.url, "--max-age", hours)

    assert done.returncode == code, done.stdout


def test_a_refused_commit_fails_however_new_the_content_is(
    invoke: Run, upstream: Upstream, tmp_path: Path
) -> None:
    first = upstream.commit({"skills/one.md": skill_text()})
    upstream.commit({"skills/two.md": skill_text()})
    rules = "sync: {allow_non_fast_forward: false}"
    config = write(tmp_path / "config.yaml", rules)
    where = ("--repo", upstream.url, "--config", str(config))
    invoke("sync", *where)
    upstream.reset(first)
    invoke("sync", *where)

    done = invoke("doctor", "--brief", *where, "--max-age", "24", "--json")

    [source] = json.loads(done.stdout)["sources"]
    assert done.returncode == 1
    assert source["refused_commit"] == first


def test_settings_that_cannot_be_used_and_a_missing_folder_are_named(
    invoke: Run, tmp_path: Path
) -> None:
    config = write(tmp_path / "config.yaml", "nonsense: true")
    broken = invoke("doctor", "--brief", "--config", str(config))
    missing = invoke("doctor", "--brief", "--skills-dir", str(tmp_path / "gone"))
    folder = invoke("doctor", "--brief", "--skills-dir", str(SKILLS_CONTENT))

    assert "FAILED settings: " in broken.stdout
    assert "FAILED folder: " in missing.stdout
    assert (broken.returncode, missing.returncode, folder.returncode) == (1, 1, 0)


def test_the_settings_of_the_page_can_be_used(invoke: Run, tmp_path: Path) -> None:
    page = (PROJECT / "docs/how-to/fleet.md").read_text(encoding="utf-8")
    settings = page.split("```yaml\n")[1].split("```")[0]
    signers = write(tmp_path / "allowed_signers", "")
    settings = settings.replace("/etc/skills-mcp/allowed_signers", str(signers))
    config = write(tmp_path / "config.yaml", settings)

    done = invoke("doctor", "--brief", "--config", str(config), "--json")

    data = json.loads(done.stdout)
    assert data["sources"][0]["name"] == "https://github.com/acme/skills.git (stable)"
    assert [each["name"] for each in data["checks"] if not each["ok"]] == ["content"]


@pytest.mark.parametrize("option", [("--max-age", "24"), ("--program-version", "9.9")])
def test_what_only_a_brief_check_compares_needs_one(invoke: Run, option: tuple[str, str]) -> None:
    done = invoke("doctor", *option)

    assert done.returncode == 2
    assert "--max-age and --program-version need --brief." in done.stderr


def test_doctor_and_status_say_that_the_receiver_takes_no_events(
    invoke: Run, tmp_path: Path
) -> None:
    where = "--skills-dir", str(SKILLS_CONTENT)
    endpoint = "https://skills.example.com/v1/events"
    variables = {"SKILLS_MCP_HOME": str(tmp_path), "ANALYTICS_ENDPOINT": endpoint}
    backoff = SharedBackoff(Outbox(tmp_path).spool.directory)
    seen = []
    for status in (503, 404):
        backoff.record(endpoint, classify_response(status, None, datetime.now(UTC)))
        done = invoke("doctor", "--brief", *where, "--json", **variables)
        checks = {each["name"]: each["ok"] for each in json.loads(done.stdout)["checks"]}
        seen.append(checks["events"])
    shown = invoke("status", *where, **variables)
    data = json.loads(invoke("status", *where, "--json", **variables).stdout)

    assert seen == [True, False]
    assert "Not sent    404 Not Found" in shown.stdout
    assert "its address and /events" in shown.stdout
    assert data["analytics"]["failure"]["failures"] == 2
