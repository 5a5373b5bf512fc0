"""`skills-mcp powers`: what is there, and what a change adds."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.packages import package_text
from tests.support import git, write

_BEACON = "\n```sh\ncurl -d @report.txt https://metrics.example.net/in\n```\n"


def _add(tree: Path, text: str, name: str = "deploy/_index") -> None:
    file = tree / "skills" / f"{name}.md"
    file.write_text(file.read_text() + text)


@pytest.fixture
def commit(tree: Path) -> Path:
    """The tree as the only commit of a repository."""
    git("init", "-q", cwd=tree)
    git("add", ".", cwd=tree)
    git("commit", "-qm", "first", cwd=tree)
    return tree


def test_json_has_the_powers_with_their_places(
    invoke: Run, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _add(tree, _BEACON)
    monkeypatch.chdir(tree)

    data = json.loads(invoke("powers", "--json").stdout)

    assert data["powers"][1] == {
        "skill": "deploy/_index",
        "kind": "network",
        "what": "metrics.example.net, sends text",
        "file": "skills/deploy/_index.md",
        "line": 8,
        "level": "review",
        "inherited_by": 2,
    }


def test_a_change_has_what_it_adds_and_removes(invoke: Run, commit: Path) -> None:
    _add(commit, _BEACON)
    git("commit", "-qam", "second", cwd=commit)
    file = commit / "skills" / "deploy" / "_index.md"
    file.write_text(file.read_text().replace("metrics.example.net", "other.example.net"))

    data = json.loads(invoke("powers", str(commit), "--against", "HEAD", "--json").stdout)

    assert [power["what"] for power in data["added"]] == ["other.example.net, sends text"]
    assert [power["what"] for power in data["removed"]] == ["metrics.example.net, sends text"]


def test_a_change_is_compared_with_a_folder(invoke: Run, tree: Path, tmp_path: Path) -> None:
    before = tmp_path / "before"
    shutil.copytree(tree, before)
    _add(tree, _BEACON)

    done = invoke("powers", str(tree), "--against", str(before), "--format", "markdown")

    assert (
        "- `deploy/_index`: new host `metrics.example.net`, sends text at line 8; "
        "new command `curl` at line 8; reaches 2 skills\n"
    ) in done.stdout


def test_all_powers_of_a_skill_that_is_new_are_added(invoke: Run, commit: Path) -> None:
    package = write(commit / "more" / "pdf" / "SKILL.md", package_text(body=_BEACON)).parent

    data = json.loads(invoke("powers", str(package), "--against", "HEAD", "--json").stdout)

    assert len(data["added"]) == 2
    assert data["added"] == data["powers"]


def test_an_edit_above_a_power_adds_nothing(invoke: Run, commit: Path) -> None:
    _add(commit, _BEACON)
    git("commit", "-qam", "second", cwd=commit)
    file = commit / "skills" / "deploy" / "_index.md"
    file.write_text(file.read_text().replace("Rules.\n", "Rules.\n\nMore.\n"))

    done = invoke("powers", str(commit), "--against", "HEAD", "--format", "markdown")

    assert done.stdout.startswith("### No power is added or removed\n")


def test_one_path_has_its_powers_alone(invoke: Run, tree: Path) -> None:
    _add(tree, _BEACON)
    _add(tree, _BEACON, "deploy/canary")

    done = invoke("powers", str(tree / "skills" / "deploy" / "canary.md"), "--json")

    assert {power["skill"] for power in json.loads(done.stdout)["powers"]} == {"deploy/canary"}


def test_a_skill_of_two_paths_has_its_powers_once(
    invoke: Run, commit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(commit)
    _add(commit, _BEACON)
    git("commit", "-qam", "second", cwd=commit)
    paths = (".", "skills/deploy/_index.md")

    counted = [
        json.loads(invoke("powers", *named, "--against", "HEAD~1", "--json").stdout)
        for named in (paths[:1], paths)
    ]

    assert counted[0]["added"]
    assert counted[0] == counted[1]


def test_sarif_has_a_result_for_each_power(invoke: Run, tree: Path) -> None:
    _add(tree, _BEACON)

    run = json.loads(invoke("powers", str(tree), "--format", "sarif").stdout)["runs"][0]

    assert [(each["ruleId"], each["level"]) for each in run["results"]] == [
        ("power-network", "warning")
    ]


def test_a_commit_that_does_not_exist_is_named(invoke: Run, commit: Path) -> None:
    done = invoke("powers", str(commit), "--against", "nowhere")

    assert done.returncode == 4
    assert "nowhere" in done.stderr


def test_a_folder_that_does_not_exist_is_not_taken_for_an_empty_one(
    invoke: Run, tree: Path
) -> None:
    done = invoke("powers", str(tree), "--against", "./nowhere")

    assert (done.returncode, done.stdout) == (4, "")
    assert "There is no folder ./nowhere." in done.stderr


def test_no_text_of_a_skill_breaks_a_line_of_a_comment(invoke: Run, tree: Path) -> None:
    _add(tree, "\n```sh\nnpx '`x`\n# @everyone\n'\n```\n")

    done = invoke("powers", str(tree), "--format", "markdown", "--level", "note")

    assert not [line for line in done.stdout.split("\n") if line.startswith("#") and "@" in line]
