"""Content in which every file says the number of its commit, so that a mix shows."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import Upstream, skill_text

ASSET = "numbers.txt"
"""The file that belongs to the skill at `SKILL`."""
SKILL = "counting"

_SKILLS = tuple(f"{folder}/s{number}.md" for folder in "ab" for number in range(5))
_FILES = (f"{SKILL}.md", f"{SKILL}/{ASSET}", *_SKILLS)
SKILLS = len(_SKILLS) + 2
"""How many skills each commit has."""

# More than the system writes at once, so that half a file can be seen.
_PADDING = "Nothing of this matters. " * 800
_NUMBER = re.compile(r"Number (\d+)\.")


class TornError(Exception):
    """What was read is not one whole commit."""


@dataclass(slots=True)
class Numbers:
    """A repository whose commits are counted."""

    upstream: Upstream
    commits: list[str] = field(default_factory=list)
    """All that were ever pushed; the first has the number 0."""

    @classmethod
    def create(cls, folder: Path) -> "Numbers":
        """Make the repository, and its first commit."""
        numbers = cls(Upstream.create(folder))
        numbers.publish()
        return numbers

    @property
    def newest(self) -> str:
        """The last commit."""
        return self.commits[-1]

    def publish(self) -> str:
        """Push the next commit: each file changes, one is new, and one is gone."""
        number = len(self.commits)
        files: dict[str, str | None] = {f: _write(f, number) for f in _FILES}
        if number:
            files[_only(number - 1)] = None
        files[_only(number)] = _write(_only(number), number)
        commit = self.upstream.commit(files)
        self.commits.append(commit)
        return commit

    def check(self, directory: Path, commit: str | None) -> None:
        """Read every file of a checkout.

        Raises:
            TornError: They are not those of the commit.
            OSError: One of them could not be read.
        """
        check_files(directory, self.commits.index(commit or ""))


def check_files(directory: Path, number: int) -> None:
    """Read every file of a commit.

    Raises:
        TornError: They are not those of the commit with this number.
        OSError: One of them could not be read.
    """
    wanted = sorted((*_FILES, _only(number)))
    found = [path for path in directory.rglob("*") if path.is_file()]
    names = sorted(str(path.relative_to(directory)) for path in found)
    if names != wanted:
        differing = sorted({*names} ^ {*wanted})
        raise TornError(f"commit {number} has other files: {differing}")
    for path in found:
        said = read_numbers(path.read_text(encoding="utf-8"))
        if said != (number, number):
            raise TornError(f"{path} of commit {number} says {said}")


def read_numbers(text: str) -> tuple[int, ...]:
    """Return what a file says: at its beginning and at its end."""
    return tuple(int(number) for number in _NUMBER.findall(text))


def _only(number: int) -> str:
    """Return the file that no other commit has."""
    return f"only/c{number}.md"


def _write(file: str, number: int) -> str:
    said = f"Number {number}.\n\n{_PADDING}\n\nNumber {number}."
    if not file.endswith(".md"):
        return said
    assets = [{"file": ASSET}] if file == f"{SKILL}.md" else []
    return skill_text(keywords=[Path(file).stem], body=said, assets=assets)
