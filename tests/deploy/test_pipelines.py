"""The action of GitHub and the jobs of GitLab: the very steps, run in a repository."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.files import DEPLOY
from tests.deploy.forge_api import ForgeApi, served_forge
from tests.support import GIT_IDENTITY, PATIENCE_SECONDS, PROJECT, Upstream, git, write
from tests.support import skill_text as text

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the steps are those of bash")

ACTION: dict[str, Any] = yaml.safe_load((PROJECT / "action.yml").read_text("utf-8"))
JOBS: dict[str, Any] = yaml.safe_load(
    (DEPLOY / "gitlab" / "skills.gitlab-ci.yml").read_text("utf-8")
)
TOKEN = "one-of-a-job"  # noqa: S105 - opens nothing
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}", re.DOTALL)


@pytest.fixture(autouse=True)
def _program(shell_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", shell_path)


@pytest.fixture
def forge() -> Iterator[ForgeApi]:
    with served_forge() as served:
        yield served


@pytest.fixture
def change(upstream: Upstream) -> Upstream:
    """A branch that takes a task from one skill to another."""
    first = text(keywords=["login", "react"], examples=["add login"])
    upstream.commit({"skills/a.md": first})
    git("checkout", "-q", "-b", "change", cwd=upstream.work)
    upstream.commit({"skills/b.md": text(keywords=["login"])}, push=False)
    return upstream


@dataclass
class Run:
    """How the steps ended, by their names, and what they printed."""

    codes: dict[str, int]
    printed: str
    outputs: dict[str, str]
    summary: str


def run_bash(
    script: str, folder: Path, environment: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run a step as the runners do."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        check=False,
        cwd=folder,
        env=os.environ | GIT_IDENTITY | {**environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def fill_in(value: str, context: Mapping[str, str]) -> str:
    """Replace the expressions of a value."""
    return EXPRESSION.sub(lambda each: context[each[1]], value)


def run_action(change: Upstream, forge: ForgeApi, folder: Path, **inputs: str) -> Run:
    """Run all steps of the action, except that which installs Python."""
    folder.mkdir(exist_ok=True)
    given = {name: each["default"] for name, each in ACTION["inputs"].items()}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}
    context = {f"inputs.{name}": value for name, value in given.items()}
    context |= {
        "inputs.skills-dir || inputs.path": given["skills-dir"] or given["path"],
        "github.event.pull_request.base.sha": git("rev-parse", "main", cwd=change.work),
        "github.event.pull_request.number": "7",
        "github.action_path": str(PROJECT),
    }
    output, summary = folder / "output", folder / "summary"
    runner = {
        "RUNNER_TEMP": str(folder),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_API_URL": forge.url,
        "GITHUB_REPOSITORY": "acme/skills",
    }
    run = Run({}, "", {}, "")
    for step in ACTION["runs"]["steps"]:
        if "uses" in step:
            continue
        environment = {name: fill_in(value, context) for name, value in step["env"].items()}
        done = run_bash(step["run"], change.work, runner | environment)
        run.codes[step["name"]] = done.returncode
        run.printed += done.stdout
        lines = output.read_text("utf-8").splitlines() if output.exists() else []
        pairs = (line.split("=", 1) for line in lines)
        context |= {f"steps.test.outputs.{name}": value for name, value in pairs}
    run.summary = summary.read_text("utf-8") if summary.exists() else ""
    return run


def test_the_action_comments_which_tasks_change_their_skill(
    change: Upstream, forge: ForgeApi, tmp_path: Path
) -> None:
    run = run_action(change, forge, tmp_path / "runner", token=TOKEN)

    [comment] = forge.comments.values()
    assert run.codes == {
        "Install skills-mcp": 0,
        "Validate": 0,
        "Test the routing": 1,
        "Measure the effect": 0,
        "State the powers": 0,
        "Comment on the pull request": 0,
    }
    assert "\n### No power is added or removed\n" in comment
    assert comment.startswith("<!-- skills-mcp: routing -->\n### 1 task changes its")
    assert "| `add login` | `a` | `b` | **now wrong** |" in comment
    assert run.summary in comment
    assert forge.tokens == {f"Bearer {TOKEN}"}
    assert ("POST", "/repos/acme/skills/issues/7/comments") in forge.calls


def test_the_next_run_writes_the_same_comment_again(
    change: Upstream, forge: ForgeApi, tmp_path: Path
) -> None:
    forge.comments[1] = "Thank you."
    run_action(change, forge, tmp_path / "first")
    git("rm", "-q", "skills/b.md", cwd=change.work)

    run = run_action(change, forge, tmp_path / "second")

    assert run.codes["Test the routing"] == 0
    assert forge.comments[1] == "Thank you."
    assert "### Every task finds the same skills" in forge.comments[2]
    assert len(forge.comments) == 2


def test_the_action_comments_the_effect_of_skills(
    change: Upstream, forge: ForgeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = '{"type": "result", "result": "done", "num_turns": 1}'
    agent = write(tmp_path / "bin/claude", f"#!/bin/sh\necho right > a.txt\necho '{result}'\n")
    agent.chmod(0o755)
    monkeypatch.setenv("PATH", f"{agent.parent}:{os.environ['PATH']}")
    case = "- {prompt: x, checks: [{file: a.txt, contains: right}]}"
    write(change.work / "skills/a/evals/a.yaml", case)

    run = run_action(change, forge, tmp_path / "runner", effect_options="--agent claude")

    [comment] = forge.comments.values()
    assert "measure the agent, not the skill" in comment
    assert run.summary in comment


def test_a_change_that_moves_nothing_is_no_comment(
    change: Upstream, forge: ForgeApi, tmp_path: Path
) -> None:
    git("checkout", "-q", "main", cwd=change.work)

    run = run_action(change, forge, tmp_path / "runner")

    assert set(run.codes.values()) == {0}
    assert forge.comments == {}


def test_a_token_that_may_not_comment_fails_nothing(
    change: Upstream, forge: ForgeApi, tmp_path: Path
) -> None:
    forge.is_open = False

    run = run_action(change, forge, tmp_path / "runner")

    assert run.codes["Comment on the pull request"] == 0
    assert "::warning::The routing could not be written as a comment" in run.printed
    assert "add login" in run.summary


def test_the_action_annotates_findings_and_takes_options(
    change: Upstream, forge: ForgeApi, tmp_path: Path
) -> None:
    (change.work / "skills" / "c.md").write_text("no frontmatter\n")

    run = run_action(change, forge, tmp_path / "runner")
    due = text(keywords=["due"], review_by="2020-01-31")
    (change.work / "skills" / "due.md").write_text(due)
    options = {"validate_options": "--ignore no-frontmatter", "project": str(change.work)}
    ignored = run_action(change, forge, tmp_path / "more", stale="true", **options)

    assert "review-overdue" not in run.printed
    assert "::warning file=skills/due.md,line=5,title=review-overdue::" in ignored.printed
    assert run.codes["Validate"] == 1
    assert "::error file=skills/c.md,line=1,title=no-frontmatter::" in run.printed
    assert ignored.codes["Validate"] == 0


def test_the_base_is_fetched_into_a_shallow_clone(change: Upstream, tmp_path: Path) -> None:
    git("push", "-q", "origin", "change", cwd=change.work)
    address = change.bare.as_uri()
    git("clone", "-q", "--depth=1", "-b", "change", address, "c", cwd=tmp_path)
    base = git("rev-parse", "main", cwd=change.work)
    step = next(s for s in ACTION["runs"]["steps"] if s.get("id") == "test")
    runner = {
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": os.devnull,
        "GITHUB_STEP_SUMMARY": os.devnull,
    }
    given = {"SKILLS": ".", "PROMPTS": "", "OPTIONS": "", "BASE": base}

    done = run_bash(step["run"], tmp_path / "c", runner | given)

    assert "### 1 task changes its skill" in done.stdout


def run_job(name: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a job of GitLab: what is before, and its script."""
    job = {**JOBS[JOBS[name]["extends"]], **JOBS[name]}
    given = {k: str(v) for k, v in JOBS["variables"].items()} | variables
    script = "\n".join([*job["before_script"], *job["script"]])
    return run_bash(script, folder, given)


def test_the_job_of_gitlab_writes_a_report_of_its_findings(change: Upstream) -> None:
    good = run_job("skills-validate", change.work)
    (change.work / "skills" / "c.md").write_text("no frontmatter\n")
    bad = run_job("skills-validate", change.work)

    report = JOBS["skills-validate"]["artifacts"]["reports"]["junit"]
    assert good.returncode == 0
    assert bad.returncode == 1
    assert "no-frontmatter (line 1)" in (change.work / report).read_text("utf-8")
    assert "skills/c.md:1: error[no-frontmatter]" in bad.stdout


def test_the_job_of_gitlab_notes_which_tasks_change_their_skill(
    change: Upstream, forge: ForgeApi
) -> None:
    request = {
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": git("rev-parse", "main", cwd=change.work),
        "CI_MERGE_REQUEST_IID": "7",
        "CI_PROJECT_ID": "3",
        "CI_API_V4_URL": forge.url,
        "SKILLS_NOTE_TOKEN": TOKEN,
    }

    for _ in range(2):
        done = run_job("skills-routing", change.work, **request)

    [note] = forge.comments.values()
    assert done.returncode == 1
    assert "| `add login` | `a` | `b` | **now wrong** |" in note
    assert forge.tokens == {TOKEN}
    assert ("PUT", "/projects/3/merge_requests/7/notes/1") in forge.calls


def test_the_job_of_gitlab_needs_no_request_and_no_token(change: Upstream) -> None:
    done = run_job("skills-routing", change.work)

    assert done.returncode == 1
    assert "### 1 task finds a wrong skill" in done.stdout


def test_a_job_without_the_program_says_what_to_install(tmp_path: Path) -> None:
    for name in ("bash", "env"):
        (tmp_path / name).symlink_to(f"/bin/{name}")

    done = run_job("skills-validate", tmp_path, PATH=str(tmp_path))

    assert done.returncode != 0
    assert "SKILLS_MCP_PACKAGE: set it to what pip installs" in done.stdout


@pytest.mark.parametrize(
    "file, schema",
    [
        ("action.yml", "vendor.github-actions"),
        ("deploy/gitlab/skills.gitlab-ci.yml", "vendor.gitlab-ci"),
    ],
)
def test_the_files_are_what_the_forges_read(file: str, schema: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]

    done = subprocess.run(
        [*command, str(PROJECT / file)],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert done.returncode == 0, done.stdout
