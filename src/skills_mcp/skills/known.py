"""What was read of a place before, and what of it is still the same.

Rule: a skill is kept only if nothing that belongs to it can have changed. Whatever is
doubtful is read again, and so is every file that had a problem.
"""

import os
import stat
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from skills_mcp.skills.found import Package, RuleFile
from skills_mcp.skills.model import Stamp
from skills_mcp.skills.package import is_main
from skills_mcp.skills.packing import Kept, checksum
from skills_mcp.skills.records import Place
from skills_mcp.skills.table import SkillTable


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPlace:
    """The skills of one place, as an earlier reading found them.

    Args:
        place: Where it is now.
        table: The skills of that reading.
        numbers: Where the skill of each Markdown file of the place is in it.
        files: The same Markdown files, sorted.
        faulty: The files that had problems, and the folders they are in, with the
            prefix of their place.
        doubtful: The folders that need a look, with all that is below them, whatever
            else is known; see `derive_doubtful`.
        touched: The files that differ between then and now, and the folders they are
            in; None if only their stamps can tell.
        seen: How many files and folders there can be now.
    """

    place: Place
    table: SkillTable
    numbers: Mapping[str, int]
    files: Sequence[str]
    faulty: Collection[str]
    doubtful: frozenset[str]
    touched: Collection[str] | None
    seen: int
    _kept: dict[str, Sequence[Kept]] = field(default_factory=dict, init=False)

    def is_known(self, folder: str) -> bool:
        """Whether nothing below a folder can have changed, and all of it was well."""
        if self.touched is None or folder in self.touched:
            return False
        if self.place.prefix + folder in self.faulty:
            return False
        if not self.doubtful.isdisjoint(_find_above(folder)):
            return False
        kept = []
        for each in self._look_below(folder):
            if each is None:
                return False  # somebody deletes what is served
            kept.append(each)
        self._kept[folder] = kept
        return True

    def below(self, folder: str) -> Sequence[Kept]:
        """Return the skills of a folder that is known."""
        return self._kept.pop(folder)

    def _look_below(self, folder: str) -> Iterator[Kept | None]:
        """Iterate over the skills of a folder; None for one that has lost a file."""
        start = bisect_left(self.files, f"{folder}/")
        end = bisect_left(self.files, f"{folder}0")  # 0 is what follows /
        for file in self.files[start:end]:
            number = self.numbers[file]
            stamps = self._look_again(number)
            # How the Markdown file looks tells nothing beside its commit.
            main = self.table.main(number)
            if stamps is None:
                yield None
            else:
                yield Kept(table=self.table, number=number, main=main, files=stamps)

    def _look_again(self, number: int) -> Mapping[str, Stamp] | None:
        folder, names = self.table.inside(number)
        return _look(f"{self.place.directory}/{folder}", names) if names else {}

    def find(self, found: RuleFile | Package) -> Kept | None:
        """Return the skill if nothing that belongs to it can have changed."""
        number = self.numbers.get(found.file)
        stamp = found.stamp
        if number is None or stamp is None or self._is_faulty(found, number):
            return None
        files = self._files(found, number, stamp)
        if files is None:
            return None
        return Kept(table=self.table, number=number, main=stamp, files=files)

    def _is_faulty(self, found: RuleFile | Package, number: int) -> bool:
        """Whether the file, or one in its folder, had a problem."""
        file = self.table.file(number)
        prefix = file.removesuffix(found.file)
        return file in self.faulty or prefix + _folder(found) in self.faulty

    def _files(
        self, found: RuleFile | Package, number: int, stamp: Stamp
    ) -> Mapping[str, Stamp] | None:
        """Return the files as they look now, or None if any of them may be new."""
        if isinstance(found, Package):
            folder = found.folder
        else:
            folder = found.file.removesuffix(".md")
        if self.touched is not None:
            if found.file in self.touched or folder in self.touched:
                return None
        elif self.table.main(number) != stamp:
            return None
        if isinstance(found, Package):
            return self._of_package(found, number, stamp)
        owns_folder = self.table.owns_folder(number)
        if found.directory is None:
            return None if owns_folder else {}
        # Where stamps have to tell, they do not say what has been added.
        if self.touched is None or not owns_folder:
            return None
        return _look(str(found.directory), self.table.inside(number)[1])

    def _of_package(
        self, found: Package, number: int, stamp: Stamp
    ) -> Mapping[str, Stamp] | None:
        files = dict(sorted({**found.files, found.main: stamp}.items()))
        if self.table.checksum(number) != checksum(files):
            return None
        is_same = self.touched is not None
        is_same = is_same or self.table.stamps(number) == list(files.values())
        return files if is_same else None


def _folder(found: RuleFile | Package) -> str:
    """Return the folder that belongs to it, whether it is there or not."""
    if isinstance(found, Package):
        return found.folder
    return found.file.removesuffix(".md")


def derive_touched(changed: Collection[str], inside: str) -> frozenset[str]:
    """Return the changed files of a folder and all folders above them in it.

    Args:
        changed: Relative to the top of the content.
        inside: The folder, relative to the same; `.` for the top itself.

    >>> sorted(derive_touched(["skills/ui/a.md", "README.md"], "skills"))
    ['', 'ui', 'ui/a.md']
    """
    prefix = "" if inside == "." else f"{inside}/"
    touched = set()
    for file in changed:
        if file.startswith(prefix):
            path = PurePosixPath(file.removeprefix(prefix))
            touched |= {path.as_posix(), *(p.as_posix() for p in path.parents)}
    return frozenset(each if each != "." else "" for each in touched)


def derive_doubtful(
    touched: Collection[str], told: Collection[str], prefix: str
) -> frozenset[str]:
    """Return the folders that may hold other skills, although no file in them differs.

    A file turns the folder of its name into its own, and a main file turns one into a
    package; when they go, all that is below becomes skills. What had a problem may
    have kept everything below it from being looked at.

    Args:
        touched: As `derive_touched` returns it.
        told: The files and folders that had problems, with the prefix of their place.
        prefix: That of this place.

    >>> sorted(derive_doubtful(["ui.md", "pdf/SKILL.md"], ["x/.", "x/a"], "x/"))
    ['', 'a', 'pdf', 'pdf/SKILL', 'ui']
    """
    owned = {each.removesuffix(".md") for each in touched if each.endswith(".md")}
    mains = (path for path in map(PurePosixPath, touched) if is_main(path.name))
    reported = (
        path for path in map(PurePosixPath, told) if path.is_relative_to(prefix)
    )
    folders = {
        *(path.parent for path in mains),
        *(path.relative_to(prefix) for path in reported),
    }
    return frozenset(owned | {str(path) if path.parts else "" for path in folders})


def _find_above(folder: str) -> Iterator[str]:
    """Iterate over a folder and those that it is in; the last one is the place."""
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
    yield ""


def _look(directory: str, names: Collection[str]) -> Mapping[str, Stamp] | None:
    """Return how some files look, or None if one is not there or no plain file."""
    stamps = {}
    for name in names:
        try:
            found = os.lstat(f"{directory}/{name}")  # ten thousand of them
        except OSError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        stamps[name] = Stamp.of(found)
    return stamps
