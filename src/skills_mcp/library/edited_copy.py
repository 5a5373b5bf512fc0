"""Edits of sources: a working copy for previews, and targets for added skills.

Rule: a preview leaves served content and its files unchanged.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from skills_mcp.content.source import Checkout, Content, ContentPart, Mode, SurveyedPart
from skills_mcp.errors import SyncError
from skills_mcp.files.durable import read_regular
from skills_mcp.skills.discovery import MAX_SKILL_BYTES
from skills_mcp.skills.file_tree import FolderTree
from skills_mcp.skills.homes import Layout
from skills_mcp.skills.model import Skill
from skills_mcp.skills.walk import Package, RuleFile, SourceWalk, WalkLimits
from skills_mcp.snapshots.snapshot import Snapshot

_CONFIG = "config.yaml"
_GIT = ".git"

SnapshotLoader = Callable[[Content, Snapshot | None], Snapshot]


@dataclass(frozen=True, slots=True)
class SkillSource:
    """A source and its location in its repository."""

    name: str
    mount: str
    """Path prefix of its skills; empty for the top."""
    mode: Mode
    top: Path
    """Root of the repository; the folder itself outside of Git."""
    folder: str
    """Served folder, relative to the root; `.` for the root."""


@dataclass(frozen=True, slots=True)
class EditableText:
    source: SkillSource
    file: str
    """POSIX path from the root of the repository."""
    raw: bytes


class UneditableError(Exception):
    """The text of a skill cannot be changed alone; the message has the reason."""


@dataclass(frozen=True, slots=True)
class _StubSource:
    """Stub source, so that the same rules read its copy."""

    name: str
    mode: Mode

    def open(self) -> Checkout | None:
        return None


class WorkingCopy:
    """Copies of all served files in a temporary folder.  All methods block."""

    def __init__(self, served: Snapshot, folder: Path, load_snapshot: SnapshotLoader) -> None:
        self.served = served
        """What is served now, which is what is copied."""
        self._folder = folder
        self._load_snapshot = load_snapshot
        self._content: Content | None = None
        self._base: Snapshot | None = None
        self._originals: dict[Path, bytes] = {}

    def read(self, skill: Skill) -> EditableText:
        """Read the text of a skill.

        Raises:
            UneditableError: It cannot be read, has copies, or is outside of its source.
        """
        part = self._find_innermost_part(skill)
        if others := self.served.index.other_places(skill.path):
            raise UneditableError(
                f"the same package lies at {', '.join(others)}, too: change all of them"
            )
        location = skill.location
        raw = None if location is None else read_regular(location, MAX_SKILL_BYTES)
        if part is None or location is None or raw is None:
            raise UneditableError("its file cannot be read")
        source = _locate_repository(part)
        try:
            file = location.resolve().relative_to(source.top)
        except ValueError:
            raise UneditableError("a link leads to it from its source") from None
        return EditableText(source, file.as_posix(), raw)

    def serve(self, texts: Mapping[Path, bytes]) -> Snapshot:
        """Snapshot of the copy after replacing texts by location.

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
            self._base = self._load_snapshot(self._content, None)
        edited = {c: raw for location, raw in texts.items() for c in self._find_copies(location)}
        for location, original in self._originals.items():
            if location not in edited:
                _write_new_inode(location, original)
        retained = {p: raw for p, raw in self._originals.items() if p in edited}
        self._originals = retained | {p: p.read_bytes() for p in edited if p not in retained}
        for location, raw in edited.items():
            _write_new_inode(location, raw)
        return self._load_snapshot(self._content, self._base)

    def _find_copies(self, location: Path) -> Iterator[Path]:
        for number, part in enumerate(self.served.content.parts):
            top = part.checkout.directory
            if location.is_relative_to(top):
                copied = self._folder / str(number) / location.relative_to(top)
                if copied.is_file():
                    yield copied

    def _find_innermost_part(self, skill: Skill) -> ContentPart | None:
        """Innermost source of a skill: source folders may be nested."""
        location = skill.location
        if location is None:
            return None
        parts = [
            part
            for part in self.served.content.parts
            if location.is_relative_to(part.checkout.directory)
        ]
        return max(parts, key=lambda part: _specificity(part, skill), default=None)

    def _copy(self, part: ContentPart, name: str) -> ContentPart:
        mount, checkout = part.mount, part.checkout
        known = checkout.surveyed.get(mount.selection)
        top, copied = checkout.directory, self._folder / name
        copied.mkdir()
        limits = WalkLimits.of(self.served.config.limits)
        layout = Layout(known.homes) if known else None
        survey = SourceWalk(FolderTree(top), mount.selection, limits, layout)
        for home in survey.layout.homes:
            (copied / home.folder).mkdir(parents=True, exist_ok=True)
            for found in survey.walk(home):
                for file in _list_files(found):
                    _copy_file(top / home.below(file), copied / home.below(file))
        for folder in (*(home.folder for home in survey.layout.homes), ""):
            _copy_file(top / folder / _CONFIG, copied / folder / _CONFIG)
        surveyed = SurveyedPart(survey.layout.homes, known.problems if known else ())
        source = _StubSource(mount.source.name, mount.source.mode)
        return ContentPart(
            replace(mount, source=source),
            Checkout(copied, None, checkout.synced_at, surveyed={mount.selection: surveyed}),
        )


def _specificity(part: ContentPart, skill: Skill) -> tuple[bool, int, int]:
    prefix, top = part.mount.prefix, part.checkout.directory
    return skill.path.startswith(prefix), len(top.parts), len(prefix)


def _list_files(found: object) -> Iterator[str]:
    if isinstance(found, RuleFile | Package):
        yield found.file
        yield from (f"{found.folder}/{name}".lstrip("/") for name in found.files)


def _copy_file(old: Path, new: Path) -> None:
    if old.is_file():
        new.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(old, new)


def _write_new_inode(path: Path, raw: bytes) -> None:
    """Write a new inode, so that change detection never depends on the clock."""
    staging = path.with_name(f"{path.name}.new")
    staging.write_bytes(raw)
    staging.replace(path)


def _locate_repository(part: ContentPart) -> SkillSource:
    mount, folder = part.mount, part.checkout.directory.resolve()
    name, mode = mount.source.name, mount.source.mode
    top = folder
    if mode == "local":
        candidates = (folder, *folder.parents)
        top = next(
            (folder_above for folder_above in candidates if os.path.lexists(folder_above / _GIT)),
            folder,
        )
    served = (folder / mount.selection.subfolder).relative_to(top).as_posix()
    return SkillSource(name, mount.at, mode, top, served)
