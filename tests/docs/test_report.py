"""The report of the pages is that of the program."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from demo.month import LAST_DAY, simulate, write_lines
from skills_mcp.cli import program
from skills_mcp.features.report import usage_report
from skills_mcp.features.report.pick_evidence import (
    MAX_DOCUMENT_SHARE,
    MIN_TASKS,
    SESSION_HOURS,
)
from skills_mcp.features.report.skill_additions import (
    MAX_ADDED_EXAMPLES,
    MAX_TRIALS,
    MAX_WORDS_TOGETHER,
)
from skills_mcp.features.report.suggestion_review import MAX_RECORDED
from tests.docs.pages import DOCS, REFERENCE, blocks, code, section, table
from tests.features.report.happenings import served, torn
from tests.support import PROJECT, SKILLS_CONTENT, write

PAGE = REFERENCE / "report.md"
GUIDE = DOCS / "how-to" / "read-the-report.md"

SECTIONS = {
    "## Counts": usage_report.Counts,
    "## Answers": usage_report.Answers,
    "## Before": usage_report.Totals,
    "## Periods": usage_report.PeriodAnswers,
    "## Gaps": usage_report.Gap,
    "## Unrecorded": usage_report.Unrecorded,
    "## Rivalries": usage_report.Rivalry,
    "## Skills": usage_report.SkillUse,
    "## Unserved": usage_report.Unserved,
    "## Feedback": usage_report.Feedback,
    "## Scripts": usage_report.ScriptUse,
    "## Releases": usage_report.Release,
    "## Refreshes": usage_report.Refreshes,
    "## Groups": usage_report.PartUse,
    "## Fleet": usage_report.Fleet,
    "## Commits": usage_report.FleetCommit,
    "## Effect": usage_report.CommitEffect,
}


def report(folder: Path, *options: str) -> str:
    events = folder / "events.jsonl"
    write_lines(events, simulate())
    done = CliRunner(catch_exceptions=False).invoke(
        program,
        [
            *("report", "--from", str(events), "--until", str(LAST_DAY)),
            *("--skills-dir", str(SKILLS_CONTENT), *options),
        ],
    )
    return done.stdout


def picked(task: str, skill: str, *others: str, day: int, **more: Any) -> list[object]:
    pick = {"context": task, "was_ambiguous": True, "was_picked": True}
    listed = torn(task, skill, *others, day=day, hour=9, **more)
    return [listed, served(skill, day, hour=9.1, **pick, **more)]


def suggest(folder: Path, *options: str) -> str:
    """Return what is suggested by the picks of the guide."""
    api = ("api/auth", "api/errors", "api/pagination")
    pods = ("infra/kubernetes/rollout", "infra/kubernetes/resources")
    refused, bob = "api call from a handheld is refused", {"person": "dev-bob"}
    events = [
        *picked(refused, *api, day=3),
        *picked(refused, *api, day=4, **bob),
        *picked("api for the handheld returns no offset", *api, day=5, person="dev-c"),
        *picked("invalidate the session of a stolen handheld in the api", *api, day=6),
        *picked("planner does not start on kubernetes", *pods, day=5),
        *picked("kubernetes probe of the planner fails", *pods, day=9, **bob),
        served(pods[0], 9, context="when does the canary stop"),
    ]
    lines = "".join(f"{json.dumps(each)}\n" for each in events)
    file = write(folder / "events.jsonl", lines)
    done = CliRunner(catch_exceptions=False).invoke(
        program,
        [
            *("report", "--suggest", "--from", str(file), "--since", "2026-11-01"),
            *("--until", "2026-11-30", "--skills-dir", str(SKILLS_CONTENT), *options),
        ],
    )
    return done.stdout


def documented(heading: str) -> list[str]:
    return [code(row["Field"]) for row in table(section(PAGE, heading))]


@pytest.mark.parametrize("heading, kind", SECTIONS.items(), ids=SECTIONS)
def test_every_object_has_the_documented_fields(heading: str, kind: type) -> None:
    assert documented(heading) == [each.name for each in dataclasses.fields(kind)]


def test_what_is_printed_has_the_documented_fields(tmp_path: Path) -> None:
    data: dict[str, Any] = json.loads(report(tmp_path, "--json"))

    assert list(data) == documented("## The report")
    lists = {name: rows for name, rows in data.items() if isinstance(rows, list)}
    for name, rows in lists.items():
        heading = f"## {name.capitalize()}"
        for row in rows if heading in SECTIONS else ():
            assert list(row) == documented(heading)
    assert [name for name, rows in lists.items() if not rows] == ["notes"]


def test_the_tables_of_the_guide_are_those_of_the_month(tmp_path: Path) -> None:
    printed = "\n".join(line.rstrip() for line in report(tmp_path).splitlines())
    shown = blocks(GUIDE, "text", "report")

    assert len(shown) == 4
    for each in shown:
        assert each.text in f"{printed}\n"


def test_the_guide_says_when_days_become_weeks() -> None:
    most = usage_report._MOST_DAYS
    said = f"Up to {most} days are told day by day, up to a year by weeks"

    assert said in GUIDE.read_text(encoding="utf-8")


def test_the_suggestions_of_the_guide_are_those_of_its_picks(tmp_path: Path) -> None:
    printed = "\n".join(line.rstrip() for line in suggest(tmp_path).splitlines())
    shown = [*blocks(GUIDE, "text", "suggest"), *blocks(GUIDE, "diff", "suggest")]
    top = SKILLS_CONTENT.relative_to(PROJECT).as_posix()

    assert len(shown) == 5
    printed = printed.replace(f"a/{top}/", "a/").replace(f"b/{top}/", "b/")
    for each in shown:
        assert "\n".join(map(str.rstrip, each.text.splitlines())) in f"{printed}\n"


def test_suggestions_have_the_documented_fields(tmp_path: Path) -> None:
    data: dict[str, Any] = json.loads(suggest(tmp_path, "--json"))
    additions, only_kept, only_left = documented("## Additions"), -3, -2

    assert list(data) == documented("## Suggestions")
    assert list(data["suggestions"][0]) == additions[: only_kept + 1]
    assert list(data["left_out"][0]) == [
        *additions[:only_kept],
        *additions[only_left:],
    ]
    assert list(data["effect"]) == ["library", "picked", "answered"]
    assert list(data["effect"]["picked"]) == documented("## Tasks")
    assert list(data["changes"][0]) == documented("## Changes")
    assert list(data["sources"][0]) == ["source", "mount", "diff"]


def test_the_guide_has_the_limits_of_the_program() -> None:
    said = GUIDE.read_text(encoding="utf-8")

    assert (SESSION_HOURS, MIN_TASKS, MAX_DOCUMENT_SHARE) == (4, 2, 0.1)
    assert (MAX_WORDS_TOGETHER, MAX_ADDED_EXAMPLES) == (3, 3)
    assert f"At most {MAX_TRIALS} keywords are tried" in said
    assert f"at most {MAX_RECORDED} recorded tasks" in said
