"""`skills-mcp doctor`: what is broken is found, and repaired by what it says."""

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import SyncPolicy
from skills_mcp.errors import SyncError
from tests.cli.conftest import Run
from tests.content.git_server import GitServer, Request, serving
from tests.support import SKILLS_CONTENT, Upstream, skill_text, write

Check = dict[str, Any]

CONTENT = ("--skills-dir", str(SKILLS_CONTENT))


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project to work in, and no agent that has an entry."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def server(upstream: Upstream) -> Iterator[GitServer]:
    """A host of a repository that wants a token."""
    upstream.commit({"skills/one.md": skill_text()})
    with serving(upstream.bare.parent, "right") as running:
        yield running


def repository(server: GitServer) -> str:
    return f"{server.url}/upstream.git"


def diagnose(invoke: Run, *arguments: str, **environment: str) -> list[Check]:
    """Return every check; whether all are well is the exit code."""
    done = invoke("doctor", "--json", *arguments, **environment)
    data = json.loads(done.stdout)

    assert list(data) == ["ok", "checks"]
    assert all(list(each) == ["name", "ok", "message", "fix"] for each in data["checks"])
    assert data["ok"] is all(each["ok"] for each in data["checks"])
    assert done.returncode == (0 if data["ok"] else 1)
    checks: list[Check] = data["checks"]
    return checks


def find(checks: list[Check], name: str) -> Check:
    """Return a check; if several have its name, one that failed."""
    named = [each for each in checks if each["name"] == name]
    return next((each for each in named if not each["ok"]), named[0])


def run_fix(invoke: Run, fix: str) -> None:
    """Run a command of the program, or of the shell."""
    first, *words = shlex.split(fix)
    if first == "skills-mcp":
        done = invoke(*words)
    else:
        done = subprocess.run(["sh", "-c", fix], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def write_entry(home: Path, *command: str) -> Path:
    """Give Cursor an entry with a command."""
    entry = {"command": command[0], "args": command[1:]}
    text = json.dumps({"mcpServers": {"skills": entry}})
    return write(home / ".cursor/mcp.json", text)


def test_a_machine_on_which_everything_works(invoke: Run, home: Path) -> None:
    invoke("install", "--client", "cursor", "--client", "codex", *CONTENT, "--yes")

    checks = diagnose(invoke)

    cursor = find(checks, "client cursor")
    assert [each["name"] for each in checks if not each["ok"]] in ([], ["sandbox"])
    assert {"versions", "cache", "disk", "git", "settings", "folder"} <= {
        each["name"] for each in checks
    }
    assert str(home / ".cursor/mcp.json") in cursor["message"]
    assert "the model sees 6 tools with " in cursor["message"]
    assert "(MCP 2025-11-25) and " in cursor["message"]
    assert "(MCP 2026-07-28)" in cursor["message"]
    assert find(checks, "client codex")["ok"]


def test_people_read_lines_and_the_repairs_below_them(invoke: Run) -> None:
    done = invoke("doctor", *CONTENT, SKILLS_MCP_LOGLEVEL="debug")

    assert done.returncode == 1
    assert f"ok      {'versions':29}skills-mcp " in done.stdout
    assert f"FAILED  {'variables':29}SKILLS_MCP_LOGLEVEL is not read." in done.stdout
    assert "Repair: export SKILLS_MCP_LOG_LEVEL=debug" in done.stdout
    assert "checks failed.\n" in done.stdout


def test_git_is_missing(invoke: Run, upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit({"skills/one.md": skill_text()})

    broken = diagnose(invoke, "--repo", upstream.url, PATH=str(tmp_path))
    repaired = diagnose(invoke, "--repo", upstream.url)

    assert not find(broken, "git")["ok"]
    assert "Git is not installed" in find(broken, "git")["message"]
    assert "git" in find(broken, "git")["fix"].lower()
    assert find(repaired, "git")["message"].startswith("git version 2.")
    assert find(repaired, "repository")["ok"]


def test_the_host_of_the_repository_does_not_answer(invoke: Run, server: GitServer) -> None:
    nowhere = "http://127.0.0.1:1/upstream.git"

    broken = diagnose(invoke, "--repo", nowhere)
    repaired = diagnose(invoke, "--repo", repository(server), GITHUB_TOKEN="right")  # noqa: S106

    assert not find(broken, "network")["ok"]
    assert "proxy" in find(broken, "network")["fix"]
    assert find(repaired, "network")["ok"]


def test_the_token_is_wrong(invoke: Run, server: GitServer) -> None:
    url = repository(server)

    broken = diagnose(invoke, "--repo", url, GITHUB_TOKEN="expired")  # noqa: S106
    repaired = diagnose(invoke, "--repo", url, GITHUB_TOKEN="right")  # noqa: S106

    token = find(broken, "token")
    assert find(broken, "network")["ok"]
    assert not token["ok"]
    assert "401" in token["message"]
    assert token["fix"].startswith("export GITHUB_TOKEN=")
    assert find(repaired, "token")["ok"]


def test_the_branch_does_not_exist(invoke: Run, upstream: Upstream) -> None:
    upstream.commit({"skills/one.md": skill_text()})
    to = ("--repo", upstream.url)

    broken = find(diagnose(invoke, *to, "--branch", "mian"), "repository")
    repaired = find(diagnose(invoke, *to, "--branch", "main"), "repository")

    assert not broken["ok"]
    assert "set SKILLS_BRANCH (`branch` in `sources`) to that" in broken["message"]
    assert "SKILLS_BRANCH=NAME, or correct this source in config.yaml" in broken["fix"]
    assert repaired["ok"]


def test_a_pinned_commit_is_looked_for_at_the_remote(invoke: Run, upstream: Upstream) -> None:
    commit = upstream.commit({"skills/one.md": skill_text()})
    to = ("--repo", upstream.url, "--ref", commit)

    there = find(diagnose(invoke, *to), "repository")
    upstream.bare.rename(upstream.bare.parent / "gone")
    gone = diagnose(invoke, *to)

    assert there["ok"]
    assert commit in there["message"]
    assert not find(gone, "repository")["ok"]


def test_the_clock_is_wrong(invoke: Run, server: GitServer) -> None:
    def serve_as_of_2019(request: Request) -> None:
        request.date_time_string = lambda timestamp=None: (  # type: ignore[method-assign]  # noqa: ARG005
            "Tue, 01 Jan 2019 00:00:00 GMT"
        )
        request.serve()

    to = ("--repo", repository(server))
    right = find(diagnose(invoke, *to, GITHUB_TOKEN="right"), "clock")  # noqa: S106

    server.fault = serve_as_of_2019
    wrong = find(diagnose(invoke, *to, GITHUB_TOKEN="right"), "clock")  # noqa: S106

    assert right["ok"]
    assert not wrong["ok"]
    assert "ahead of that of the remote" in wrong["message"]
    assert wrong["fix"]


def test_a_folder_is_missing(invoke: Run, tmp_path: Path) -> None:
    folder = str(tmp_path / "my skills")

    broken = find(diagnose(invoke, "--skills-dir", folder), "folder")
    run_fix(invoke, broken["fix"])
    repaired = find(diagnose(invoke, "--skills-dir", folder), "folder")

    assert not broken["ok"]
    assert repaired["ok"]


def test_the_cache_cannot_be_written(invoke: Run, home: Path) -> None:
    write(home / ".skills-mcp/cache", "in the way")

    broken = find(diagnose(invoke, *CONTENT), "cache")
    run_fix(invoke, broken["fix"])
    repaired = find(diagnose(invoke, *CONTENT), "cache")

    assert not broken["ok"]
    assert str(home / ".skills-mcp/cache") in broken["message"]
    assert repaired["ok"]


def test_nothing_was_synced_yet(invoke: Run, upstream: Upstream) -> None:
    upstream.commit({"skills/one.md": skill_text()})
    to = ("--repo", upstream.url, "--branch", "main")

    broken = find(diagnose(invoke, *to), "content")
    run_fix(invoke, broken["fix"])
    repaired = find(diagnose(invoke, *to), "content")

    assert not broken["ok"]
    assert broken["fix"] == f"skills-mcp sync --repo {upstream.url} --branch main"
    assert repaired["ok"]


def test_a_setting_is_mistyped(invoke: Run, home: Path) -> None:
    file = write(home / ".skills-mcp/config.yaml", "matching: {min_scroe: 0.3}")

    broken = find(diagnose(invoke, *CONTENT), "settings")
    write(file, "matching: {min_score: 0.3}")
    repaired = find(diagnose(invoke, *CONTENT), "settings")

    assert not broken["ok"]
    assert f"{file}:1: unknown key matching.min_scroe" in broken["message"]
    assert "did you mean min_score?" in broken["message"]
    assert repaired["ok"]


def test_a_variable_is_mistyped(invoke: Run) -> None:
    broken = find(diagnose(invoke, *CONTENT, SKILLS_MCP_LOGLEVEL="debug"), "variables")
    repaired = diagnose(invoke, *CONTENT, SKILLS_MCP_LOG_LEVEL="error")

    assert not broken["ok"]
    assert broken["fix"] == ("export SKILLS_MCP_LOG_LEVEL=debug; unset SKILLS_MCP_LOGLEVEL")
    assert "variables" not in {each["name"] for each in repaired}


def test_no_agent_has_an_entry(invoke: Run, home: Path) -> None:
    (home / ".cursor").mkdir()

    unconfigured = find(diagnose(invoke), "clients")
    broken = find(diagnose(invoke, *CONTENT), "clients")
    run_fix(invoke, f"{broken['fix']} --yes")
    repaired = diagnose(invoke, *CONTENT)

    assert unconfigured["fix"] == "skills-mcp install --repo URL"
    assert broken["fix"] == shlex.join(("skills-mcp", "install", *CONTENT))
    assert find(repaired, "client cursor")["ok"]


def test_a_host_that_gets_each_skill_twice_is_named(invoke: Run, project: Path, home: Path) -> None:
    invoke("install", "--client", "cursor", *CONTENT, "--yes")
    once = [each["name"] for each in diagnose(invoke)]
    invoke("export", *CONTENT, "--to", str(project / ".agents/skills"))

    twice = find(diagnose(invoke), "twice cursor")
    run_fix(invoke, twice["fix"].split(", or ")[0])
    repaired = [each["name"] for each in diagnose(invoke, *CONTENT)]

    assert str(project / ".agents/skills") in twice["message"]
    assert "twice cursor" not in once + repaired
    assert not (home / ".cursor/mcp.json").exists()


def test_the_file_of_a_host_is_broken(invoke: Run, home: Path) -> None:
    file = write(home / ".cursor/mcp.json", '{"mcpServers": {"skills": {')

    broken = find(diagnose(invoke, *CONTENT), "client cursor")
    write(file, "{}")
    repaired = diagnose(invoke, *CONTENT)

    assert not broken["ok"]
    assert str(file) in broken["fix"]
    assert "client cursor" not in {each["name"] for each in repaired}


def test_an_entry_names_a_program_that_is_gone(invoke: Run, home: Path) -> None:
    write_entry(home, "/gone/skills-mcp", *CONTENT)

    broken = find(diagnose(invoke), "client cursor")
    run_fix(invoke, broken["fix"])
    repaired = find(diagnose(invoke), "client cursor")

    assert not broken["ok"]
    assert "/gone/skills-mcp cannot be started: No such file" in broken["message"]
    assert broken["fix"] == (f"skills-mcp install --client cursor {shlex.join(CONTENT)} --yes")
    assert repaired["ok"]


def test_an_entry_has_no_source(invoke: Run, home: Path, upstream: Upstream) -> None:
    upstream.commit({"skills/one.md": skill_text()})
    write_entry(home, sys.executable, "-m", "skills_mcp")

    broken = find(diagnose(invoke, *CONTENT), "client cursor")
    run_fix(invoke, broken["fix"].replace("URL", upstream.url))
    repaired = find(diagnose(invoke, *CONTENT), "client cursor")

    assert not broken["ok"]
    assert "Set SKILLS_REPO" in broken["message"]
    assert repaired["ok"]


@pytest.mark.parametrize(
    "script, said",
    [
        ("echo oops >&2; exit 3", "it ended with status 3. Its log ends with: oops"),
        ("echo hello; sleep 600", "printed what is no message of MCP: hello"),
        (
            """echo '{"jsonrpc":"2.0","id":1,"error":{"code":-1}}'; cat >/dev/null""",
            "it refuses initialize: {'code': -1}",
        ),
    ],
)
def test_an_entry_starts_something_that_does_not_answer(
    invoke: Run, home: Path, script: str, said: str
) -> None:
    write_entry(home, "sh", "-c", script, "skills-mcp", *CONTENT)

    found = find(diagnose(invoke, *CONTENT), "client cursor")

    assert not found["ok"]
    assert said in found["message"]
    assert found["fix"].startswith("skills-mcp install --client cursor --skills-dir")


def test_an_entry_that_the_host_has_added_for_one_project_is_found(
    invoke: Run, home: Path, project: Path
) -> None:
    entry = {"command": "/gone/skills-mcp", "env": {"SKILLS_DIR": str(SKILLS_CONTENT)}}
    servers = {"mcpServers": {"skills": entry}}
    write(home / ".claude.json", json.dumps({"projects": {str(project): servers}}))

    found = find(diagnose(invoke), "client claude-code (local)")

    assert not found["ok"]
    assert found["fix"] == (
        "claude mcp remove skills --scope local; skills-mcp install --client "
        f"claude-code {shlex.join(CONTENT)} --yes"
    )


def test_the_server_of_a_plugin_is_found(invoke: Run, home: Path) -> None:
    cache = home / ".claude/plugins/cache/skills-mcp/skills"
    extension = home / ".gemini/extensions/skills"
    old = {"mcpServers": {"skills": {"command": "/gone/skills-mcp"}}}
    write(cache / "1/.mcp.json", json.dumps(old))
    os.utime(cache / "1/.mcp.json", (0, 0))
    for host, folder in (("claude-code", cache / "2"), ("gemini", extension)):
        invoke("install", "--plugin", host, "--to", str(folder), *CONTENT)

    checks = diagnose(invoke, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")

    assert find(checks, "client claude-code (plugin)")["ok"]
    assert find(checks, "client gemini (plugin)")["ok"]
    assert "clients" not in {each["name"] for each in checks}


def test_a_server_gets_what_its_host_passes_on(invoke: Run, home: Path, upstream: Upstream) -> None:
    upstream.commit({"skills/one.md": skill_text()})
    command = f"command = '{sys.executable}'\nargs = ['-m', 'skills_mcp']\n"
    table = f"[mcp_servers.skills]\n{command}"
    file = write(home / ".codex/config.toml", table)

    kept_back = find(diagnose(invoke, SKILLS_REPO=upstream.url), "client codex")
    write(file, f"{table}env_vars = ['SKILLS_REPO']\n")
    passed_on = find(diagnose(invoke, SKILLS_REPO=upstream.url), "client codex")

    assert not kept_back["ok"]
    assert passed_on["ok"]


def test_a_server_at_a_url_that_nothing_answers(invoke: Run, home: Path) -> None:
    entry = {"mcpServers": {"skills": {"url": "http://127.0.0.1:1/mcp"}}}
    write(home / ".cursor/mcp.json", json.dumps(entry))

    found = find(diagnose(invoke, *CONTENT), "client cursor")

    assert not found["ok"]
    assert "http://127.0.0.1:1/mcp cannot be reached" in found["message"]


def test_offline_no_remote_is_asked(invoke: Run) -> None:
    done = diagnose(invoke, "--repo", "http://127.0.0.1:1/a.git", "--offline")

    assert find(done, "network")["ok"]
    assert "was not asked" in find(done, "network")["message"]


def test_scripts_that_are_not_confined_are_said_to_be(
    invoke: Run, home: Path, tmp_path: Path
) -> None:
    file = write(home / ".skills-mcp/config.yaml", "scripts: {enabled: false}")
    off = find(diagnose(invoke, *CONTENT), "sandbox")
    write(file, "scripts: {sandbox: 'off'}")
    accepted = find(diagnose(invoke, *CONTENT), "sandbox")

    assert off["ok"]
    assert accepted["ok"]
    assert "not confined" in accepted["message"]
    assert os.access(tmp_path, os.W_OK)


@pytest.fixture
def silent_host() -> Iterator[socket.socket]:
    """A host that takes a connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def test_a_host_that_never_answers_is_named_while_it_is_waited_for(
    invoke: Run, tmp_path: Path, silent_host: socket.socket
) -> None:
    url = f"http://127.0.0.1:{silent_host.getsockname()[1]}/skills.git"
    config = write(tmp_path / "mine.yaml", "sync: {timeout_seconds: 1}")

    done = invoke("doctor", "--json", "--repo", url, "--config", str(config))

    network = find(json.loads(done.stdout)["checks"], "network")
    assert f"Asking {url}" in done.stderr
    assert "no answer within 1 seconds" in network["message"]


def test_the_check_of_a_host_ends_before_a_sync_would(
    tmp_path: Path, silent_host: socket.socket
) -> None:
    url = f"http://127.0.0.1:{silent_host.getsockname()[1]}/skills.git"
    branch = RemoteBranch(Remote(url, "main"), tmp_path, SyncPolicy(timeout_seconds=600))

    with pytest.raises(SyncError, match="no answer within 1 seconds"):
        branch.ask_remote(timeout_seconds=1)
