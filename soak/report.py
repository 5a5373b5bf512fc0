"""The promises, and the figures of a run: as a table for people and as JSON."""

import json
import re
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from soak.scenario import Figure

PROMISES = {
    1: "A reader sees one whole commit",
    2: "Servers start together on a cold cache",
    3: "Servers refresh together",
    4: "A kill never wedges",
    5: "Stale locks of Git are recovered",
    6: "The Git of a killed server ends with it",
    7: "Rewrites and rollbacks are followed",
    8: "A lost branch or repository keeps the last good commit",
    9: "Another address or branch never shows old content",
    10: "A damaged store heals",
    11: "A full disk keeps the old content",
    12: "A hung or slow remote is bounded",
    13: "A broken pack is never published",
    14: "Failed fetches do not grow the disk",
    15: "Old commits are deleted, those in use never",
    16: "Windows share one back-off",
    17: "The first answer waits for no network",
    18: "A first start without a network works",
    19: "An answer is of one commit",
    20: "A broken file affects no other",
    21: "Unsafe addresses and refs are refused",
    22: "Nothing of the project's or the user's configuration runs",
    23: "Hostile tree entries are never written",
    24: "The token is nowhere to be found",
    25: "The token goes to no other host",
    26: "A new token needs no restart",
    27: "The signature gate fails closed",
    28: "A pin is exact, and a rewrite can be refused",
    29: "A path cannot leave the skill",
    30: "No link swapped in time leads out",
    31: "Special and huge files neither hang nor exhaust",
    32: "Bombs of YAML and Markdown are bounded",
    33: "The parser never raises",
    34: "Only declared bytes run, and none that changed",
    35: "The sandbox holds",
    36: "A timeout ends the whole tree",
    37: "Floods of output are bounded",
    38: "The environment is scrubbed",
    39: "Arguments are data",
    40: "Every ending leaves no process",
    41: "The protocol's channel stays clean",
    42: "Events arrive at least once",
    43: "The spool is bounded, and drops are counted",
    44: "A poisonous event never blocks others",
    45: "Counting never waits for the endpoint",
    46: "The end is quick with a dead endpoint",
    47: "No private text leaves by default",
    48: "Content cannot raise its own privileges",
    49: "Provenance can be verified",
    50: "Staleness is visible",
    51: "Nothing leaks over time",
    52: "Hidden characters and secrets are found",
    53: "Only valid tokens sign in, and the provider may rotate keys or go",
    54: "Crowds and slow clients over HTTP are bounded",
    55: "A rolling restart of replicas loses no request",
    56: "A merge is served on every replica",
    57: "Real hosts connect over HTTP",
    58: "Prometheus reads the metrics, and no caller can make more of them",
    59: "No request over HTTP ends in a fault, writes elsewhere, or learns a secret",
    60: "Windows that share a server lose nothing when it ends",
}
"""The text of each promise, by the number that a `Figure` has."""


COLUMNS = ("Promise", "Figure", "Reached", "Target", "Met", "Scenario")

_MET = COLUMNS.index("Met")
_WIDTH = 160

_BEGIN = re.compile(r"<!-- Written by make soak: promises (\d+) to (\d+)\. -->")
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


def write_json(file: Path, outcomes: Iterable[Outcome], about: Mapping[str, Any]) -> None:
    """Write all outcomes as JSON."""
    whole = {**about, "scenarios": list(map(asdict, outcomes))}
    file.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")


def write_markdown(file: Path, outcomes: Sequence[Outcome], about: Iterable[str]) -> None:
    """Replace the table of a page, with the promises that the mark above it names."""
    page = file.read_text(encoding="utf-8") if file.exists() else ""
    begin = _BEGIN.search(page)
    _, end, after = page[begin.end() :].partition(_END) if begin else ("", "", "")
    if begin is None or not end:
        raise SystemExit(f"{file} has no place for the table: {_BEGIN.pattern} and {_END}")
    shown = range(int(begin[1]), int(begin[2]) + 1)
    text = f"\n\n{render_markdown(outcomes, about, shown)}\n{end}"
    file.write_text(page[: begin.end()] + text + after, encoding="utf-8")


def render_markdown(
    outcomes: Sequence[Outcome], about: Iterable[str], promises: Container[int] = PROMISES
) -> str:
    """Return the table as Markdown, below a line about the machine."""
    lines = (COLUMNS, ("---",) * len(COLUMNS), *_rows(outcomes, promises))
    table = "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)
    return "\n".join((*about, *_remarks(outcomes), "", table, ""))


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _rows(
    outcomes: Iterable[Outcome], promises: Container[int] = PROMISES
) -> Iterator[tuple[str, ...]]:
    every = [(figure, each) for each in outcomes for figure in each.figures]
    found = [pair for pair in every if pair[0].promise in promises]
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
