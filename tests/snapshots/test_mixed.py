"""Rule files with keywords and packages side by side: each has its algorithm, and one decides."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.routing.answer_explanation import explain_decision
from skills_mcp.routing.decision import (
    Decision,
    NoMatch,
    answered_candidates,
    decision_kind,
    score_and_decide,
)
from skills_mcp.snapshots.skill_snapshot import Snapshot
from tests.packages import write_package
from tests.skills.contents import take
from tests.support import SKILLS_CONTENT, write_skill

TASKS = (
    "add login to the React app",
    "add a React page",
    "a Kafka consumer that survives duplicates",
    "why is this Postgres query slow",
    "rotate the leaked token",
    "water the flowers",
    "add pagination and error handling to the Go API",
)
UNRELATED = "Prunes orchard ladders along zephyr meadows"


def decide(snapshot: Snapshot, task: str) -> Decision:
    return score_and_decide(snapshot.matcher, task, snapshot.config.matching)


def answer_of(decision: Decision) -> tuple[str, list[tuple[str, float]]]:
    near = decision.near if isinstance(decision, NoMatch) else answered_candidates(decision)
    return decision_kind(decision), [(each.skill.path, each.score) for each in near]


def answers_of(snapshot: Snapshot, tasks: Sequence[str] = TASKS) -> Mapping[str, Any]:
    return {task: answer_of(decide(snapshot, task)) for task in tasks}


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SKILLS_CONTENT, tmp_path / "sample"))


def test_unrelated_packages_change_no_answer_of_the_sample_content(sample: Path) -> None:
    before = answers_of(take(sample))
    assert {kind for kind, _ in before.values()} == {"single", "ambiguous", "no_match"}

    for count in (1, 10, 100):
        for number in range(count):
            write_package(sample / "skills/garden", f"orchard-{number}", description=UNRELATED)
        snapshot = take(sample)

        assert snapshot.algorithm == "mixed"
        assert answers_of(snapshot) == before


def test_unrelated_rule_files_change_no_answer_of_packages(tmp_path: Path) -> None:
    write_package(tmp_path, "pdf", description="Fills in PDF forms")
    write_package(tmp_path, "slides", description="Makes slides from notes")
    tasks = ("fill in a form", "slides for the all-hands", "PDF", "water the flowers")
    before = answers_of(take(tmp_path), tasks)

    for number in range(10):
        write_skill(tmp_path, f"garden/r{number}.md", keywords=["zephyr", f"ladder{number}"])

    assert answers_of(take(tmp_path), tasks) == before


def write_mixed(folder: Path, keywords: Sequence[str]) -> Snapshot:
    write_skill(
        folder, "ui/forms.md", keywords=keywords, description="Forms in React", body="Label them."
    )
    write_package(folder, "pdf-forms", description="Fills in PDF forms from a table of values")
    write_package(folder, "expenses", description="Books the expense claims of a trip")
    return take(folder)


def test_a_package_that_is_not_better_does_not_displace_what_keywords_find(tmp_path: Path) -> None:
    snapshot = write_mixed(tmp_path, ["forms", "react"])

    assert answer_of(decide(snapshot, "label React forms")) == ("single", [("ui/forms", 1.0)])


def test_a_rule_file_and_a_package_that_are_both_clear_are_both_listed(tmp_path: Path) -> None:
    snapshot = write_mixed(tmp_path, ["forms", "expense"])

    kind, listed = answer_of(decide(snapshot, "book the expense claims of a trip"))

    assert kind == "ambiguous"
    assert [path for path, _ in listed] == ["expenses", "ui/forms"]


def test_a_package_that_is_clearly_better_displaces_rule_files_that_are_close(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path, "ui/tables.md", keywords=["table", "grid"], description="Tables")
    snapshot = write_mixed(tmp_path, ["table", "labels"])

    task = "fill in PDF forms from a table of values"

    assert answer_of(decide(snapshot, task))[0] == "single"
    assert [c.skill.path for c in answered_candidates(decide(snapshot, task))] == ["pdf-forms"]


def test_what_is_found_by_one_algorithm_alone_is_its_answer(tmp_path: Path) -> None:
    snapshot = write_mixed(tmp_path, ["forms", "react"])

    by_rank = decide(snapshot, "expense claims of a trip")
    by_keywords = decide(snapshot, "react")

    assert answer_of(by_rank)[0] == answer_of(by_keywords)[0] == "single"
    assert [c.skill.path for c in answered_candidates(by_rank)] == ["expenses"]
    assert answer_of(by_keywords)[1] == [("ui/forms", 0.5)]


def test_an_explanation_says_which_algorithm_matched_whom(tmp_path: Path) -> None:
    snapshot = write_mixed(tmp_path, ["forms", "expense"])
    matching = snapshot.config.matching

    explained = explain_decision(snapshot.matcher, "book the expense claims of a trip", matching)

    assert explained.algorithm == "mixed"
    assert {c.skill.path for c in explained.contenders} >= {"expenses", "ui/forms"}
    assert "matched by declared keywords: ui/forms" in explained.notes
    assert "ranked by all words: expenses" in explained.notes[1]
