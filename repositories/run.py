"""Every way to lay a repository of skills out, served, and all of it accounted for.

`make repositories` makes a tree of each layout, serves it as a folder and as a Git
repository, each in a process of its own, and prints what was served, named and lost.
`make repositories ARGUMENTS="FOLDER …"` does the same with folders of yours.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from repositories.census import Account, Census, Told, ToldProblem, settle, take_census
from repositories.layouts import BIG, LAYOUTS, make_layout
from repositories.tree import Tree, load_tree

PROJECT = Path(__file__).parent.parent

COLUMNS = (
    *("Repository", "As", "Files", "SKILL.md", "Rules", "Skills", "Served", "Copies"),
    *("Named", "Counted", "Lost", "Problems", "Same", "CPU s", "Again s", "MiB"),
    *("Reply", "KiB to serve", "KiB on disk"),
)

_WIDTH = 210

_KIBIBYTE = 1024

_LAST_CHARACTERS = 2000
"""The end of a traceback, which is where the reason stands."""

_console = Console(stderr=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What became of one repository, as a folder or as a repository."""

    name: str
    kind: str
    census: Census
    account: Account
    skills: int
    problems: tuple[ToldProblem, ...]
    is_same: bool | None
    """Whether it says the same as for the folder; None for the folder itself."""
    cpu_seconds: float
    again_seconds: float
    """The CPU of a second start, which finds what the first one has kept."""
    peak_mebibytes: float
    reply_characters: int
    servable_bytes: int
    """The size of the skills, with all files that they hand out."""
    disk_bytes: int
    """The size of everything that the server has kept: of a folder only the index."""
    error: str = ""

    @property
    def is_met(self) -> bool:
        """Whether all of it is accounted for, in the same way as in the folder."""
        return not self.error and self.account.is_complete and self.is_same is not False


class Subject(NamedTuple):
    """A repository to look at, as both kinds of source."""

    name: str
    folder: Path
    url: str


def main() -> None:
    """Print the table; end with 1 if anything is lost or differs."""
    chosen = parse()
    rows = [row for each in open_subjects(chosen) for row in look_at(*each)]
    print_table(rows)
    if chosen.json:
        write_json(chosen.json, rows)
    sys.exit(not all(row.is_met for row in rows))


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="make repositories",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", nargs="*", type=Path, help="repositories on this disk, instead")
    parser.add_argument(
        "--only",
        action="append",
        choices=[*LAYOUTS, BIG],
        metavar="LAYOUT",
        help=f"make this layout, may be repeated: %(choices)s; {BIG} has 20,000 "
        "packages, and is made only if it is named here",
    )
    parser.add_argument("--json", type=Path, help="a file for machines")
    return parser.parse_args(arguments)


def open_subjects(chosen: argparse.Namespace) -> Iterator[tuple[Subject, Path]]:
    """Iterate over the repositories, each with a folder for the server's own files."""
    folders: list[Path] = [each.resolve() for each in chosen.folders]
    for folder in folders:
        with _work_folder(folder.name) as work:
            url = load_tree(folder).commit(work / "upstream.git")
            yield Subject(folder.name, folder, url), work
    names = chosen.only or ([] if folders else LAYOUTS)
    for name in names:
        with _work_folder(name) as work:
            yield make_subject(name, make_layout(name), work), work


def make_subject(name: str, tree: Tree, work: Path) -> Subject:
    """Write a tree in both ways."""
    folder = tree.write(work / "folder")
    return Subject(name, folder, tree.commit(work / "upstream.git"))


def look_at(subject: Subject, work: Path) -> Iterator[Row]:
    """Serve a repository in both ways, and yield what came of it."""
    census = take_census(subject.folder)
    first: Told | None = None
    for kind, place in (("folder", str(subject.folder)), ("repository", subject.url)):
        home = work / f"home-{kind}"
        home.mkdir()
        found = _visit(home, kind, place)
        if "error" in found:
            yield _failed(subject.name, kind, census, str(found["error"]))
            continue
        told = _parse_told(found["told"])
        disk = measure_disk(home)
        yield Row(
            name=subject.name,
            kind=kind,
            census=census,
            account=settle(census, told),
            skills=len(told.skills),
            problems=tuple(told.problems),
            is_same=None if kind == "folder" else is_same(told, first),
            cpu_seconds=found["cpu_seconds"],
            again_seconds=_visit(home, kind, place).get("cpu_seconds", 0.0),
            peak_mebibytes=found["peak_mebibytes"],
            reply_characters=found["reply_characters"],
            servable_bytes=found["servable_bytes"],
            disk_bytes=disk,
        )
        first = told


def is_same(told: Told, other: Told | None) -> bool:
    """Whether two kinds of source say the same of one repository.

    A folder cannot tell that a submodule of its repository is not checked out.
    """
    return other is not None and _without_submodules(told) == _without_submodules(other)


def _without_submodules(told: Told) -> Told:
    kept = [each for each in told.problems if each.rule != "submodule"]
    return replace(told, problems=kept)


def measure_disk(folder: Path) -> int:
    """Return the bytes of all files below a folder; a file of two names counts once."""
    sizes: dict[int, int] = {}
    for above, _, names in os.walk(folder):
        for name in names:
            found = Path(above, name).lstat()
            sizes[found.st_ino] = found.st_size
    return sum(sizes.values())


def print_table(rows: Sequence[Row]) -> None:
    """Print a line for each row, and below them what is lost."""
    table = Table(*COLUMNS)
    for row in rows:
        table.add_row(*render_row(row), style="" if row.is_met else "bold red")
    # A file or a pipe has no width, and a narrow table cannot be read.
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    console.print(table)
    for line in _remarks(rows):
        console.print(line, markup=False, highlight=False)


def render_row(row: Row) -> tuple[str, ...]:
    """Return the cells of a row."""
    account, census = row.account, row.census
    same = {None: "", True: "yes", False: "no"}[row.is_same]
    numbers = (
        *(census.files, len(census.mains), len(census.rules), row.skills),
        *(account.served, account.copies, account.named, account.counted),
        *(len(account.lost), len(row.problems)),
    )
    return (
        row.name,
        row.kind,
        *(f"{number:,}" for number in numbers),
        same,
        f"{row.cpu_seconds:.2f}",
        f"{row.again_seconds:.2f}",
        f"{row.peak_mebibytes:.0f}",
        f"{row.reply_characters:,}",
        f"{row.servable_bytes / _KIBIBYTE:,.0f}",
        f"{row.disk_bytes / _KIBIBYTE:,.0f}",
    )


def write_json(file: Path, rows: Iterable[Row]) -> None:
    """Write all rows as JSON."""
    shown = [_render_json(row) for row in rows]
    file.write_text(json.dumps(shown, indent=2) + "\n", encoding="utf-8")


def _render_json(row: Row) -> dict[str, Any]:
    census = row.census
    return asdict(row) | {
        "census": {
            "files": census.files,
            "mains": len(census.mains),
            "rules": len(census.rules),
        },
        "is_met": row.is_met,
    }


def _visit(home: Path, kind: str, place: str) -> dict[str, Any]:
    """Return what a server in a new process says."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "SKILLS_MCP_HOME": str(home / ".skills-mcp"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "repositories.visit", kind, place],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout:
        return {"error": done.stderr[-_LAST_CHARACTERS:]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _parse_told(found: dict[str, Any]) -> Told:
    problems = [ToldProblem(**each) for each in found["problems"]]
    return Told(found["skills"], found["copies"], problems)


def _failed(name: str, kind: str, census: Census, error: str) -> Row:
    lost = tuple(sorted(census.mains | census.rules))
    return Row(
        name=name,
        kind=kind,
        census=census,
        account=Account(0, 0, 0, 0, lost, ()),
        skills=0,
        problems=(),
        is_same=None,
        cpu_seconds=0,
        again_seconds=0,
        peak_mebibytes=0,
        reply_characters=0,
        servable_bytes=0,
        disk_bytes=0,
        error=error,
    )


def _remarks(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines about what is wrong."""
    for row in rows:
        about = f"{row.name}, {row.kind}"
        if row.error:
            yield f"{about}: {row.error}"
            continue
        yield from (f"{about}: lost {file}" for file in row.account.lost[:10])
        yield from (f"{about}: {wrong}" for wrong in row.account.miscounted)
        if row.is_same is False:
            yield f"{about}: says something else than the folder; see --json"


@contextmanager
def _work_folder(name: str) -> Iterator[Path]:
    _console.print(f"[dim]{name}[/dim]", highlight=False)
    with tempfile.TemporaryDirectory(
        prefix="skills-mcp-repositories-", ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


if __name__ == "__main__":
    main()
