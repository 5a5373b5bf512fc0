"""What a person sees of an answer in a terminal and in a notebook."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skills_mcp
from tests.support import SKILLS_CONTENT, write_skill


@pytest.fixture(scope="module")
def skills() -> Iterator[skills_mcp.SyncSkills]:
    with skills_mcp.open_sync(SKILLS_CONTENT) as opened:
        yield opened


def _answers(skills: skills_mcp.SyncSkills) -> list[Any]:
    found = skills.search("login form")
    asked: list[Any] = [
        skills.route(task) for task in ("react auth component", "auth component api", "zzz")
    ]
    assert [type(answer).__name__ for answer in asked] == ["Match", "Ambiguous", "NoMatch"]
    return [
        *(*asked, found, found.hits, found.hits[0], asked[1].candidates),
        *(
            skills,
            skills.list(),
            skills.list()[0],
            skills.tree(),
            skills.states(),
            skills.refresh(),
        ),
        *(skills.load("ui/react/auth"), skills.open_folder("ui/react/auth")),
        *(skills.find_files("ui/react/auth"), skills.load_examples("ui/react/auth", "auth")),
        *(skills.read("ui/react/auth", "assets/auth-flow.svg"), skills.compose_catalog()),
        *(skills.problems(), skills.states()[0], skills_mcp.Problem("a.md", "x" * 500, "")),
    ]


def test_an_answer_is_shown_in_two_lines(skills: skills_mcp.SyncSkills) -> None:
    shown = [repr(answer) for answer in _answers(skills)]

    assert not [text for text in shown if len(text) > 200 or " at 0x" in text or "Fraction" in text]
    assert "ui/react/auth" in shown[0]
    assert "score=0.6" in shown[0]
    assert "… 24 more" in repr(skills.list())


def test_a_score_is_a_number_in_json(skills: skills_mcp.SyncSkills) -> None:
    single, several, *_ = _answers(skills)

    assert json.loads(json.dumps([single.score])) == [0.6]
    assert json.loads(json.dumps([found.score for found in several.candidates]))[:2] == [0.4, 0.4]


def test_a_notebook_shows_answers_and_lists_as_tables(tmp_path: Path) -> None:
    write_skill(
        tmp_path,
        "one.md",
        keywords=["one"],
        description="<script>alert(1)</script>",
        body="Line one.\n\n<b>two</b>",
    )
    write_skill(tmp_path, "two.md", keywords=["one", "two"])

    with skills_mcp.open_sync(tmp_path) as skills:
        shown: list[Any] = [
            *(skills.route("one"), skills.route("zzz"), skills.load("one"), skills.search("one")),
            *(skills.list(), skills.states(), skills.problems(), skills.compose_catalog()),
        ]
        tables = [answer._repr_html_() for answer in shown]

    assert all(table.startswith("<table>") for table in tables)
    assert not [table for table in tables if "<script>" in table or "<b>" in table]
    assert "&lt;script&gt;" in tables[4]
    assert "&lt;b&gt;two" in tables[2]


def test_one_record_within_an_answer_is_read_downwards(tmp_path: Path) -> None:
    write_skill(tmp_path, "one.md")

    with skills_mcp.open_sync(tmp_path) as skills:
        table = skills.refresh()._repr_html_()  # type: ignore[attr-defined]

    assert "<th>mount</th><th>name</th>" not in table
    assert "<caption>SourceState</caption>" in table
