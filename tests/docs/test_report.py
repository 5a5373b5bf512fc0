"""The report of the pages is that of the program."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from demo.month import LAST_DAY, simulate, write_lines
from skills_mcp.cli import program
from skills_mcp.usage import usage_report
from tests.docs.pages import DOCS, REFERENCE, blocks, code, section, table
from tests.support import SKILLS_CONTENT

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
