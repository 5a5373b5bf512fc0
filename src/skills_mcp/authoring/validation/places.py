"""Which content a path belongs to, so that it is judged with what is around it."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from skills_mcp.content.source import TOP
from skills_mcp.skills.package import is_main

_HOME = "skills"
_GIT = ".git"
_RULES_FOR_ALL = "_root.md"
_BESIDE_A_HOME = (_GIT, "config.yaml", _RULES_FOR_ALL)


@dataclass(frozen=True, slots=True)
class Place:
    """What somebody asks about, and the content that it is a part of."""

    top: Path
    """Where the content begins: what `SKILLS_DIR` would name."""
    focus: Path
    """The top itself, or a file or folder in it; of a package always its folder."""

    @property
    def subfolder(self) -> str:
        """Which part of the top is served, as `Mount` has it."""
        return TOP if self.top.name == _HOME else ""


class Focus:
    """The files and folders that somebody asks about."""

    def __init__(self, paths: Iterable[Path]) -> None:
        paths = tuple(paths)
        self._named = {*paths, *map(_resources, paths)}
        self._folders = {path.parent for path in paths}

    def covers(self, path: Path) -> bool:
        """Whether what is wrong with `path` is of interest."""
        return not self._named.isdisjoint((path, *path.parents))

    def surrounds(self, folder: Path) -> bool:
        """Whether it is about files right in this folder, or about all of it."""
        return folder in self._folders or self.covers(folder)


def find_place(path: Path) -> Place:
    """Return what `path` is a part of.  Looks at the folders above it.

    The content is the nearest folder that is called `skills` or holds a `_root.md`.
    Without one it is the package that the path lies in, or the folder itself.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - a link stays what it is
    is_package = is_main(path.name) and not path.is_dir()
    focus = path.parent if is_package else path
    folder = focus if focus.is_dir() else focus.parent
    top = folder if _is_top(folder) else _find_around(folder)
    return Place(_with_settings(top), focus)


def is_repository(folder: Path) -> bool:
    """Whether this is the top of a repository, which everybody calls as they like."""
    return (folder / _GIT).exists() or (folder / _HOME).is_dir()


def _is_top(folder: Path) -> bool:
    if _is_home(folder) or (folder / _GIT).exists():
        return True
    return is_repository(folder) and not _is_package(folder)


def _find_around(folder: Path) -> Path:
    package = folder
    for above in folder.parents:
        if _is_home(above):
            return above
        if package == folder and _is_package(above):
            package = above
        if (above / _GIT).exists():
            break
    return folder if _is_package(folder) else package


def _with_settings(top: Path) -> Path:
    """Return the folder above if the content's settings or rules stand there."""
    above = top.parent
    has_more = any((above / name).exists() for name in _BESIDE_A_HOME)
    return above if top.name == _HOME and has_more else top


def _is_home(folder: Path) -> bool:
    return folder.name == _HOME or (folder / _RULES_FOR_ALL).is_file()


def _is_package(folder: Path) -> bool:
    try:
        return any(is_main(path.name) for path in folder.iterdir())
    except OSError:
        return False


def _resources(path: Path) -> Path:
    """Return the folder that belongs to a Markdown file."""
    return path.with_suffix("") if path.suffix == ".md" else path
