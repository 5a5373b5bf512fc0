"""What a repository holds, counted by a plain walk, and where all of it has gone.

Rule: the count knows nothing of the program. It takes each `SKILL.md` and each rule
file that it sees in any folder, and the program has to account for all of them.
"""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from repositories.tree import iterate_paths

_MAIN = "skill.md"
_DECLARES_KEYWORDS = re.compile(
    rb"\A(?:\xef\xbb\xbf)?---[ \t]*\r?\n(?:(?!---).*\n)*?keywords[ \t]*:"
)
_HEAD_BYTES = 4096

_SKILLS = "skills/"

_EVERYTHING = "."
"""The file of a problem that sums up what lies in many folders."""

_INSTALLED = frozenset({"node_modules", ".venv", "__pycache__"})
"""Folders that programs fill; one line says how many there are."""


@dataclass(frozen=True, slots=True)
class Census:
    """The files of a repository, by their paths from its top."""

    files: int
    """The number of all files and links."""
    mains: frozenset[str]
    """Each file or link called `SKILL.md`, in any case."""
    rules: frozenset[str]
    """Each Markdown file with keywords.

    What lies in the folder of a package is a file of that package, and a name in
    capitals, such as `README.md`, speaks to people.
    """


def take_census(top: Path) -> Census:
    """Look at every file below a folder; no link is followed."""
    paths = {each.relative_to(top).as_posix(): each for each in iterate_paths(top)}
    mains = frozenset(file for file in paths if _name(file).lower() == _MAIN)
    packages = {os.path.dirname(file) for file in mains}  # noqa: PTH120 - no disk
    return Census(
        len(paths),
        mains,
        frozenset(
            file
            for file, path in paths.items()
            if file not in mains and _is_rule_file(path)
            if packages.isdisjoint(_folders_above(file))
        ),
    )


@dataclass(frozen=True, slots=True)
class Told:
    """What a server says about a repository, by paths from its top."""

    skills: Mapping[str, Collection[str]]
    """The file of each skill that is served, and the other files it hands out."""
    copies: Collection[str]
    """The files of skills that are the same as one that is served."""
    problems: Sequence["ToldProblem"]


@dataclass(frozen=True, slots=True)
class ToldProblem:
    """A problem, and the number of files that it stands for."""

    file: str
    rule: str
    level: str
    reason: str
    hint: str
    count: int


@dataclass(frozen=True, slots=True)
class Account:
    """Where every `SKILL.md` and every rule file of a repository has gone."""

    served: int
    """The skills, and what their folders hand out."""
    copies: int
    named: int
    """The files that have a problem of their own."""
    counted: int
    """The files of which one problem says how many there are in a folder."""
    lost: tuple[str, ...]
    """The rest."""
    miscounted: tuple[str, ...]
    """The folders that hold another number of packages than their problem says."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing was lost, and all numbers are right."""
        return not self.lost and not self.miscounted


def settle(census: Census, told: Told) -> Account:
    """Find each file of a census in what a server says."""
    ledger = _Ledger(told)
    numbers = Counter(ledger.find(file) for file in sorted(census.mains))
    numbers += Counter(ledger.find_rule(file) for file in sorted(census.rules))
    return Account(
        numbers["served"],
        numbers["copies"],
        numbers["named"],
        numbers["counted"],
        tuple(sorted(ledger.lost)),
        tuple(ledger.find_wrong_counts()),
    )


class _Ledger:
    """What a server says of each file, and how often it needs its numbers."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._handed_out = {f for files in told.skills.values() for f in files}
        alone = [each for each in told.problems if not _is_summary(each)]
        self._named = {each.file for each in alone if not each.count}
        self._counts = {each.file: each.count for each in alone if each.count}
        self._sums = Counter({each.rule: each.count for each in told.problems if _is_summary(each)})
        self._packages: dict[str, set[str]] = {folder: set() for folder in self._counts}
        self._rules = 0
        self.lost: list[str] = []

    def find(self, file: str) -> str:
        """Return where a `SKILL.md` has gone."""
        if known := self._find_itself(file):
            return known
        if self._is_of_a_program(file):
            return "counted"
        folders = (file, *_folders_above(file))
        if folder := next(filter(self._counts.__contains__, _shown(folders)), None):
            self._packages[folder].add(os.path.dirname(file))  # noqa: PTH120 - no disk
            return "counted"
        self.lost.append(file)
        return "lost"

    def find_rule(self, file: str) -> str:
        """Return where a rule file has gone; one line may stand for all outside."""
        if known := self._find_itself(file):
            return known
        is_inside = self._named.intersection(_shown(_folders_above(file)))
        if is_inside or self._is_of_a_program(file):
            return "counted"
        if self._rules < self._sums["outside-markdown"] + self._sums["copilot-instructions"]:
            self._rules += 1
            return "counted"
        self.lost.append(file)
        return "lost"

    def find_wrong_counts(self) -> Iterator[str]:
        """Yield the folders that hold another number of packages than is said."""
        for folder, packages in sorted(self._packages.items()):
            if len(packages) != (said := self._counts[folder]):
                yield f"{folder} holds {len(packages)} packages instead of {said}"

    def _find_itself(self, file: str) -> str:
        if file in self._told.skills or file in self._handed_out:
            return "served"
        if file in self._told.copies:
            return "copies"
        return "named" if self._named.intersection(_shown([file])) else ""

    def _is_of_a_program(self, file: str) -> bool:
        """Whether a file lies in one of the folders that one line is about."""
        is_said = self._sums["installed-folder"] > 0
        return is_said and not _INSTALLED.isdisjoint(file.split("/"))


def _is_summary(problem: ToldProblem) -> bool:
    """Whether a problem is about many folders, or about no skill at all."""
    return problem.file == _EVERYTHING or problem.rule == "plain-markdown"


def _shown(files: Iterable[str]) -> Iterator[str]:
    """Iterate over paths as messages have them: those of `skills/` begin there."""
    for file in files:
        shown = _printable(file)
        yield shown
        yield shown.removeprefix(_SKILLS)


def _is_rule_file(path: Path) -> bool:
    if path.suffix != ".md" or path.is_symlink() or path.stem.isupper():
        return False
    with path.open("rb") as handle:
        return bool(_DECLARES_KEYWORDS.match(handle.read(_HEAD_BYTES)))


def _folders_above(file: str) -> Iterator[str]:
    """Iterate over the folders above a file, the nearest first; the top is empty."""
    while file:
        file = file.rpartition("/")[0]
        yield file


def _name(file: str) -> str:
    return file.rpartition("/")[2]


def _printable(file: str) -> str:
    """Return a path as it is shown; what would steer a terminal is escaped."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in file
    )
