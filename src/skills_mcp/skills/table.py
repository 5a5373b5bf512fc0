"""Many skills in little memory: each is made when somebody asks for it.

Ten thousand skills as objects are larger than all the rest of the server. Here they
are records in a few arrays, which a file can hold and every process on the machine can
share; a skill is a slice of them. What all skills are asked for at once (paths, names,
categories) is beside the records.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import starmap
from pathlib import Path
from typing import Any, overload

from numpy.typing import NDArray

from skills_mcp.files.arrays import Sliceable
from skills_mcp.skills.model import Skill, Stamp
from skills_mcp.skills.records import Place, Row, Said, decode, decode_said

Arrays = Mapping[str, NDArray[Any]]

Inside = tuple[str | None, list[str]]
"""A skill's folder, in its place, and the names of its files."""

# More than one answer needs, so that the rules of a folder are made once for all of
# its skills.
_REMEMBERED = 256


class SkillTable(Sequence[Skill]):
    """The skills of one state of the content, in path order.  Never changes.

    Args:
        arrays: As `pack` made them, here or in another process.
        text: What the skills say, one after the other; the same.

    Raises:
        ValueError: The arrays do not belong together.
    """

    def __init__(self, arrays: Arrays, text: Sliceable) -> None:
        _check(arrays, text)
        self.arrays = arrays
        self.text = text
        self._lines = _Lines(arrays, text)
        # Not of ourselves: nobody could free us but the garbage collector.
        self._get = lru_cache(maxsize=_REMEMBERED)(self._lines.make)

    def __len__(self) -> int:
        return len(self._lines.ends) - 1

    @overload
    def __getitem__(self, number: int) -> Skill: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Skill, ...]: ...
    def __getitem__(self, number: int | slice) -> Skill | tuple[Skill, ...]:
        if isinstance(number, slice):
            return tuple(map(self._lines.make, range(*number.indices(len(self)))))
        if not -len(self) <= number < len(self):
            raise IndexError(number)
        return self._get(number % len(self))

    def __iter__(self) -> Iterator[Skill]:
        return map(
            self._lines.make, range(len(self))
        )  # without driving out what is in use

    def rows(self) -> Iterator[Row]:
        """Iterate over what is known without making the skills."""
        columns = (self.column(name) for name in ("paths", "names", "categories"))
        scopes = [place.scope for place in self.places]
        whose = map(scopes.__getitem__, self.arrays["homes"].tolist())
        return starmap(Row, zip(*columns, whose, strict=True))

    @cached_property
    def listed(self) -> tuple[Row, ...]:
        """The same, all at once."""
        return tuple(self.rows())

    def declared(self) -> Iterator[tuple[list[str], int]]:
        """Iterate over the keywords and the priority of each skill."""
        return zip(self.column("keywords"), self.column("priorities"), strict=True)

    @property
    def places(self) -> tuple[Place, ...]:
        """The folders that the skills were read from."""
        return self._lines.places

    def place(self, number: int) -> int:
        """Return the number of the folder that a skill was read from."""
        return int(self.arrays["homes"][number])

    def files(self) -> Iterator[tuple[str, int, int]]:
        """Iterate over the Markdown files: path in its place, place, skill."""
        places = self.arrays["homes"].tolist()
        files = zip(self._files, places, strict=True)
        return ((file, place, number) for number, (file, place) in enumerate(files))

    def file(self, number: int) -> str:
        """Return a skill's Markdown file, relative to the content's root."""
        return self.places[self.place(number)].prefix + self._files[number]

    def owns_folder(self, number: int) -> bool:
        """Whether a skill had a folder with files."""
        return bool(self.arrays["folders"][number])

    def checksum(self, number: int) -> int:
        """Return the checksum of the names of a skill's files."""
        return int(self.arrays["checksums"][number])

    def main(self, number: int) -> Stamp:
        """Return how a skill's Markdown file looked when it was read."""
        return self._lines.stamps(number)[0]

    def stamps(self, number: int) -> list[Stamp]:
        """Return how the files of a skill looked, in the order of their names."""
        return self._lines.stamps(number)[1:]

    def characters(self, number: int) -> int:
        """Return how long the text of a skill is."""
        return int(self.arrays["characters"][number])

    def record(self, number: int) -> bytes:
        """Return what a skill says, wherever it lies, as `pack` wrote it."""
        return self._lines.record(number)

    def said(self, number: int) -> Said:
        """Return what routing reads of a skill; the rest of it is not made."""
        return decode_said(self.record(number))

    def records(self, start: int, end: int) -> bytes:
        """Return the same of several, one after the other."""
        return self.text[self._lines.ends[start] : self._lines.ends[end]]

    def length(self, number: int) -> int:
        """Return how long a record is, in bytes."""
        return self._lines.ends[number + 1] - self._lines.ends[number]

    def inside(self, number: int) -> Inside:
        """Return where a skill's files are, and their names, ordered as `stamps`."""
        folder, names = self._insides[number]
        return folder, names

    @cached_property
    def _insides(self) -> list[Inside]:
        return self.column("inside")

    @cached_property
    def _files(self) -> list[str]:
        return self.column("files")

    def column(self, name: str) -> list[Any]:
        """Return one thing of all skills."""
        column: list[Any] = json.loads(bytes(self.arrays[name]))
        return column


class _Lines:
    """The records, and how the files of each skill looked."""

    def __init__(self, arrays: Arrays, text: Sliceable) -> None:
        self.ends: list[int] = arrays["record_ends"].tolist()
        self._text = text
        self._stamps = arrays["stamps"]
        self._stamp_ends: list[int] = arrays["stamp_ends"].tolist()
        self._homes = arrays["homes"]
        places = json.loads(bytes(arrays["places"]))
        self.places = tuple(Place(Path(at), *others) for at, *others in places)

    def record(self, number: int) -> bytes:
        return self._text[slice(*self.ends[number : number + 2])]

    def stamps(self, number: int) -> list[Stamp]:
        its = slice(*self._stamp_ends[number : number + 2])
        return list(starmap(Stamp, self._stamps[its].tolist()))

    def make(self, number: int) -> Skill:
        place = self.places[int(self._homes[number])]
        return decode(self.record(number), place, self.stamps(number)[1:])


def _check(arrays: Arrays, text: Sliceable) -> None:
    """Refuse arrays that are not of one table: a file may be damaged."""
    count = len(arrays["record_ends"]) - 1
    ends = (
        (arrays["record_ends"], text),
        (arrays["stamp_ends"], arrays["stamps"]),
    )
    fits = all(
        len(each) == count + 1
        and int(each[0]) == 0
        and int(each[-1]) == len(whole)
        and bool((each[1:] >= each[:-1]).all())
        for each, whole in ends
    )
    numbers = ("homes", "characters", "folders", "checksums")
    lengths = {len(arrays[name]) for name in numbers}
    if not fits or lengths != {count} or arrays["stamps"].shape[1:] != (3,):
        raise ValueError("the arrays of a table do not fit together")
