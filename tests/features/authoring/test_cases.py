"""Evaluation cases: every format that exists, and a name for all that is not understood."""

import json
from pathlib import Path

import pytest

from skills_mcp.features.authoring.cases import (
    Case,
    CaseFinding,
    Check,
    find_in_json,
    load_cases,
    parse_check,
)
from skills_mcp.features.authoring.validation import validate_paths
from tests.cli.conftest import Run
from tests.packages import write_package
from tests.support import write, write_skill


def load_all(folder: Path) -> tuple[list[Case], list[str]]:
    found = [*load_cases(folder, "")]
    cases = [each for each in found if isinstance(each, Case)]
    return cases, [str(each) for each in found if isinstance(each, CaseFinding)]


def test_a_file_of_skill_creator_needs_no_change(tmp_path: Path) -> None:
    entry = {
        "id": 1,
        "prompt": "Fill in the form",
        "expected_output": "A filled form",
        "files": ["evals/files/form.txt"],
        "expectations": ["The name is filled in"],
    }
    evals = json.dumps({"skill_name": "pdf", "evals": [entry]})
    write_package(tmp_path, "pdf", {"evals/evals.json": evals, "evals/files/form.txt": "Name:"})

    (case,), findings = load_all(tmp_path / "pdf")

    assert findings == []
    assert (case.id, case.prompt, case.skill) == ("1", "Fill in the form", "")
    assert case.assertions == ("The name is filled in",)
    assert case.files == {"form.txt": b"Name:"}


def test_an_expected_output_is_an_assertion_where_there_is_no_other(tmp_path: Path) -> None:
    write(tmp_path / "evals/a.yaml", "- prompt: Greet\n  expected_output: A greeting\n")

    (case,), _ = load_all(tmp_path)

    assert case.assertions == ("A greeting",)


def test_cases_in_yaml_have_checks_files_setup_and_a_timeout(tmp_path: Path) -> None:
    text = """
skill: ui/auth
evals:
  - id: login
    prompt: Add a login
    files: {app/main.py: "print(1)"}
    setup: git init
    timeout: 60
    checks:
      - {command: "pytest -q"}
      - {file: app/main.py, contains: login}
      - {file: old.py, exists: false}
      - {json: package.json, at: "$.scripts[0].test", equals: 1}
      - {changes_only: ["app/*"]}
      - {output: {matches: "do.e"}}
      - {output: contains done}
"""
    write(tmp_path / "evals/login.yaml", text)

    (case,), findings = load_all(tmp_path)

    assert findings == []
    assert case.skill == "ui/auth"
    assert case.files == {"app/main.py": b"print(1)"}
    assert (case.setup, case.timeout_seconds) == (("git init",), 60)
    assert case.checks == (
        Check("command", "pytest -q"),
        Check("file", "app/main.py", "contains", "login"),
        Check("file", "old.py", "exists", value=False),
        Check("json", "package.json", "$.scripts[0].test", 1),
        Check("changes_only", "", value=["app/*"]),
        Check("output", "", "matches", "do.e"),
        Check("output", "", "contains", "done"),
    )


def test_what_is_not_understood_is_named_and_the_rest_counts(tmp_path: Path) -> None:
    wrong = {
        "prompt: x\n  checks: [{files: a}]": "must have one verb",
        "prompt: x\n  checks: [{file: a}]": "is not understood",
        "prompt: x\n  checks: [{file: a, matches: '('}]": "no regular expression",
        "prompt: x\n  checks: [{json: a, at: '$..b', equals: 1}]": "more than names",
        "prompt: x\n  files: [../../etc/passwd]\n  checks: [{command: 'true'}]": "no path",
        "prompt: x\n  files: [gone.txt]\n  checks: [{command: 'true'}]": "does not exist",
        "prompt: x\n  timeout: soon\n  checks: [{command: 'true'}]": "must be seconds",
        "prompt: x": "says nowhere what a good result is",
        "checks: [{command: 'true'}]": "has no prompt",
        "[1]": "is not a mapping",
    }
    right = "prompt: y\n  retries: 3\n  checks: [{command: 'true'}]"
    write(tmp_path / "evals/a.yaml", "\n".join(f"- {entry}" for entry in (*wrong, right)))
    write(tmp_path / "evals/b.yaml", "runs: 3")

    cases, findings = load_all(tmp_path)

    assert [case.prompt for case in cases] == ["y"]
    expected = [*wrong.values(), "'retries' is unknown", "no list of tasks"]
    assert len(findings) == len(expected)
    missing = [e for e, f in zip(expected, findings, strict=True) if e not in f]
    assert missing == []


def test_an_entry_about_routing_alone_is_no_case(tmp_path: Path) -> None:
    write(tmp_path / "evals/a.yaml", "- {query: bake a cake, should_trigger: false}")

    assert load_all(tmp_path) == ([], [])


def test_a_case_has_another_digest_when_anything_about_it_changes(tmp_path: Path) -> None:
    prompts = ("prompt: a", "prompt: b", "prompt: a\n  setup: ls", "prompt: a\n  timeout: 5")
    entries = [f"- {prompt}\n  checks: [{{command: 'true'}}]" for prompt in prompts]
    write(tmp_path / "evals/a.yaml", "\n".join([*entries, entries[0]]))

    cases, _ = load_all(tmp_path)

    digests = [case.digest for case in cases]
    assert digests[0] == digests[4]
    assert len(set(digests)) == 4


def test_a_value_in_json_is_found_by_its_path() -> None:
    assert find_in_json({"a": [{"b c": 2}]}, "$.a[0]['b c']") == 2
    with pytest.raises(LookupError):
        find_in_json({"a": 1}, "$.a.b")
    with pytest.raises(LookupError):
        find_in_json([1], "$.a")


def test_a_check_says_what_it_checks() -> None:
    check = parse_check({"json": "a.json", "at": "$.b", "equals": [1]})

    assert str(check) == "json a.json $.b [1]"


def test_tasks_of_a_rule_file_are_routed_by_test(invoke: Run, tmp_path: Path) -> None:
    write_skill(tmp_path, "ui/auth.md", keywords=["login"])
    entries = """
- {prompt: add a login, checks: [{command: "true"}]}
- {query: bake a cake, expect: null}
"""
    write(tmp_path / "ui/auth/evals/login.yaml", entries)

    done = invoke("test", "--skills-dir", str(tmp_path))

    assert done.returncode == 0
    assert "2 prompts: 2 right" in done.stdout


def test_validate_knows_cases_and_names_what_is_wrong_in_them(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui/auth.md", keywords=["login"])
    write(tmp_path / "ui/auth/evals/a.yaml", "- {prompt: add a login}")
    write(tmp_path / "ui/auth/evals/files/app/main.py", "print(1)")

    found = {problem.rule: problem for problem in validate_paths(tmp_path).problems}

    assert found.keys() == {"eval-case", "no-evidence"}
    assert Path(found["eval-case"].file).name == "a.yaml"
    assert "entry 1 says nowhere" in found["eval-case"].reason
