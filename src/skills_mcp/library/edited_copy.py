"""A copy of the content in which texts are changed, to see what would be served.

Rule: what is served, and the files that it is served from, stay as they are.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from skills_mcp.content.source import Checkout, Content, Mode, Part, SurveyedPart
from skills_mcp.errors import SyncError
from skills_mcp.files.durable import read_regular
from skills_mcp.skills.discovery import MAX_SKILL_BYTES
from skills_mcp.skills.file_tree import FolderTree
from skills_mcp.skills.homes import Layout
from skills_mcp.skills.model import Skill
from skills_mcp.skills.walk import Package, RuleFile, Survey, WalkLimits
from skills_mcp.snapshots.snapshot import Snapshot

_CONFIG = "config.yaml"
_GIT = ".git"

TakeSnapshot = Callable[[Content, Snapshot | None], Snapshot]
"""Reads content with the settings in force, and what is known of an earlier state."""


@dataclass(frozen=True, slots=True)
class SkillSource:
    """A source, and where its files lie in its repository."""

    name: str
    """The folder or the repository's address."""
    mount: str
    """The prefix of its skills' paths; empty for the top."""
    mode: Mode
    top: Path
    """The top of the repository, or of a folder that is in none."""
    folder: str
    """The folder that is served, from the top; `.` for the top itself."""


@dataclass(frozen=True, slots=True)
class EditableText:
    """The text of a skill, and where it lies."""

    source: SkillSource
    file: str
    """From the top of the repository, with forward slashes."""
    raw: bytes


class UneditableError(Exception):
    """The text of a skill cannot be changed alone; the message says why."""


@dataclass(frozen=True, slots=True)
class _CopiedSource:
    """Stands for a source, so that its copy is read by the same rules."""

    name: str
    mode: Mode

    def open(self) -> Checkout | None:
        """Return nothing: what is copied is read at once."""
        return None


class EditedCopy:
    """Copies of all files that are served, below a temporary folder.  All blocks.

    Args:
        served: What is served now.
        folder: Empty, and this copy's own.
        take: Reads content.
    """

    def __init__(self, served: Snapshot, folder: Path, take: TakeSnapshot) -> None:
        self.served = served
        """What is served now, which is what is copied."""
        self._folder = folder
        self._take = take
        self._content: Content | None = None
        self._base: Snapshot | None = None
        self._changed: dict[Path, bytes] = {}

    def read(self, skill: Skill) -> EditableText:
        """Read the text of a skill.

        Raises:
            UneditableError: It cannot be read, has copies, or is outside of its source.
        """
        part = self._find_part(skill)
        if others := self.served.index.other_places(skill.path):
            raise UneditableError(
                f"the same package lies at {', '.join(others)}, too: change all of them"
            )
        location = skill.location
        raw = None if location is None else read_regular(location, MAX_SKILL_BYTES)
        if part is None or location is None or raw is None:
            raise UneditableError("its file cannot be read")
        source = _find_source(part)
        try:
            file = location.resolve().relative_to(source.top)
        except ValueError:
            raise UneditableError("a link leads to it from its source") from None
        return EditableText(source, file.as_posix(), raw)

    def serve(self, texts: Mapping[Path, bytes]) -> Snapshot:
        """Return what would be served if some files had other texts.

        Args:
            texts: By the location of a skill.

        Raises:
            SyncError: The copy cannot be made.
        """
        try:
            return self._serve(texts)
        except OSError as error:
            raise SyncError(
                f"the content cannot be copied to {self._folder}: {error.strerror}. "
                "Set TMPDIR to a folder with more room"
            ) from error

    def _serve(self, texts: Mapping[Path, bytes]) -> Snapshot:
        if self._content is None:
            parts = enumerate(self.served.content.parts)
            copied = tuple(self._copy(part, str(number)) for number, part in parts)
            self._content = Content(copied)
            self._base = self._take(self._content, None)
        wanted = {c: raw for place, raw in texts.items() for c in self._locate(place)}
        for place, original in self._changed.items():
            if place not in wanted:
                _replace(place, original)
        kept = {p: raw for p, raw in self._changed.items() if p in wanted}
        self._changed = kept | {p: p.read_bytes() for p in wanted if p not in kept}
        for place, raw in wanted.items():
            _replace(place, raw)
        return self._take(self._content, self._base)

    def _locate(self, location: Path) -> Iterator[Path]:
        """Iterate over the copies of a file: each source that has it has its own."""
        for number, part in enumerate(self.served.content.parts):
            top = part.checkout.directory
            if location.is_relative_to(top):
                copied = self._folder / str(number) / location.relative_to(top)
                if copied.is_file():
                    yield copied

    def _find_part(self, skill: Skill) -> Part | None:
        """Return the source that a skill is of; of several with its file, the nearest.

        Sources may be parts of one repository, and a folder may be in another one.
        """
        location = skill.location
        if location is None:
            return None
        parts = [
            part
            for part in self.served.content.parts
            if location.is_relative_to(part.checkout.directory)
        ]
        return max(parts, key=lambda part: _nearness(part, skill), default=None)

    def _copy(self, part: Part, name: str) -> Part:
        """Copy what is served of a source; the folders keep their places."""
        mount, checkout = part.mount, part.checkout
        known = checkout.surveyed.get(mount.selection)
        top, copied = checkout.directory, self._folder / name
        copied.mkdir()
        limits = WalkLimits.of(self.served.config.limits)
        layout = Layout(known.homes) if known else None
        survey = Survey(FolderTree(top), mount.selection, limits, layout)
        for home in survey.layout.homes:
            (copied / home.folder).mkdir(parents=True, exist_ok=True)
            for found in survey.walk(home):
                for file in _list_files(found):
                    _copy_file(top / home.below(file), copied / home.below(file))
        for folder in (*(home.folder for home in survey.layout.homes), ""):
            _copy_file(top / folder / _CONFIG, copied / folder / _CONFIG)
        surveyed = SurveyedPart(survey.layout.homes, known.problems if known else ())
        source = _CopiedSource(mount.source.name, mount.source.mode)
        return Part(
            replace(mount, source=source),
            Checkout(
                copied, None, checkout.synced_at, surveyed={mount.selection: surveyed}
            ),
        )


def _nearness(part: Part, skill: Skill) -> tuple[bool, int, int]:
    prefix, top = part.mount.prefix, part.checkout.directory
    return skill.path.startswith(prefix), len(top.parts), len(prefix)


def _list_files(found: object) -> Iterator[str]:
    """Iterate over the files of a skill; a problem has none."""
    if isinstance(found, RuleFile | Package):
        yield found.file
        yield from (f"{found.folder}/{name}".lstrip("/") for name in found.files)


def _copy_file(old: Path, new: Path) -> None:
    if old.is_file():
        new.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(old, new)


def _replace(place: Path, raw: bytes) -> None:
    """Write a file anew: another inode, so that an edit shows at any speed."""
    beside = place.with_name(f"{place.name}.new")
    beside.write_bytes(raw)
    beside.replace(place)


def _find_source(part: Part) -> SkillSource:
    """Return a source with the top of its repository."""
    mount, folder = part.mount, part.checkout.directory.resolve()
    name, mode = mount.source.name, mount.source.mode
    top = folder
    if mode == "local":
        around = (folder, *folder.parents)
        top = next((each for each in around if os.path.lexists(each / _GIT)), folder)
    served = (folder / mount.selection.subfolder).relative_to(top).as_posix()
    return SkillSource(name, mount.at, mode, top, served)
