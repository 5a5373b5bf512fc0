"""The page of figures has a line for each that is measured, with its budget."""

import re
from pathlib import Path

import pytest

from benchmarks import engines, run
from benchmarks.figures import (
    ENGINES,
    FIGURES,
    Budget,
    Figure,
    Measured,
    judge,
)
from benchmarks.report import write_markdown
from tests.docs.pages import DOCS, NOTHING, codes, prose, section, table

PAGE = DOCS / "benchmarks.md"
LAST_RUN = "## The last run"


def test_every_figure_has_its_line_and_its_budget() -> None:
    shown = [(row["Figure"], row["Unit"], row["Budget"]) for row in table(section(PAGE, LAST_RUN))]

    assert shown == [
        (f.meaning, f.unit or NOTHING, str(f.budget) if f.budget else NOTHING) for f in FIGURES
    ]


def test_figures_have_names_of_their_own() -> None:
    assert len({figure.key for figure in FIGURES}) == len(FIGURES)
    assert len({figure.meaning for figure in FIGURES}) == len(FIGURES)


def test_every_budget_that_is_missed_has_its_reason() -> None:
    rows = table(section(PAGE, LAST_RUN))
    missed = [row["Figure"] for row in rows if row["Met"] not in {"met", NOTHING}]

    reasons = table(section(PAGE, "## What is missed, and why"))

    assert [row["Figure"] for row in reasons] == missed


def test_every_engine_says_what_it_was_told_to_index() -> None:
    assert tuple(each.name for each in engines.COMPARED) == ENGINES
    for each in engines.COMPARED:
        assert f"{each.name}: {each.indexes}" in section(PAGE, LAST_RUN)


def test_options_that_are_named_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.parse(["--help"])
    text = capsys.readouterr().out

    named = {c for c in codes(section(PAGE, "## Run it")) if c.startswith("--")}

    assert named == set(re.findall(r"--[a-z]+", text)) - {"--help"}
    assert f"`{run.TEXT_VARIABLE}`" in prose(PAGE)


@pytest.mark.parametrize(
    "bound, median, verdict",
    [
        ("at most", 2.0, "met"),
        ("at most", 2.1, "missed"),
        ("at least", 2.0, "met"),
        ("at least", 1.9, "missed"),
    ],
)
def test_a_budget_is_judged_by_the_median(bound: str, median: float, verdict: str) -> None:
    budget = Budget("at most" if bound == "at most" else "at least", 2)
    measured = Measured.of([median, 0, 100])

    assert ("met" if budget.is_met(measured) else "missed") == verdict


def test_a_budget_that_was_not_measured_is_not_met() -> None:
    verdicts = judge({})

    assert set(verdicts.values()) == {"not measured"}
    assert list(verdicts) == [figure for figure in FIGURES if figure.budget]


def test_a_run_replaces_the_table_of_a_page_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    first: Figure = FIGURES[0]

    write_markdown(page, {first.key: Measured(1, 0.5, 123.4)}, ["One core."])

    assert "One core." in section(page, LAST_RUN)
    [row, *others] = table(section(page, LAST_RUN))
    assert (row["Median"], row["From"], row["To"]) == ("1.00", "0.500", "123")
    assert {other["Median"] for other in others} == {"not measured"}
    assert section(page, "## Run it") == section(PAGE, "## Run it")
