"""Access check of an upload's paths for a caller with restricted visibility."""

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
from skills_mcp.files.entry_names import require_distinct_entries
from skills_mcp.files.opening import open_inside
from skills_mcp.files.paths import fold_name
from skills_mcp.skills.discovery import MAX_SKILL_BYTES
from skills_mcp.skills.model import Scope, SkillPath
from skills_mcp.skills.package import is_skill_md, parse_package
from skills_mcp.skills.visibility import SkillRow


@dataclass(frozen=True, slots=True)
class FolderContent:
    """The files of a folder, on disk or in a commit."""

    files: frozenset[str]
    read: Callable[[str], bytes]
    """Reads one file; empty if unreadable."""

    @classmethod
    def of(cls, folder: Path) -> "FolderContent":
        """List a folder on disk; symbolic links count as files.  Blocking."""
        return cls(frozenset(_list_files(folder)), lambda file: _read(folder, file))


@dataclass(frozen=True, slots=True)
class FolderMerge:
    """Plan for the replacement of a folder by a package."""

    left_out: frozenset[str] = frozenset()
    carried: frozenset[str] = frozenset()
    is_new: bool = False
    """Whether no visible skill is replaced."""


class UploadAccess:
    """One caller's visibility at and below the path of an upload."""

    def __init__(self, path: str, sees: Callable[[SkillRow], bool]) -> None:
        self._path = path
        self._sees = sees

    def require_visible(self, content: FolderContent) -> None:
        """Refuse a package with folders or nested skills hidden by the grants.

        Raises:
            PackageNotAddedError: There is one.
        """
        packages = _find_packages(content.files)
        for folder in sorted({"", *_find_folders(content.files)}):
            main = packages.get(folder)
            listed = self._derive_attributes(folder)
            if main is not None:
                listed = self._read_attributes(folder, main, content)
            if not self._sees(listed):
                self.refuse("the grants hide it", folder)

    def is_top_visible(self, content: FolderContent) -> bool:
        """Whether the folder is a package visible to the caller."""
        main = _find_packages(content.files).get("")
        return main is not None and self._sees(self._read_attributes("", main, content))

    def merge(self, standing: FolderContent, coming: FolderContent) -> FolderMerge:
        """Plan the replacement of the installed folder.

        Raises:
            PackageNotAddedError: The caller may not replace it, or would write into a
            hidden
                skill.
        """
        retained, hidden = self._find_hidden(standing), self._find_hidden(coming)
        is_new = "" not in _find_packages(standing.files)
        if is_new and standing.files - retained:
            self.refuse("it is the name of a folder with other files or skills")
        if not is_new and not self.is_top_visible(standing):
            self.refuse("the caller may not see the skill that is there")
        added = coming.files - hidden
        if not _are_disjoint(added, retained, _find_packages(retained)):
            self.refuse("it reaches into a skill that the caller may not see")
        return FolderMerge(hidden, retained, is_new)

    def restore(self, standing: FolderContent, earlier: FolderContent) -> FolderMerge:
        """Plan the restoration of a previous version.

        Raises:
            PackageNotAddedError: As for `merge`, or the grants hide a part other than a
            nested
                skill.
        """
        merged = self.merge(standing, earlier)
        seen = earlier.files - merged.left_out
        self.require_visible(FolderContent(seen, earlier.read))
        return merged

    def refuse(self, reason: str, folder: str = "") -> NoReturn:
        """Refuse an upload; the reason is a note, for the operator's log only.

        Raises:
            PackageNotAddedError: Always.
        """
        error = PackageNotAddedError(
            f"You may not add a skill called {self._derive_attributes(folder).path} here. Choose "
            "another name, or ask the operator for a grant"
        )
        error.add_note(reason)
        raise error

    def _find_hidden(self, content: FolderContent) -> frozenset[str]:
        packages = _find_packages(content.files)
        hidden = {
            folder
            for folder, main in packages.items()
            if folder and not self._sees(self._read_attributes(folder, main, content))
        }
        if not hidden:
            return frozenset()
        owned = ((file, _find_owner(file, packages)) for file in content.files)
        return frozenset(file for file, owner in owned if owner in hidden)

    def _derive_attributes(self, folder: str, name: str = "") -> "_SkillAttributes":
        path = f"{self._path}/{folder}" if folder else self._path
        return _SkillAttributes(SkillPath(path), name or path.rpartition("/")[2])

    def _read_attributes(
        self, folder: str, main: str, content: FolderContent
    ) -> "_SkillAttributes":
        """Attributes for the grants, with the name in the frontmatter if readable."""
        text = content.read(main).decode("utf-8", "replace")
        listed = self._derive_attributes(folder)
        skill, _ = parse_package(text, file=main, path=listed.path, files={})
        return self._derive_attributes(folder, skill.name) if skill else listed


class _SkillAttributes(NamedTuple):
    path: SkillPath
    name: str
    category: str = ""
    scope: Scope = "org"
    always_apply: bool = False


def _find_packages(files: Iterable[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for file in sorted(files):
        folder, _, name = file.rpartition("/")
        if is_skill_md(name):
            found.setdefault(folder, file)
    return found


def _find_folders(files: Iterable[str]) -> set[str]:
    return {folder for file in files for folder in _iterate_parents(file)}


def _iterate_parents(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _find_owner(file: str, packages: Collection[str]) -> str | None:
    return next((folder for folder in (*_iterate_parents(file), "") if folder in packages), None)


def _are_disjoint(
    added: Collection[str], retained: Collection[str], packages: Iterable[str]
) -> bool:
    """Whether uploaded files neither enter nor collide with retained packages."""
    closed = set(map(fold_name, packages))
    reached = (fold_name(path) for file in added for path in (file, *_iterate_parents(file)))
    if not closed.isdisjoint(reached):
        return False
    try:
        require_distinct_entries([*added, *retained], (), lambda _: None)
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
