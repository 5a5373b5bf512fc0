"""The figures of a run, as a table for people and as JSON."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from soak.promises import PROMISES
from soak.scenario import Figure

COLUMNS = ("Promise", "Figure", "Reached", "Target", "Met", "Scenario")

_MET = COLUMNS.index("Met")
_WIDTH = 160

_BEGIN = "<!-- Written by make soak. -->"
_END = "<!-- Until here. -->"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one scenario."""

    scenario: str
    seconds: float
    figures: tuple[Figure, ...] = ()
    """The figures of the scenario, or those before it crashed."""
    skipped: str = ""
    """Why this machine cannot run the scenario."""
    crashed: str = ""
    """The exception that ended the scenario."""

    @property
    def is_met(self) -> bool:
        """Whether every figure is met; a skipped scenario counts as met."""
        if self.crashed:
            return False
        return all(figure.is_met for figure in self.figures)


def print_table(outcomes: Sequence[Outcome], about: Iterable[str]) -> None:
    """Print a line per figure, in the order of the promises, then skips and crashes."""
    table = Table(*COLUMNS)
    for row in _rows(outcomes):
        table.add_row(*row, style="" if row[_MET] == "met" else "bold red")
    # A file or a pipe has no width, and a narrow table cannot be read.
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    console.print(table)
    for line in (*about, *_remarks(outcomes)):
        console.print(line, markup=False)


def write_json(
    file: Path, outcomes: Iterable[Outcome], about: Mapping[str, Any]
) -> None:
    """Write all outcomes as JSON."""
    whole = {**about, "scenarios": list(map(asdict, outcomes))}
    file.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")


def write_markdown(
    file: Path, outcomes: Sequence[Outcome], about: Iterable[str]
) -> None:
    """Replace the table of a page."""
    page = file.read_text(encoding="utf-8") if file.exists() else f"{_BEGIN}{_END}"
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"{file} has no place for the table: {_BEGIN} and {_END}")
    text = f"{begin}\n\n{render_markdown(outcomes, about)}\n{end}"
    file.write_text(f"{before}{text}{after}", encoding="utf-8")


def render_markdown(outcomes: Sequence[Outcome], about: Iterable[str]) -> str:
    """Return the table as Markdown, below a line about the machine."""
    lines = (COLUMNS, ("---",) * len(COLUMNS), *_rows(outcomes))
    table = "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)
    return "\n".join((*about, *_remarks(outcomes), "", table, ""))


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _rows(outcomes: Iterable[Outcome]) -> Iterator[tuple[str, ...]]:
    found = [(figure, each) for each in outcomes for figure in each.figures]
    before = ""
    for figure, each in sorted(found, key=lambda pair: pair[0].promise):
        verdict = "met" if figure.is_met else "missed"
        promise = f"{figure.promise}. {PROMISES[figure.promise]}"
        shown = "" if promise == before else promise
        said = (figure.what, figure.reached, figure.target, verdict)
        yield (shown, *said, each.scenario)
        before = promise


def _remarks(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Yield the lines about skips and crashes."""
    for each in outcomes:
        if each.skipped:
            yield f"Skipped: {each.scenario}, because {each.skipped}."
        if each.crashed:
            yield f"Crashed: {each.scenario}: {each.crashed}."
