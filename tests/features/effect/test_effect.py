"""The whole path with a scripted agent: verdicts, arms, results and exit codes."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from skills_mcp.features.effect.evidence import read_results
from tests.cli.conftest import Run
from tests.features.effect.conftest import (
    Effect,
    expect,
    program,
    write_case,
)
from tests.support import git, write, write_skill


def verdicts(report: Any) -> dict[str, str]:
    return {skill["path"]: skill["verdict"] for skill in report["skills"]}


def test_each_skill_is_named_for_what_it_does(skills: Path, effect: Effect) -> None:
    report = effect()

    assert verdicts(report) == {
        "helps": "helps",
        "nothing": "no_effect",
        "harms": "harms",
        "rules/inherits": "no_effect",
        "fluent": "does_not_discriminate",
    }
    by_path = {skill["path"]: skill for skill in report["skills"]}
    assert by_path["rules/inherits"]["lift"]["low"] > 0
    assert by_path["rules/inherits"]["adds"]["estimate"] == 0
    treated = by_path["helps"]["arms"]["with"]
    assert {**treated, "seconds": 0} == {
        "runs": 6,
        "passed": 6,
        "pass_rate": 1.0,
        "cost": 0.01,
        "seconds": 0,
        "tokens": 100.0,
        "turns": 2.0,
    }
    assert report["exit_code"] == 1
    # Skills with equal cases share the runs without a skill.
    assert len(read_results(skills)) == report["new_runs"] == 51

    again = effect()

    assert again["new_runs"] == 0
    assert again["skills"] == report["skills"]


def test_a_change_is_compared_with_the_commit_before(tmp_path: Path, effect: Effect) -> None:
    folder = tmp_path / "skills"
    write_skill(folder, "a.md", body="WRITE a.txt right")
    write_case(folder, "a", expect("a.txt", "right"), expect("a.txt", "right", "Again"))
    git("init", "-q", cwd=folder)
    git("add", ".", cwd=folder)
    git("commit", "-qm", "one", cwd=folder)
    first = effect("a")
    write_skill(folder, "a.md", body="WRITE a.txt wrong")

    report = effect("a", "--baseline", "HEAD")

    (skill,) = report["skills"]
    assert skill["change"]["high"] < 0
    assert skill["arms"]["before"]["passed"] == 6
    assert report["new_runs"] == 6  # without it, and the text before, are known
    assert (first["exit_code"], report["exit_code"]) == (0, 1)
    assert first["skills"][0]["digest"] != skill["digest"]


@pytest.mark.usefixtures("skills")
def test_a_skill_reaches_the_agent_in_the_prompt(effect: Effect) -> None:
    report = effect("helps", "--via", "prompt", "--repetitions", "1")

    assert verdicts(report) == {"helps": "helps"}


def test_nothing_is_spent_before_the_estimate(skills: Path, invoke: Run, agent: str) -> None:
    words = ("--command", agent, "--dry-run", "--skills-dir", str(skills))

    done = invoke("effect", "helps", *words)

    assert "12 runs: about 1,800,000 tokens (assumed" in done.stderr
    assert not (skills / "evals").exists()


@pytest.mark.usefixtures("skills")
def test_a_budget_ends_the_runs_and_the_next_call_goes_on(effect: Effect) -> None:
    part = effect("helps", "--budget", "0.05", "--jobs", "1")
    rest = effect("helps", "--budget", "700 tokens", "--jobs", "1")

    assert (part["new_runs"], part["stopped"]) == (5, "the budget is spent")
    assert (rest["new_runs"], rest["stopped"]) == (7, None)


def test_an_agent_that_says_no_cost_has_no_budget(tmp_path: Path, effect: Effect) -> None:
    write_skill(tmp_path / "skills", "a.md")
    write_case(tmp_path / "skills", "a", expect("a.txt", "right"))

    report = effect("--budget", "1", "--jobs", "1", command=program(tmp_path, "print('done')"))

    assert "does not say its cost" in report["stopped"]


def test_an_agent_that_does_not_work_is_named_and_not_counted(
    tmp_path: Path, effect: Effect
) -> None:
    write_skill(tmp_path / "skills", "a.md")
    write_case(tmp_path / "skills", "a", expect("a.txt", "right"))
    broken = program(tmp_path, "import sys; sys.exit('no key')")

    report = effect("--jobs", "1", command=broken)

    assert report["exit_code"] == 1
    assert "no key" in report["stopped"]
    assert len(report["faults"]) == 3
    assert read_results(tmp_path / "skills") == ()


def test_every_check_decides(tmp_path: Path, effect: Effect) -> None:
    checks = {
        "right": [
            {"command": "grep -q right a.txt"},
            {"file": "a.txt", "matches": "^r.ght$"},
            {"file": "b.txt", "exists": False},
            {"json": "c.json", "at": "$.n[1]", "equals": 2},
            {"changes_only": ["a.*", "c.json"]},
            {"output": {"lacks": "error"}},
        ],
        "wrong": [
            {"command": "false"},
            {"file": "a.txt", "lacks": "right"},
            {"file": "a.txt", "exists": False},
            {"json": "c.json", "at": "$.n[5]", "equals": 2},
            {"changes_only": ["c.json"]},
            {"output": "contains error"},
        ],
    }
    folder = tmp_path / "skills"
    write_skill(folder, "a.md", body='WRITE a.txt right\nWRITE c.json {"n": [1, 2]}')
    write_case(folder, "a", *({"id": k, "prompt": k, "checks": c} for k, c in checks.items()))

    effect("--repetitions", "1", "--arms", "with")

    results = {result.case: result.checks for result in read_results(folder)}
    assert results == {"right": [True] * 6, "wrong": [False] * 6}


def test_a_setup_runs_before_the_agent_and_is_no_change_of_its_own(
    tmp_path: Path, effect: Effect
) -> None:
    case = expect("made.txt", "yes", setup="git init -q . && echo yes > made.txt")
    case["checks"].append({"changes_only": ["none"]})
    write_skill(tmp_path / "skills", "a.md")
    write_case(tmp_path / "skills", "a", case)

    report = effect("--repetitions", "1")

    assert report["skills"][0]["arms"]["with"]["passed"] == 1


JUDGE = """
import json, sys
asked = json.load(sys.stdin)
assert sorted(asked) == ["assertions", "files", "output", "prompt"], asked
right = "right" in asked["files"].get("a.txt", "")
print(json.dumps({"passed": [right], "reasons": ["read it"]}))
"""


def test_a_judge_decides_assertions_without_knowing_the_arm(tmp_path: Path, effect: Effect) -> None:
    folder = tmp_path / "skills"
    write_skill(folder, "a.md", body="WRITE a.txt right")
    write_case(folder, "a", expect("a.txt", "right", assertions=["It is right"]))
    judge = program(tmp_path, JUDGE, "judge.py").removesuffix(" {prompt}")

    report = effect("--repetitions", "1", "--judge", judge)

    (skill,) = report["skills"]
    assert [skill["arms"][arm]["passed"] for arm in ("with", "without")] == [1, 0]
    assert skill["agreement"] == 1.0
    assert {"read it"} <= {r for result in read_results(folder) for r in result.reasons}


@pytest.mark.parametrize(
    "answer, fault",
    [
        ({"passed": [True], "reasons": None}, ""),
        ({"passed": ["false"]}, "each with true or false"),
        ({"passed": [True], "reasons": 5}, "has to print"),
    ],
)
def test_a_judge_says_true_or_false(
    answer: dict[str, Any], fault: str, tmp_path: Path, effect: Effect
) -> None:
    write_skill(tmp_path / "skills", "a.md", body="WRITE a.txt right")
    write_case(tmp_path / "skills", "a", expect("a.txt", "right", assertions=["It is right"]))
    said = f"import sys\nsys.stdin.read()\nprint({json.dumps(answer)!r})\n"
    judge = program(tmp_path, said, "judge.py").removesuffix(" {prompt}")

    report = effect("--repetitions", "1", "--arms", "with", "--judge", judge)

    assert report["new_runs"] == (0 if fault else 1)
    assert all(fault in each["reason"] for each in report["faults"])


def test_the_agent_gets_named_credentials_and_no_others(
    tmp_path: Path, effect: Effect, home: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("NAMED_KEY", "secret-one")
    monkeypatch.setenv("OTHER_KEY", "secret-two")
    write(home / ".agent/auth.json", "{}")
    write(home / ".agent/other.json", "{}")
    look = """
import json, os, pathlib
found = [str(p.relative_to(pathlib.Path.home())) for p in pathlib.Path.home().rglob("*.json")]
keys = [k for k in ("NAMED_KEY", "OTHER_KEY") if k in os.environ]
pathlib.Path("found.json").write_text(json.dumps([keys, found]))
"""
    write_skill(tmp_path / "skills", "a.md")
    found = [["NAMED_KEY"], [".agent/auth.json"]]
    check = {"json": "found.json", "at": "$", "equals": found}
    write_case(tmp_path / "skills", "a", {"prompt": "look", "checks": [check]})
    named = ("--credential", "NAMED_KEY", "--credential", str(home / ".agent/auth.json"))

    report = effect(*named, "--repetitions", "1", "--arms", "with", command=program(tmp_path, look))

    assert report["skills"][0]["arms"]["with"]["passed"] == 1


def test_a_case_that_no_one_can_judge_is_named(skills: Path, effect: Effect) -> None:
    write_case(skills, "nothing", {"prompt": "x", "assertions": ["It is good"]})

    report = effect("--repetitions", "1", "--arms", "with")

    assert "nothing/evals/cases.yaml, entry 1: needs --judge" in report["stderr"]


def test_the_reports_say_the_same_in_every_format(
    skills: Path, effect: Effect, invoke: Run, tmp_path: Path, agent: str
) -> None:
    effect("helps", "fluent")
    words = ("effect", "helps", "fluent", "--command", agent, "--skills-dir", str(skills))
    page = tmp_path / "page.html"

    text = invoke(*words, "--fail-under", "0.5", "--page", str(page))
    markdown = invoke(*words, "--format", "markdown")
    junit = invoke(*words, "--format", "junit", "--fail-under", "0.5")

    assert "helps: helps: +100 points" in text.stdout
    assert "measure the agent, not the skill" in text.stdout
    assert "Failed: fluent: the lift is 0.00, below 0.5" in text.stdout
    assert text.returncode == 1
    assert "| helps | without | 6 | 0 (0%) |" in markdown.stdout
    suite = ET.fromstring(junit.stdout)  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    html = page.read_text("utf-8")
    assert html.count("total_cost_usd") == 24
    assert "<script" not in html


def test_a_skill_of_which_no_run_has_worked_fails_in_every_format(
    skills: Path, invoke: Run, tmp_path: Path
) -> None:
    broken = program(tmp_path, "raise SystemExit(3)", "broken.py")
    words = ("effect", "helps", "--command", broken, "--skills-dir", str(skills))

    text = invoke(*words)
    junit = invoke(*words, "--format", "junit")

    assert (text.returncode, junit.returncode) == (1, 1)
    assert "Failed: helps: no run has worked: " in text.stdout
    suite = ET.fromstring(junit.stdout)  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")


def test_wrong_words_say_what_to_write(skills: Path, invoke: Run) -> None:
    given = ("effect", "--skills-dir", str(skills))
    wrong = {
        (): "Name an agent",
        ("--command", "my-agent"): "needs {prompt}",
        ("--command", "my-agent '{prompt}"): "No closing quotation",
        ("--command", "a {prompt}", "--budget", "much"): "write money",
        ("--command", "a {prompt}", "--arms", "with,worse"): "'worse' is none of",
        ("--command", "a {prompt}", "--arms", "before"): "needs --baseline",
        ("--command", "a {prompt}", "--via", "mcp"): "needs --agent",
        ("--command", "a {prompt}", "--credential", "NO_SUCH"): "no variable that is set",
        ("helpz", "--command", "a {prompt}"): "helps",
        ("helps", "--command", "no-such-agent {prompt}"): "not installed",
    }

    answers = {words: invoke(*given, *words) for words in wrong}

    assert [w for w, text in wrong.items() if text not in answers[w].stderr] == []
    assert {done.returncode for done in answers.values()} <= {1, 2}


def test_results_of_two_branches_merge_by_lines(skills: Path, effect: Effect) -> None:
    effect("helps", "--repetitions", "1")
    file = skills / "evals/results.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join(["<<<<<<< HEAD", *lines, "=======", *lines, ">>>>>>> other"]))

    report = effect("helps", "--repetitions", "1")

    assert report["new_runs"] == 0
    assert report["skills"][0]["arms"]["with"]["runs"] == 2


def test_a_new_line_begins_on_its_own(skills: Path, effect: Effect) -> None:
    effect("helps", "--repetitions", "1", "--arms", "with")
    file = skills / "evals/results.jsonl"
    file.write_text(file.read_text().rstrip())

    effect("helps", "--repetitions", "1", "--arms", "without")

    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 4


def test_cases_do_not_reach_the_agent(tmp_path: Path, effect: Effect) -> None:
    folder = tmp_path / "skills"
    write(folder / "pdf/SKILL.md", "---\nname: pdf\ndescription: PDF files\n---\nBe kind.")
    write(folder / "pdf/forms.txt", "x")
    write_case(folder, "pdf", expect("found.txt", "SKILL.md forms.txt"))
    look = """
import pathlib
found = sorted(p.name for p in pathlib.Path(".agents").rglob("*") if p.is_file())
pathlib.Path("found.txt").write_text(" ".join(found))
"""

    report = effect("--repetitions", "1", "--arms", "with", command=program(tmp_path, look))

    assert report["skills"][0]["arms"]["with"]["passed"] == 1
