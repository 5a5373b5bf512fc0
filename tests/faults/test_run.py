"""The runner of the long run says what it found, whatever that is."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from soak import run
from soak.report import (
    COLUMNS,
    PROMISES,
    Outcome,
    render_markdown,
    write_json,
    write_markdown,
)
from soak.scenario import Figure, Scale, Unavailable
from tests.docs.pages import DOCS, codes, section, table

PAGE = DOCS / "soak.md"
PAGES = (PAGE, DOCS / "soak-of-input-and-http.md")


def test_scenarios_have_names_of_their_own() -> None:
    names = Counter(name for name, _ in run.SCENARIOS)

    assert names.most_common(1)[0][1] == 1


def test_what_is_zero_of_nothing_proves_nothing() -> None:
    assert not Figure.none(1, "torn", 0, of=0).is_met
    assert Figure.none(1, "torn", 0, of=1).is_met
    assert not Figure.none(1, "torn", 1, of=9).is_met


def test_all_of_nothing_proves_nothing() -> None:
    assert not Figure.every(2, "ready", 0, of=0).is_met
    assert Figure.every(2, "ready", 3, of=3).is_met
    assert not Figure.every(2, "ready", 2, of=3).is_met


def test_a_limit_may_be_reached() -> None:
    assert Figure.at_most(3, "asks", 1.2, 1.2).is_met
    assert not Figure.at_most(3, "asks", 1.3, 1.2).is_met


def test_a_scenario_that_crashes_keeps_its_figures_and_is_not_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(_: Path, __: Scale) -> Iterator[Figure]:
        yield Figure.every(1, "good", 1, 1)
        raise RuntimeError("a surprise")

    outcome = run.try_out("crash", crash, tmp_path, Scale.quick())

    assert len(outcome.figures) == 1
    assert outcome.crashed == "RuntimeError: a surprise"
    assert not outcome.is_met
    assert "a surprise" in capsys.readouterr().err


def test_a_scenario_that_is_not_permitted_is_skipped_with_its_reason(
    tmp_path: Path,
) -> None:
    def refuse(_: Path, __: Scale) -> Iterator[Figure]:
        raise Unavailable("there is no such thing")
        yield

    outcome = run.try_out("refuse", refuse, tmp_path, Scale.quick())

    assert outcome.is_met
    assert "refuse, because there is no such thing" in render_markdown([outcome], [])


def test_the_file_for_machines_has_every_figure(tmp_path: Path) -> None:
    outcome = Outcome("one", 1.5, (Figure.none(4, "wedged", 0, 200),))

    write_json(tmp_path / "figures.json", [outcome], {"machine": "One core."})

    said = json.loads((tmp_path / "figures.json").read_text())
    assert said["machine"] == "One core."
    [figure] = said["scenarios"][0]["figures"]
    assert figure["reached"] == "0 of 200"
    assert figure["is_met"] is True


def test_a_run_replaces_the_table_of_the_page_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    sync = (Figure.none(4, "wedged", 1, 200), Figure.every(2, "ready", 24, 24))
    figures = (*sync, Figure.every(29, "of the other page", 1, 1))

    write_markdown(page, [Outcome("one", 1, figures)], ["One core."])

    assert "One core." in section(page, "## The last run")
    first, second = table(section(page, "## The last run"))
    assert first["Promise"].startswith("2.")
    assert (second["Reached"], second["Met"]) == ("1 of 200", "missed")
    assert section(page, "## Run it") == section(PAGE, "## Run it")


def test_the_page_shows_every_promise_and_every_scenario() -> None:
    rows = [row for page in PAGES for row in table(section(page, "## The last run"))]

    shown = [row["Promise"] for row in rows if row["Promise"]]

    assert shown == [f"{number}. {text}" for number, text in PROMISES.items()]
    assert tuple(rows[0]) == COLUMNS
    assert {row["Scenario"] for row in rows} == {name for name, _ in run.SCENARIOS}


def test_options_that_the_page_names_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.parse(["--help"])
    text = capsys.readouterr().out

    named = {c for c in codes(section(PAGE, "## Run it")) if c.startswith("--")}

    searching = {"--attack-minutes", "--seed"}
    assert named == {"--quick", "--only", "--json", "--markdown", *searching}
    assert all(option in text for option in named)
