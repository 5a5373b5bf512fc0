"""Which content a path belongs to, and that content as the server reads it."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from skills_mcp.config import Settings
from skills_mcp.content.local import LocalFolder
from skills_mcp.content.source import Checkout, Content, Mount, Part
from skills_mcp.library import Snapshot
from skills_mcp.skills.file_tree import FolderTree
from skills_mcp.skills.homes import TOP, Home, Selection
from skills_mcp.skills.model import Problem, Skill
from skills_mcp.skills.package import is_main
from skills_mcp.skills.walk import Package, RuleFile, Survey, WalkLimits
from skills_mcp.snapshots.snapshot import take_snapshot

_HOME = "skills"
_GIT = ".git"
_RULES_FOR_ALL = "_root.md"
_BESIDE_A_HOME = (_GIT, "config.yaml", _RULES_FOR_ALL)
_FROM_THE_TOP = frozenset(
    {"outside-homes", "outside-markdown", "outside-unread", "installed-folder"}
    | {"plugin-not-picked", "plugin-unknown", "manifest"}
)
"""The rules whose problems name their files from the top of the source."""


@dataclass(frozen=True, slots=True)
class ValidationTarget:
    """A path to check, and the content that it is a part of."""

    top: Path
    """Where the content begins: what `SKILLS_DIR` would name."""
    focus: Path
    """The top itself, or a file or folder in it; of a package always its folder."""

    @property
    def subfolder(self) -> str:
        """Which part of the top is served, as `Mount` has it."""
        return TOP if self.top.name == _HOME else ""


class Focus:
    """The files and folders whose findings are reported."""

    def __init__(self, paths: Iterable[Path]) -> None:
        paths = tuple(paths)
        self._named = {*paths, *map(_resource_folder, paths)}
        self._folders = {path.parent for path in paths}

    def covers(self, path: Path) -> bool:
        """Whether findings about `path` are reported."""
        return not self._named.isdisjoint((path, *path.parents))

    def names(self, path: Path) -> bool:
        """Whether findings about exactly this file or folder are asked for."""
        return path in self._named

    def surrounds(self, folder: Path) -> bool:
        """Whether findings about `folder` itself, or files right in it, are."""
        return folder in self._folders or self.covers(folder)


@dataclass(frozen=True, slots=True)
class AuthoredSkill:
    """A file or folder that is meant as a skill, served or not."""

    home: Path
    """The folder that `found` is relative to."""
    found: RuleFile | Package
    served: Skill | None
    """The skill that the server makes of it; None if it is not served."""

    @property
    def file(self) -> Path:
        """The Markdown file."""
        return self.home / self.found.file

    @property
    def is_notice(self) -> bool:
        """Whether it is a text for people, as `README.md` is."""
        return self.served is None and self.file.stem.isupper() and not self.is_package

    @property
    def is_package(self) -> bool:
        """Whether the Agent Skills standard applies to it."""
        return isinstance(self.found, Package)

    @property
    def path(self) -> Path:
        """The folder of a package, or the file of a rule file."""
        return self.resources if self.is_package else self.file

    @property
    def resources(self) -> Path:
        """The folder of the files that belong to it."""
        return self.file.parent if self.is_package else self.file.with_suffix("")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTree:
    """All content below one folder."""

    top: Path
    snapshot: Snapshot
    homes: tuple[Home, ...]
    skills: tuple[AuthoredSkill, ...]

    def problems(self, focus: Focus | None = None) -> Iterator[Problem]:
        """Iterate over what the server reports, with the paths of this machine.

        One problem stands for all ordinary Markdown; a file that is named in `focus`
        has its own.
        """
        for problem in self.snapshot.problems:
            yield replace(problem, file=str(self._locate(problem)))
        for finding in self.snapshot.state.collection.findings if focus else ():
            place = self._locate(finding.problem)
            if focus and focus.names(place):
                yield replace(finding.problem, file=str(place))

    def _locate(self, problem: Problem) -> Path:
        """Return the file of a problem, which names it from the start of its home."""
        at_top = self.top / problem.file
        if problem.rule in _FROM_THE_TOP:
            return at_top
        places = [
            home.directory / problem.file.removeprefix(home.file_prefix)
            for home in reversed(self.homes)  # the first one's prefix is empty
            if problem.file.startswith(home.file_prefix)
        ]
        # A name that was escaped to be shown does not exist on the disk.
        return next(filter(os.path.lexists, (*places, at_top)), places[-1])


def load_tree(top: Path, subfolder: str = "") -> SkillTree:
    """Read all content of a folder, with the `config.yaml` that it brings itself.

    The operator's settings and environment are not used, so that the result is the
    same on every machine.
    """
    selection = Selection(subfolder)
    mount = Mount(source=LocalFolder(top, "the path"), selection=selection)
    checkout = Checkout(top, None, datetime.now(UTC))
    snapshot = take_snapshot(Content((Part(mount, checkout),)), Settings())
    limits = WalkLimits.of(snapshot.config.limits)
    survey = Survey(FolderTree(top), selection, limits)
    folders = [(each, each.at(top, "", "org")) for each in survey.layout.homes]
    served = {skill.location: skill for skill in snapshot.index}
    skills = (
        AuthoredSkill(home.directory, found, served.get(home.directory / found.file))
        for folder, home in folders
        for found in survey.walk(folder)
        if isinstance(found, RuleFile | Package)
    )
    homes = tuple(home for _, home in folders)
    return SkillTree(top=top, snapshot=snapshot, homes=homes, skills=tuple(skills))


def find_target(path: Path) -> ValidationTarget:
    """Return what `path` is a part of.  Looks at the folders above it.

    The content is the nearest folder that is called `skills` or holds a `_root.md`.
    Without one it is the package that the path lies in, or the folder itself.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - a link stays what it is
    is_package = is_main(path.name) and not path.is_dir()
    focus = path.parent if is_package else path
    folder = focus if focus.is_dir() else focus.parent
    top = folder if _is_top(folder) else _find_around(folder)
    return ValidationTarget(_with_settings(top), focus)


def is_repository(folder: Path) -> bool:
    """Whether this is the top of a repository, whose name is each user's choice."""
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
    """Return the folder above if it holds the content's settings or rules."""
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


def _resource_folder(path: Path) -> Path:
    """Return the folder that belongs to a Markdown file."""
    return path.with_suffix("") if path.suffix == ".md" else path
