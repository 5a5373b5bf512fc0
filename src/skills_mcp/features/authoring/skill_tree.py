"""Content root of a path, and its tree as the server reads it."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from skills_mcp.config import Settings
from skills_mcp.content.source import Checkout, Content, ContentPart, LocalFolder, Mount
from skills_mcp.library import Snapshot
from skills_mcp.skills.model import Problem, Skill
from skills_mcp.skills.skill_discovery import Package, RuleFile, SourceWalk
from skills_mcp.skills.skill_parser import is_skill_md
from skills_mcp.skills.source_layout import TOP_SUBFOLDER, FolderTree, Selection, SkillRoot
from skills_mcp.snapshots.skill_snapshot import take_snapshot

_HOME = "skills"
_GIT = ".git"
_RULES_FOR_ALL = "_root.md"
_ROOT_MARKERS = (_GIT, "config.yaml", _RULES_FOR_ALL)
_RULES_RELATIVE_TO_SOURCE = frozenset(
    {"outside-homes", "outside-markdown", "outside-unread", "installed-folder"}
    | {"plugin-not-picked", "plugin-unknown", "manifest"}
)
"""Rules with file paths relative to the root of the source."""


@dataclass(frozen=True, slots=True)
class ValidationTarget:
    """A path to check, with its content root."""

    top: Path
    focus: Path
    """The root, or a file or folder below it; for a package, its folder."""

    @property
    def subfolder(self) -> str:
        return TOP_SUBFOLDER if self.top.name == _HOME else ""


class PathFilter:
    """Filter for reported files and folders."""

    def __init__(self, paths: Iterable[Path]) -> None:
        paths = tuple(paths)
        self._named = {*paths, *map(_resource_folder, paths)}
        self._folders = {path.parent for path in paths}

    def covers(self, path: Path) -> bool:
        return not self._named.isdisjoint((path, *path.parents))

    def names(self, path: Path) -> bool:
        return path in self._named

    def covers_children_of(self, folder: Path) -> bool:
        """Whether to report findings about `folder` itself or its direct files."""
        return folder in self._folders or self.covers(folder)


@dataclass(frozen=True, slots=True)
class AuthoredSkill:
    """A file or folder meant as a skill, served or not."""

    home: Path
    found: RuleFile | Package
    served: Skill | None

    @property
    def file(self) -> Path:
        return self.home / self.found.file

    @property
    def is_notice(self) -> bool:
        """Whether it is a text for people, such as `README.md`."""
        return self.served is None and self.file.stem.isupper() and not self.is_package

    @property
    def is_package(self) -> bool:
        return isinstance(self.found, Package)

    @property
    def path(self) -> Path:
        """The folder of a package, else the rule file."""
        return self.resources if self.is_package else self.file

    @property
    def resources(self) -> Path:
        return self.file.parent if self.is_package else self.file.with_suffix("")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTree:
    top: Path
    snapshot: Snapshot
    homes: tuple[SkillRoot, ...]
    skills: tuple[AuthoredSkill, ...]

    def problems(self, focus: PathFilter | None = None) -> Iterator[Problem]:
        """Iterate over the server's findings, with paths on disk.

        One problem stands for all ordinary Markdown; a file named in `focus` has its
        own.
        """
        for problem in self.snapshot.problems:
            yield replace(problem, file=str(self._locate(problem)))
        for finding in self.snapshot.state.collection.findings if focus else ():
            file = self._locate(finding.problem)
            if focus and focus.names(file):
                yield replace(finding.problem, file=str(file))

    def _locate(self, problem: Problem) -> Path:
        """Resolve the path of a problem, relative to one of the skill roots."""
        at_top = self.top / problem.file
        if problem.rule in _RULES_RELATIVE_TO_SOURCE:
            return at_top
        candidates = [
            home.directory / problem.file.removeprefix(home.file_prefix)
            for home in reversed(self.homes)  # the first one's prefix is empty
            if problem.file.startswith(home.file_prefix)
        ]
        # A name that was escaped to be shown does not exist on the disk.
        return next(filter(os.path.lexists, (*candidates, at_top)), candidates[-1])


def load_tree(top: Path, subfolder: str = "") -> SkillTree:
    """Load the content of a folder, with its own `config.yaml`.

    Operator settings and environment are ignored, so results are equal on all machines.
    """
    selection = Selection(subfolder)
    mount = Mount(source=LocalFolder(top, "the path"), selection=selection)
    checkout = Checkout(top, None, datetime.now(UTC))
    snapshot = take_snapshot(Content((ContentPart(mount, checkout),)), Settings())
    limits = snapshot.config.limits
    survey = SourceWalk(FolderTree(top), selection, limits)
    folders = [(root, root.at(top, "", "org")) for root in survey.layout.homes]
    served = {skill.location: skill for skill in snapshot.index}
    skills = (
        AuthoredSkill(home.directory, found, served.get(home.directory / found.file))
        for folder, home in folders
        for found in survey.walk(folder)
        if isinstance(found, RuleFile | Package)
    )
    homes = tuple(home for _, home in folders)
    return SkillTree(top=top, snapshot=snapshot, homes=homes, skills=tuple(skills))


def find_validation_target(path: Path) -> ValidationTarget:
    """Find the content root of `path`.  Searches the parent folders.

    The root is the nearest folder called `skills` or holding a `_root.md`, else the
    enclosing package, or the folder itself.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - a link stays what it is
    is_package = is_skill_md(path.name) and not path.is_dir()
    focus = path.parent if is_package else path
    folder = focus if focus.is_dir() else focus.parent
    top = folder if _is_top(folder) else _find_enclosing_root(folder)
    return ValidationTarget(_include_settings_folder(top), focus)


def is_repository(folder: Path) -> bool:
    """Whether this is a repository root; its name is each user's choice."""
    return (folder / _GIT).exists() or (folder / _HOME).is_dir()


def _is_top(folder: Path) -> bool:
    if _is_home(folder) or (folder / _GIT).exists():
        return True
    return is_repository(folder) and not _is_package(folder)


def _find_enclosing_root(folder: Path) -> Path:
    package = folder
    for above in folder.parents:
        if _is_home(above):
            return above
        if package == folder and _is_package(above):
            package = above
        if (above / _GIT).exists():
            break
    return folder if _is_package(folder) else package


def _include_settings_folder(top: Path) -> Path:
    above = top.parent
    has_more = any((above / name).exists() for name in _ROOT_MARKERS)
    return above if top.name == _HOME and has_more else top


def _is_home(folder: Path) -> bool:
    return folder.name == _HOME or (folder / _RULES_FOR_ALL).is_file()


def _is_package(folder: Path) -> bool:
    try:
        return any(is_skill_md(path.name) for path in folder.iterdir())
    except OSError:
        return False


def _resource_folder(path: Path) -> Path:
    return path.with_suffix("") if path.suffix == ".md" else path
