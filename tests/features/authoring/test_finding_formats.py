"""What other programs read of `skills-mcp validate`."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.conftest import Run
from tests.packages import write_package


@pytest.fixture
def content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_package(tmp_path, "skills/bad, 100%", version="1", body="[x](gone.md)")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("content")
def test_sarif_names_rule_place_and_what_stays_the_same(invoke: Run) -> None:
    done = invoke("validate", "skills", "--format", "sarif")

    log = json.loads(done.stdout)
    [run] = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert log["version"] == "2.1.0"
    assert done.returncode == 0  # warnings alone
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        [location] = result["locations"]
        place = location["physicalLocation"]
        uri = place["artifactLocation"]["uri"]
        assert uri == "skills/bad%2C%20100%25/SKILL.md"
    assert [result["level"] for result in run["results"]][-1] == "warning"
    last = run["results"][-1]["locations"][0]["physicalLocation"]
    assert last["region"] == {"startLine": 7}


def test_the_fingerprint_of_a_finding_survives_a_new_line_above(invoke: Run, content: Path) -> None:
    [before] = fingerprints(invoke)
    file = content / "skills/bad, 100%/SKILL.md"
    file.write_text(file.read_text().replace("[x]", "A line.\n\n[x]"))

    assert fingerprints(invoke) == [before]


def fingerprints(invoke: Run) -> list[dict[str, str]]:
    done = invoke("validate", "skills", "--format", "sarif", "--select", "link-broken")
    [run] = json.loads(done.stdout)["runs"]
    return [result["partialFingerprints"] for result in run["results"]]


@pytest.mark.usefixtures("content")
def test_github_gets_a_command_for_each_finding(invoke: Run) -> None:
    done = invoke("validate", "skills", "--format", "github")

    lines = done.stdout.splitlines()
    start = "::warning file=skills/bad%2C 100%25/SKILL.md,line=7,title=link-broken::"
    assert any(line.startswith(f"{start}links to 'gone.md'") for line in lines)
    assert lines[-1].startswith("1 skill, ")


@pytest.mark.parametrize("options, failures", [([], 0), (["--strict"], 1)])
def test_junit_has_a_case_for_each_finding(
    invoke: Run, tmp_path: Path, options: list[str], failures: int
) -> None:
    write_package(tmp_path, "pdf", body="[x](gone.md)")

    done = invoke("validate", str(tmp_path / "pdf"), "--format", "junit", *options)

    report = ET.fromstring(done.stdout)  # noqa: S314 - it is ours
    [suite] = report.findall("testsuite")
    [case] = suite.findall("testcase")
    assert (report.get("tests"), report.get("failures")) == ("1", str(failures))
    assert case.get("name") == "link-broken (line 6)"
    assert len(case.findall("failure")) == failures


def test_junit_without_findings_has_a_case_that_passed(invoke: Run, tmp_path: Path) -> None:
    write_package(tmp_path, "pdf")

    done = invoke("validate", str(tmp_path / "pdf"), "--format", "junit")

    report = ET.fromstring(done.stdout)  # noqa: S314 - it is ours
    assert (report.get("tests"), report.get("failures")) == ("1", "0")
