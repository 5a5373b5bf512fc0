"""`skills-mcp validate` in a collection that was never checked: rules and baselines."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.packages import write_package
from tests.support import write


@pytest.fixture
def content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with two errors and a warning in `skills`."""
    write_package(tmp_path, "skills/good")
    write_package(tmp_path, "skills/bad", version="1", body="[x](gone.md)")
    write_package(tmp_path, "skills/worse", version="2")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rules_in(printed: str) -> list[str]:
    return [problem["rule"] for problem in json.loads(printed)["problems"]]


@pytest.mark.usefixtures("content")
@pytest.mark.parametrize(
    "options, rules",
    [
        (["--select", "link-broken"], ["link-broken"]),
        (["--select", "link-*"], ["link-broken"]),
        (["--ignore", "unknown-key,name"], ["link-broken"]),
        (["--ignore", "link-broken", "--ignore", "unknown-key"], []),
        (["--select", "link-broken,unknown-key", "--ignore", "*-key"], ["link-broken"]),
    ],
)
def test_only_the_chosen_rules_are_reported(
    invoke: Run, options: list[str], rules: list[str]
) -> None:
    done = invoke("validate", "skills", "--json", *options)

    assert rules_in(done.stdout) == rules
    assert done.returncode == 0


@pytest.mark.usefixtures("content")
@pytest.mark.parametrize("option", ["--select", "--ignore"])
def test_a_rule_that_does_not_exist_is_answered_with_similar_ones(invoke: Run, option: str) -> None:
    done = invoke("validate", "skills", option, "link-brokn")

    assert done.returncode == 2
    assert "There is no rule 'link-brokn'. Did you mean link-broken" in done.stderr
    assert done.stdout == ""


def test_the_settings_of_the_content_choose_rules_for_everyone(invoke: Run, content: Path) -> None:
    write(content / "config.yaml", "validation: {ignore: [unknown-key]}\n")

    assert rules_in(invoke("validate", ".", "--json").stdout) == ["link-broken"]
    more = invoke("validate", ".", "--json", "--ignore", "link-broken")
    assert rules_in(more.stdout) == []


def test_a_selection_on_the_command_line_wins_over_the_settings(invoke: Run, content: Path) -> None:
    write(content / "config.yaml", "validation: {select: [unknown-key]}\n")

    done = invoke("validate", ".", "--json", "--select", "link-*")

    assert rules_in(done.stdout) == ["link-broken"]


def test_settings_that_name_no_rule_are_an_error_with_their_file(
    invoke: Run, content: Path
) -> None:
    file = write(content / "config.yaml", "validation: {ignore: [unknwn-key]}\n")

    done = invoke("validate", ".", "--format", "json")

    assert done.returncode == 3
    assert f"{file}: validation: There is no rule 'unknwn-key'" in done.stderr
    assert "Did you mean unknown-key" in json.loads(done.stdout)["error"]["message"]


def test_skills_that_most_of_a_baseline_miss_are_a_finding(
    invoke: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "abcd":
        write_package(tmp_path, f"skills/{name}")
    baseline = ("--baseline", "known.json")
    invoke("validate", ".", *baseline, "--write-baseline")
    for name in "abc":
        shutil.rmtree(tmp_path / "skills" / name)

    found = json.loads(invoke("validate", ".", "--json", *baseline).stdout)
    narrower = invoke("validate", "skills/d", "--strict", *baseline)
    invoke("validate", ".", *baseline, "--write-baseline")
    accepted = invoke("validate", ".", "--strict", *baseline)

    [finding] = found["problems"]
    assert (finding["rule"], finding["level"]) == ("skills-removed", "warning")
    assert "3 of 4 skills are gone: skills/a, skills/b, skills/c" in finding["reason"]
    assert (narrower.returncode, accepted.returncode) == (0, 0)


def test_an_example_task_with_another_answer_than_in_the_baseline_is_a_finding(
    invoke: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rules = (
        "---\nname: {}\ndescription: Pay money back\nkeywords: [refund, invoice]\n"
        "examples: [{}]\n---\n# Do it\n"
    )
    write(tmp_path / "refunds.md", rules.format("refunds", "refund an invoice"))
    checks = ("validate", ".", "--select", "task-moved", "--baseline", "known.json", "--json")
    made = invoke(*checks, "--write-baseline")
    same = rules_in(invoke(*checks).stdout)
    write(tmp_path / "invoices.md", rules.format("invoices", "what is not in the baseline"))

    [moved] = json.loads(invoke(*checks).stdout)["problems"]
    invoke(*checks, "--write-baseline")
    accepted = rules_in(invoke(*checks).stdout)

    assert "1 example task" in made.stdout
    assert (moved["rule"], moved["level"], moved["line"]) == ("task-moved", "warning", 5)
    assert moved["file"].endswith("refunds.md")
    assert "gets 'invoices', 'refunds', and in the baseline 'refunds'" in moved["reason"]
    assert (same, accepted) == ([], [])


@pytest.mark.usefixtures("content")
def test_known_findings_fail_no_more_and_new_ones_do(invoke: Run, content: Path) -> None:
    baseline = ["--baseline", "known.json"]
    made = invoke("validate", ".", *baseline, "--write-baseline")
    first = invoke("validate", ".", "--strict", *baseline)
    write_package(content, "skills/new", description="x" * 1025)
    second = invoke("validate", ".", *baseline)

    assert (made.returncode, made.stdout) == (
        0,
        "Wrote 3 known findings to known.json\n",
    )
    assert first.returncode == 0
    assert first.stdout == "3 skills, 0 errors, 0 warnings, 3 known\n"
    assert second.returncode == 1
    assert second.stdout.startswith(str(Path("skills/new/SKILL.md")))
    assert second.stdout.endswith("4 skills, 1 error, 0 warnings, 3 known\n")


def test_a_finding_stays_known_where_lines_and_lengths_change(invoke: Run, content: Path) -> None:
    write_package(content, "skills/long", body="line\n" * 600 + "[x](gone.md)")
    file = content / "skills/long/SKILL.md"
    invoke("validate", ".", "--baseline", "known.json", "--write-baseline")
    file.write_text(file.read_text().replace("line\n", "line\nline\n", 3))

    done = invoke("validate", "skills/long", "--strict", "--baseline", "known.json")

    assert done.stdout == "1 skill, 0 errors, 0 warnings, 2 known\n"


def test_a_second_finding_of_the_same_kind_is_new(invoke: Run, content: Path) -> None:
    invoke("validate", ".", "--baseline", "known.json", "--write-baseline")
    file = content / "skills/bad/SKILL.md"
    file.write_text(f"{file.read_text()}\n[y](gone.md)\n")

    done = invoke("validate", ".", "--json", "--baseline", "known.json")

    assert rules_in(done.stdout) == ["link-broken"]


def test_what_is_repaired_is_told_until_it_leaves_the_baseline(invoke: Run, content: Path) -> None:
    baseline = ["--baseline", "known.json"]
    invoke("validate", ".", *baseline, "--write-baseline")
    write_package(content, "skills/worse")
    told = invoke("validate", ".", *baseline)
    elsewhere = invoke("validate", "skills/good", *baseline)
    chosen = invoke("validate", ".", *baseline, "--select", "link-*")
    invoke("validate", "skills/worse", *baseline, "--write-baseline")
    after = invoke("validate", ".", *baseline)

    assert told.returncode == 0
    assert "skills/worse/SKILL.md: repaired[unknown-key] has the key" in told.stdout
    assert "1 entry of known.json no longer occurs" in told.stdout
    assert "repaired" not in elsewhere.stdout
    assert "repaired" not in chosen.stdout
    assert after.stdout == "3 skills, 0 errors, 0 warnings, 2 known\n"


def test_the_settings_of_the_content_name_a_baseline(
    invoke: Run, content: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(content / "config.yaml", "validation: {baseline: known.json}\n")
    made = invoke("validate", ".", "--write-baseline")
    monkeypatch.chdir(content / "skills")

    done = invoke("validate", "bad", "worse/SKILL.md")

    assert made.returncode == 0
    assert (content / "known.json").is_file()
    assert done.stdout == "2 skills, 0 errors, 0 warnings, 3 known\n"


@pytest.mark.usefixtures("content")
@pytest.mark.parametrize(
    "text, said",
    [
        (None, "known.json does not exist: write it again with --write-baseline"),
        ("{", "known.json is not JSON"),
        ("[]", "known.json is no baseline of validate"),
        ('{"version": 2}', "known.json has version 2, not 1"),
        ('{"version": 1, "findings": [{"file": 1}]}', "is no baseline of validate"),
    ],
)
def test_a_baseline_that_cannot_be_used_is_wrong_usage(
    invoke: Run, content: Path, text: str | None, said: str
) -> None:
    if text is not None:
        write(content / "known.json", text)

    done = invoke("validate", ".", "--baseline", "known.json")

    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.usefixtures("content")
def test_a_baseline_needs_a_name_to_be_written(invoke: Run) -> None:
    done = invoke("validate", ".", "--write-baseline")

    assert done.returncode == 2
    assert "--baseline skills-baseline.json" in done.stderr


def test_many_findings_end_with_a_summary_by_rule(invoke: Run, content: Path) -> None:
    for number in range(20):
        write_package(content, f"skills/many-{number}", version="1")

    done = invoke("validate", ".")

    *_, header, first, second, advice, _ = done.stdout.splitlines()
    assert header == "By rule:"
    assert first.split() == ["22", "warning", "unknown-key"]
    assert second.split() == ["1", "warning", "link-broken"]
    assert "--write-baseline" in advice


def test_the_command_says_what_it_repaired_and_reports_the_rest(
    invoke: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_package(tmp_path, "skills/pdf", name="X", version="1")
    monkeypatch.chdir(tmp_path)

    done = invoke("validate", "skills", "--fix", "--ignore", "unknown-key", "--strict")
    again = json.loads(invoke("validate", "skills", "--fix", "--json").stdout)

    assert done.returncode == 0
    assert "skills/pdf/SKILL.md: fixed[name-characters]" in done.stdout
    assert (again["fixed"], again["rules"]) == ([], {"unknown-key": 1})


def test_known_findings_are_not_repaired(
    invoke: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_package(tmp_path, "skills/pdf", name="X") / "SKILL.md"
    monkeypatch.chdir(tmp_path)
    known = ("--baseline", "known.json")
    before = file.read_bytes()

    invoke("validate", "skills", *known, "--write-baseline")
    done = invoke("validate", "skills", *known, "--fix")
    both = invoke("validate", "skills", *known, "--fix", "--write-baseline")

    assert (done.returncode, file.read_bytes()) == (0, before)
    assert both.returncode == 2
