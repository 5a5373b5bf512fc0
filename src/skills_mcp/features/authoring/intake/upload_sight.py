"""The paths that an upload touches, for a caller who may not see every skill.

Rule: grants decide about each folder of an archive, whether something is there or not.
What the caller may not see in a folder that is replaced stays there; where it cannot,
the upload is refused in the words for a name that the grants hide.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

from skills_mcp.errors import (
    MissingFileError,
    PackageNotAddedError,
    PackageRefusedError,
)
from skills_mcp.files.entry_names import require_distinct
from skills_mcp.files.opening import open_inside
from skills_mcp.files.paths import fold_name
from skills_mcp.skills.discovery import MAX_SKILL_BYTES
from skills_mcp.skills.model import Scope, SkillPath
from skills_mcp.skills.package import is_main, parse_package
from skills_mcp.skills.visibility import Listed


@dataclass(frozen=True, slots=True)
class FolderContent:
    """The files of a folder, on a disk or in a commit."""

    files: frozenset[str]
    """By their paths in the folder."""
    read: Callable[[str], bytes]
    """Reads one of them; empty if that is not possible."""

    @classmethod
    def of(cls, folder: Path) -> "FolderContent":
        """List a folder of this machine; a link counts as a file.  Blocking."""
        return cls(frozenset(_list_files(folder)), lambda file: _read(folder, file))


@dataclass(frozen=True, slots=True)
class FolderMerge:
    """How a package takes the place of a folder."""

    left_out: frozenset[str] = frozenset()
    """Files of the package that are not taken."""
    carried: frozenset[str] = frozenset()
    """Files of the folder that stay where they are."""
    is_new: bool = False
    """Whether no skill is replaced that the caller sees."""


class UploadSight:
    """What one caller sees at the place of an upload, and below it.

    Args:
        path: The path of the skill.
        sees: Whether the caller sees a skill, or would see it.
    """

    def __init__(self, path: str, sees: Callable[[Listed], bool]) -> None:
        self._path = path
        self._sees = sees

    def require_seen(self, content: FolderContent) -> None:
        """Refuse a package with a folder or a nested skill that the grants hide.

        Raises:
            PackageNotAddedError: There is one.
        """
        packages = _find_packages(content.files)
        for folder in sorted({"", *_find_folders(content.files)}):
            main = packages.get(folder)
            place = self._place(folder)
            if main is not None:
                place = self._read_place(folder, main, content)
            if not self._sees(place):
                self.refuse("the grants hide it", folder)

    def sees_top(self, content: FolderContent) -> bool:
        """Whether the folder is a package that the caller sees."""
        main = _find_packages(content.files).get("")
        return main is not None and self._sees(self._read_place("", main, content))

    def merge(self, standing: FolderContent, coming: FolderContent) -> FolderMerge:
        """Return how a package takes the place of what stands there.

        Raises:
            PackageNotAddedError: The caller may not replace it, or would reach into a
                skill that the grants hide.
        """
        kept, hidden = self._find_hidden(standing), self._find_hidden(coming)
        is_new = "" not in _find_packages(standing.files)
        if is_new and standing.files - kept:
            self.refuse("it is the name of a folder with other files or skills")
        if not is_new and not self.sees_top(standing):
            self.refuse("the caller may not see the skill that is there")
        taken = coming.files - hidden
        if not _lie_apart(taken, kept, _find_packages(kept)):
            self.refuse("it reaches into a skill that the caller may not see")
        return FolderMerge(hidden, kept, is_new)

    def restore(self, standing: FolderContent, earlier: FolderContent) -> FolderMerge:
        """Return how an earlier version takes the place of what stands there.

        Raises:
            PackageNotAddedError: As for `merge`, or the grants hide a part of it that
                is no skill of its own.
        """
        merged = self.merge(standing, earlier)
        seen = earlier.files - merged.left_out
        self.require_seen(FolderContent(seen, earlier.read))
        return merged

    def refuse(self, reason: str, folder: str = "") -> NoReturn:
        """Refuse an upload; only the operator is told whether something is there.

        Raises:
            PackageNotAddedError: Always; its note is the reason.
        """
        error = PackageNotAddedError(
            f"You may not add a skill called {self._place(folder).path} here. Choose "
            "another name, or ask the operator for a grant"
        )
        error.add_note(reason)
        raise error

    def _find_hidden(self, content: FolderContent) -> frozenset[str]:
        """Return the files of nested skills that the caller may not see."""
        packages = _find_packages(content.files)
        hidden = {
            folder
            for folder, main in packages.items()
            if folder and not self._sees(self._read_place(folder, main, content))
        }
        if not hidden:
            return frozenset()
        owned = ((file, _find_owner(file, packages)) for file in content.files)
        return frozenset(file for file, owner in owned if owner in hidden)

    def _place(self, folder: str, name: str = "") -> "_Place":
        path = f"{self._path}/{folder}" if folder else self._path
        return _Place(SkillPath(path), name or path.rpartition("/")[2])

    def _read_place(self, folder: str, main: str, content: FolderContent) -> "_Place":
        """Return what a skill is called, by its frontmatter if that can be read."""
        text = content.read(main).decode("utf-8", "replace")
        place = self._place(folder)
        skill, _ = parse_package(text, file=main, path=place.path, files={})
        return self._place(folder, skill.name) if skill else place


class _Place(NamedTuple):
    """What grants compare of a skill."""

    path: SkillPath
    name: str
    category: str = ""
    scope: Scope = "org"
    always_apply: bool = False


def _find_packages(files: Iterable[str]) -> Mapping[str, str]:
    """Return the folders that are packages, each with its main file."""
    found: dict[str, str] = {}
    for file in sorted(files):
        folder, _, name = file.rpartition("/")
        if is_main(name):
            found.setdefault(folder, file)
    return found


def _find_folders(files: Iterable[str]) -> set[str]:
    return {folder for file in files for folder in _above(file)}


def _above(path: str) -> Iterator[str]:
    """Yield the folders above a path, the innermost first."""
    while path := path.rpartition("/")[0]:
        yield path


def _find_owner(file: str, packages: Collection[str]) -> str | None:
    """Return the innermost package that a file lies in."""
    return next((each for each in (*_above(file), "") if each in packages), None)


def _lie_apart(
    taken: Collection[str], kept: Collection[str], packages: Iterable[str]
) -> bool:
    """Whether no file that is taken lies in a package that is kept, or is its twin."""
    closed = set(map(fold_name, packages))
    reached = (fold_name(each) for file in taken for each in (file, *_above(file)))
    if not closed.isdisjoint(reached):
        return False
    try:
        require_distinct([*taken, *kept], (), lambda _: None)
    except PackageRefusedError:
        return False
    return True


def _list_files(folder: Path) -> Iterator[str]:
    for above, folders, files in os.walk(folder):
        links = (name for name in folders if Path(above, name).is_symlink())
        for name in (*files, *links):
            yield Path(above, name).relative_to(folder).as_posix()


def _read(folder: Path, file: str) -> bytes:
    try:
        with open_inside(folder, file.split("/")) as handle:
            return handle.read(MAX_SKILL_BYTES)
    except (OSError, MissingFileError):
        return b""
