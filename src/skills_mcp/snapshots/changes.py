"""What a refresh changed: the skills that came, went, or say something else.  Pure.

Two states that were served are compared, and not the commits between them, so it does
not matter who has brought the newer one here.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skills_mcp.skills.model import SkillPath

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    from skills_mcp.skills.table import SkillTable

ChangedFiles = Mapping[Path, Collection[str]]
"""By the top of a newer checkout: its files that differ from those before."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The skills that one state offers."""

    table: "SkillTable"
    numbers: Sequence[int]
    """Which of the table's, in path order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillChanges:
    """How one state differs from another, each list in path order."""

    added: tuple[SkillPath, ...] = ()
    changed: tuple[SkillPath, ...] = ()
    """Those whose own text, frontmatter or files are not the same."""
    removed: tuple[SkillPath, ...] = ()
    broken: tuple[str, ...] = ()
    """Files that cannot be served any more, or never could, and why."""


def derive_changes(
    before: Offer | None, after: Offer | None, changed_files: ChangedFiles
) -> SkillChanges:
    """Return how what is offered now differs from what was offered before.

    Args:
        before: None if there was nothing.
        after: None if there is nothing.
        changed_files: What the sources themselves say, so that an edit is seen that
            leaves the size of a file as it was; empty where they cannot tell.
    """
    old, new = _by_path(before), _by_path(after)
    return SkillChanges(
        added=tuple(path for path in new if path not in old),
        changed=tuple(_find_changed(before, after, changed_files)),
        removed=tuple(path for path in old if path not in new),
    )


def is_listing_changed(before: Offer | None, after: Offer) -> bool:
    """Whether a list of skills with their descriptions would look different."""
    if before is None:
        return len(after.numbers) > 0
    old, new = _by_path(before), _by_path(after)
    if list(old) != list(new):
        return True
    if before.table is after.table:
        return False
    return any(
        _tell(before.table, old[path]) != _tell(after.table, number)
        for path, number in new.items()
        if before.table.record(old[path]) != after.table.record(number)
    )


def _tell(table: "SkillTable", number: int) -> tuple[str, str]:
    said = table.said(number)
    return said.name, said.description


def _by_path(offer: Offer | None) -> dict[SkillPath, int]:
    if offer is None:
        return {}
    listed = offer.table.listed
    return {listed[number].path: number for number in offer.numbers}


def _find_changed(
    before: Offer | None, after: Offer | None, changed_files: ChangedFiles
) -> Iterator[SkillPath]:
    if before is None or after is None:
        return
    old = _by_path(before)
    touched = frozenset(_find_touched(after.table, changed_files))
    looks = _Looks(before.table, after.table)
    for path, number in _by_path(after).items():
        was = old.get(path)
        if was is not None and (number in touched or looks.differ(was, number)):
            yield path


class _Looks:
    """Compares what skills say, and how their files look, between two tables."""

    def __init__(self, before: "SkillTable", after: "SkillTable") -> None:
        self._before, self._after = before, after
        self._old, self._new = _Files(before), _Files(after)
        self._same_places = {
            (old, new)
            for old, place in enumerate(before.places)
            for new, other in enumerate(after.places)
            if place.directory == other.directory
        }

    def differ(self, was: int, number: int) -> bool:
        """Whether a skill is not what it was."""
        if self._before is self._after and was == number:
            return False
        if self._before.record(was) != self._after.record(number):
            return True
        old, new = self._old, self._new
        if old.sizes(was) != new.sizes(number):
            return True
        # Another commit has a folder of its own, where every file is new.
        is_same_folder = (old.homes[was], new.homes[number]) in self._same_places
        return is_same_folder and old.times(was) != new.times(number)


class _Files:
    """How the files of the skills of a table look, as lists: they are compared fast."""

    def __init__(self, table: "SkillTable") -> None:
        stamps = table.arrays["stamps"]
        self._sizes: list[int] = stamps[:, 0].tolist()
        self._times: list[int] = stamps[:, 1].tolist()
        self._ends: list[int] = table.arrays["stamp_ends"].tolist()
        self.homes: list[int] = table.arrays["homes"].tolist()
        """The number of each skill's place."""

    def sizes(self, number: int) -> list[int]:
        return self._sizes[self._ends[number] : self._ends[number + 1]]

    def times(self, number: int) -> list[int]:
        return self._times[self._ends[number] : self._ends[number + 1]]


def _find_touched(table: "SkillTable", changed_files: ChangedFiles) -> Iterator[int]:
    """Iterate over the skills that have one of the files."""
    for top, files in changed_files.items():
        for place, inside in _find_places(table, top):
            own = {f.removeprefix(inside) for f in files if f.startswith(inside)}
            if own:
                yield from _find_owners(table, place, own)


def _find_places(table: "SkillTable", top: Path) -> Iterator[tuple[int, str]]:
    """Iterate over the places in a checkout, and what leads from its top to each."""
    for number, place in enumerate(table.places):
        if place.directory.is_relative_to(top):
            inside = place.directory.relative_to(top).as_posix()
            yield number, "" if inside == "." else f"{inside}/"


def _find_owners(
    table: "SkillTable", place: int, files: Collection[str]
) -> Iterator[int]:
    for main, home, number in table.files():
        if home != place:
            continue
        folder, names = table.inside(number)
        prefix = "" if folder in {None, "."} else f"{folder}/"
        if main in files or any(f"{prefix}{name}" in files for name in names):
            yield number
