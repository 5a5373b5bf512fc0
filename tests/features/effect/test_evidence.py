"""Evidence: what validate, pages, the report and events say about the lift of a skill."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from skills_mcp.features.authoring.validation import load_tree, validate_paths
from skills_mcp.features.effect import EVAL_RESULTS
from skills_mcp.features.effect.commands.effect import describe_verdict, find_failures
from skills_mcp.features.effect.evidence import (
    Result,
    append_result,
    derive_text_digest,
    find_evidence,
    summarise,
)
from skills_mcp.features.web.site import create_site
from skills_mcp.skills.access import OPERATOR
from skills_mcp.skills.skill_index import SkillIndex
from tests.cli.conftest import Run
from tests.features.effect.conftest import expect, write_case
from tests.features.web.test_rest import let_in
from tests.support import Upstream, open_library, write, write_skill


def make_results(folder: Path, skill: str, *, lift: bool, digest: str = "") -> Iterator[Result]:
    """Results of two cases, three runs each."""
    index = load_tree(folder).snapshot.index
    found = digest or derive_text_digest(index, index.require(skill))
    for number in range(12):
        arm = ("with", "without")[number % 2]
        yield Result(
            id=f"{skill}{number}",
            at="2026-11-12T10:00:00+00:00",
            skill=skill,
            arm=arm,
            digest=found if arm == "with" else "",
            package=found if arm == "with" else "",
            case=f"{number // 6}",
            case_digest=f"{skill}{number // 6}",
            agent="claude",
            model="",
            via="native",
            state="ended",
            passed=lift and arm == "with",
        )


@pytest.fixture
def content(tmp_path: Path) -> Path:
    folder = tmp_path / "skills"
    for name, lift, digest in (("good", True, ""), ("old", True, "0000"), ("useless", False, "")):
        write_skill(folder, f"{name}.md", keywords=[name])
        for result in make_results(folder, name, lift=lift, digest=digest):
            append_result(folder / EVAL_RESULTS, result)
    write_skill(folder, "new.md", keywords=["new"])
    write_case(folder, "new", expect("a.txt", "a"))
    write_skill(folder, "plain.md", keywords=["plain"])
    return folder


def test_evidence_is_about_the_text_that_is_served(content: Path) -> None:
    found = {path: str(each) for path, each in find_evidence(load_tree(content).snapshot).items()}

    assert found == {
        "good": "helps, +100 points on 2026-11-12",
        "old": "helps, +100 points on 2026-11-12, for an older text",
        "useless": "no effect, +0 points on 2026-11-12",
    }


def test_skills_are_walked_once_for_the_results_of_a_snapshot(
    content: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = load_tree(content).snapshot
    before = find_evidence(snapshot)
    for result in make_results(content, "new", lift=True):
        append_result(content / EVAL_RESULTS, result)
    monkeypatch.delattr(SkillIndex, "__iter__")

    assert find_evidence(snapshot).keys() == {*before, "new"}


def test_a_change_of_inherited_rules_makes_evidence_old(content: Path) -> None:
    write_skill(content, "_root.md", body="Other rules.")

    found = find_evidence(load_tree(content).snapshot)

    assert found["good"].is_old


def test_validate_names_skills_without_evidence_and_with_old_one(content: Path) -> None:
    found = {Path(p.file).stem: p.rule for p in validate_paths(content).problems}

    assert found == {"new": "no-evidence", "old": "old-evidence"}


def test_results_of_a_repository_are_served_with_its_commit(
    content: Path, upstream: Upstream, invoke: Run, home: Path
) -> None:
    results = (content / EVAL_RESULTS).read_text()
    upstream.commit({"skills/good.md": (content / "good.md").read_text(), EVAL_RESULTS: results})

    invoke("sync", "--repo", upstream.url)
    stored = [*home.rglob(EVAL_RESULTS)]

    assert [file.read_text() for file in stored] == [results]


def test_the_report_names_what_is_much_used_and_does_not_help(
    content: Path, invoke: Run, home: Path
) -> None:

    events = [
        {
            "type": "skill_served",
            "event_id": f"{name}{number}",
            "timestamp": "2026-11-12T10:00:00Z",
            "data": {"skill_path": name},
        }
        for name in ("useless", "good")
        for number in range(10)
    ]
    file = write(home / "events.jsonl", "\n".join(map(json.dumps, events)))
    days = ("--since", "2026-11-01", "--until", "2026-11-30")
    done = invoke("report", "--from", str(file), *days, "--skills-dir", str(content))

    assert "Much used, no lift: useless was served 10 times; no effect, +0 points" in done.stdout
    assert "no lift: good" not in done.stdout


def test_a_change_alone_is_compared_with_the_skill_before_it(content: Path) -> None:
    results = tuple(make_results(content, "good", lift=True))
    treated, control = (
        [replace(each, arm=arm, passed=is_passed) for each in results]
        for arm, is_passed in (("with", False), ("before", True))
    )

    effect = summarise("a", "", (*treated, *control))

    assert describe_verdict(effect).endswith("against the skill before the change")
    assert find_failures([effect], None) == {"a": "the change makes it worse"}


def test_a_line_that_is_no_result_is_skipped(content: Path) -> None:
    (first, *_) = make_results(content, "good", lift=True)
    with (content / EVAL_RESULTS).open("a") as handle:
        handle.write('{"id": "x"}\n[1]\nnot json\n')
    append_result(content / EVAL_RESULTS, replace(first, id="last"))

    assert find_evidence(load_tree(content).snapshot)["good"].runs == 13


def test_pages_show_the_lift_and_its_day(content: Path) -> None:
    client = TestClient(let_in(create_site(open_library(content)), OPERATOR))

    catalogue = client.get("/catalogue").text
    page, old = client.get("/skills/good").text, client.get("/skills/old").text

    assert "helps, +100 points on 2026-11-12</span>" in catalogue
    assert "Helps, +100 points on 2026-11-12" in page
    assert "for an older text" in old
    assert "<h2>Effect</h2>" not in client.get("/skills/plain").text
