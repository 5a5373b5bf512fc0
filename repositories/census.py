"""What a repository holds, counted by a plain walk, and where all of it has gone.

Rule: the count knows nothing of the program. It takes each `SKILL.md` and each rule
file that it sees, wherever that lies, and the program has to account for all of them.
"""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from repositories.tree import iterate_paths

_MAIN = "skill.md"
_RULE_NAMES = frozenset({"_root.md", "_index.md"})
_DECLARES_KEYWORDS = re.compile(
    rb"\A(?:\xef\xbb\xbf)?---[ \t]*\r?\n(?:(?!---).*\n)*?keywords[ \t]*:"
)
_HEAD_BYTES = 4096

_SKILLS = "skills/"


@dataclass(frozen=True, slots=True)
class Census:
    """The files of a repository, by their paths from its top."""

    files: int
    """The number of all files and links."""
    mains: frozenset[str]
    """Each file or link called `SKILL.md`, in any case."""
    rules: frozenset[str]
    """Each Markdown file with keywords, and each `_root.md` and `_index.md`.

    What lies in the folder of a package is a file of that package.
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
    """The files in folders of which one problem says how many they hold."""
    lost: tuple[str, ...]
    """The rest."""
    miscounted: tuple[str, ...]
    """The folders of which a problem says another number than there are."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing was lost, and all numbers are right."""
        return not self.lost and not self.miscounted


def settle(census: Census, told: Told) -> Account:
    """Find each file of a census in what a server says."""
    handed_out = {file for files in told.skills.values() for file in files}
    named = {each.file for each in told.problems if not each.count}
    counts = {each.file: each.count for each in told.problems if _is_folder(each)}
    numbers: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    lost: list[str] = []
    for file in sorted(census.mains | census.rules):
        shown = _printable(file)
        places = {shown, shown.removeprefix(_SKILLS)}
        if file in told.skills or file in handed_out:
            numbers["served"] += 1
        elif file in told.copies:
            numbers["copies"] += 1
        elif named & places:
            numbers["named"] += 1
        elif folder := next(filter(counts.__contains__, _folders_above(shown)), None):
            inside[folder] += 1
        else:
            lost.append(file)
    wrong = (
        f"{folder} holds {inside[folder]} instead of {count}"
        for folder, count in sorted(counts.items())
        if inside[folder] != count
    )
    return Account(
        numbers["served"],
        numbers["copies"],
        numbers["named"],
        inside.total(),
        tuple(lost),
        tuple(wrong),
    )


def _is_folder(problem: ToldProblem) -> bool:
    """Whether a problem says how many skills a folder holds."""
    return problem.count > 0 and problem.rule != "plain-markdown"


def _is_rule_file(path: Path) -> bool:
    if path.suffix != ".md" or path.is_symlink():
        return False
    if path.name in _RULE_NAMES:
        return True
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
        each if each.isprintable() else each.encode("unicode_escape").decode()
        for each in file
    )
