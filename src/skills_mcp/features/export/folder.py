"""Writes packages into a folder: only what differs, and no file of another origin.

Rule 1: a file is replaced or deleted only if its bytes are those that an export wrote.
Rule 2: what an export is about to write stands in the lock before, so that the next
one recognises the files of one that was killed.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISREG
from typing import TypeVar

from skills_mcp.errors import ExportError
from skills_mcp.features.export.layout import choose_layout
from skills_mcp.features.export.lock import (
    ExportLock,
    LockedSettings,
    LockedSkill,
    LockedSource,
    read_lock,
)
from skills_mcp.features.export.packaged_skill import package_skills
from skills_mcp.files.durable import NEW_PREFIX
from skills_mcp.library import SkillLibrary

_PLAIN_MODE, _PROGRAM_MODE = 0o644, 0o755
_PROGRAM = b"#!"
_STAGED_DIGITS = 16
_Place = TypeVar("_Place", Path, PurePosixPath)

OnExported = Callable[[int, int], None]
"""Called with how many packages are done, and how many there are."""


def tell_none(done: int, total: int) -> None:
    """Show no progress."""


@dataclass(slots=True)
class ExportReport:
    """What an export has done, or would do; each file with its path in the folder."""

    skills: int = 0
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """Files that no export wrote, or that were edited since; they stay as they are."""
    remarks: list[str] = field(default_factory=list)
    """What was shortened or left out, with the name of the skill."""
    is_lock_new: bool = False
    """Whether the lock says something else than before, such as another commit."""

    @property
    def is_current(self) -> bool:
        """Whether there was nothing to do."""
        return not (self.written or self.removed or self.is_lock_new)


def export_skills(
    library: SkillLibrary,
    folder: Path,
    settings: LockedSettings,
    *,
    on_progress: OnExported = tell_none,
) -> ExportReport:
    """Write the visible skills into a folder, with a lock; make it if it is missing.

    Args:
        library: Loaded, and narrowed to the skills that are wanted.
        folder: The target. What is in it and not of an export is never touched.
        settings: They become part of the lock.
        on_progress: Called after each package.

    Raises:
        ExportError: The folder or its lock cannot be used; the message says why.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _Export(library, folder, settings, on_progress).run()
    except OSError as error:
        place = error.filename or folder
        raise ExportError(
            f"{place} cannot be written: {error.strerror}. Run the export again once "
            "that is repaired; it goes on where it stopped."
        ) from error


def find_changes(
    library: SkillLibrary, folder: Path, settings: LockedSettings
) -> ExportReport:
    """Return what an export would do, and write nothing.

    Raises:
        ExportError: The lock of the folder cannot be read.
    """
    return _Export(library, folder, settings, tell_none).plan()


class _Export:
    def __init__(
        self,
        library: SkillLibrary,
        folder: Path,
        settings: LockedSettings,
        on_progress: OnExported,
    ) -> None:
        self._library = library
        self._folder = folder
        self._settings = settings
        self._on_progress = on_progress
        self._old = read_lock(folder)
        self._ours = _collect_known(self._old)
        self._report = ExportReport()
        self._writes: list[tuple[Path, bytes]] = []

    def plan(self) -> ExportReport:
        self._prepare()
        return self._report

    def run(self) -> ExportReport:
        lock = self._prepare()
        report = self._report
        if report.is_current:
            return report
        self._clean()
        self._announce(lock)
        for name in report.removed:  # first: a folder may come where a file was
            self._delete(name)
        for place, data in self._writes:
            _write(place, data)
        _flush()
        lock.write(self._folder)
        return report

    def _prepare(self) -> ExportLock:
        """Compare each package with the folder, and return the lock to be."""
        total = len(self._library.publish().names.published)
        layout = choose_layout(self._settings.format)
        skills: dict[str, LockedSkill] = {}
        for package in package_skills(self._library, self._settings):
            folder, files = layout.place(package)
            digests = {file: _digest(data) for file, data in files.items()}
            skills[folder] = LockedSkill(path=package.path, files=digests)
            for file, data in files.items():
                self._compare(f"{folder}/{file}", data, digests[file])
            self._report.remarks += (f"{package.path}: {e}" for e in package.remarks)
            self._on_progress(len(skills), total)
        others = layout.finish()
        lock = ExportLock(
            sources=tuple(_lock_sources(self._library)),
            settings=self._settings,
            skills=skills,
            files={name: _digest(data) for name, data in others.items()},
        )
        for name, data in others.items():
            self._compare(name, data, lock.files[name])
        self._report.skills = len(skills)
        self._find_leftovers(lock)
        self._report.is_lock_new = not self._old or lock.render() != self._old.render()
        return lock

    def _compare(self, name: str, data: bytes, digest: str) -> None:
        found = self._look(name)
        if found == digest:
            return
        is_free = found is None or self._is_vacated(name)
        if is_free or found in self._ours.get(name, ()):
            self._report.written.append(name)
            self._writes.append((self._folder / name, data))
        else:
            self._report.kept.append(name)

    def _is_vacated(self, name: str) -> bool:
        """Whether what is in the place of a file is ours alone, and will be gone."""
        above = [each.as_posix() for each in PurePosixPath(name).parents[:-1]]
        if any(self._look(each) in self._ours.get(each, ()) for each in above):
            return True
        files = [*list_files(self._folder, [name])]
        return bool(files) and all(
            self._look(each) in self._ours.get(each, ()) for each in files
        )

    def _find_leftovers(self, lock: ExportLock) -> None:
        for name in sorted(self._ours.keys() - lock.list_files().keys()):
            found = self._look(name)
            if found in self._ours[name]:
                self._report.removed.append(name)
            elif found is not None:
                self._report.kept.append(name)

    def _look(self, name: str) -> str | None:
        """Return the digest of a file; empty for anything else, None for nothing."""
        return look_at(self._folder, name)

    def _announce(self, lock: ExportLock) -> None:
        """Write the files to come into the lock, for the export after a kill."""
        digests = lock.list_files()
        pending = {name: digests[name] for name in self._report.written}
        before = self._old or lock.model_copy(update={"skills": {}, "files": {}})
        update = {"pending": {**before.pending, **pending}}
        before.model_copy(update=update).write(self._folder)

    def _delete(self, name: str) -> None:
        place = self._folder / name
        place.unlink(missing_ok=True)
        for above in place.parents:
            if above == self._folder:
                break
            with suppress(OSError):  # not empty, so it is not ours alone
                above.rmdir()

    def _clean(self) -> None:
        """Delete what a killed export has begun to write."""
        for name, digest in self._old.pending.items() if self._old else ():
            begun = _stage(PurePosixPath(name), digest).as_posix()
            if self._look(begun):  # a regular file, and no link on the way
                (self._folder / begun).unlink(missing_ok=True)


def look_at(folder: Path, name: str) -> str | None:
    """Return the digest of a file below a folder.

    Empty if something else is in its place, or a link is on the way; None if nothing is
    there.
    """
    place = os.fspath(folder)
    *above, last = name.split("/")
    try:
        for part in above:
            place = f"{place}/{part}"
            if not S_ISDIR(os.lstat(place).st_mode):
                return ""
        place = f"{place}/{last}"
        if not S_ISREG(os.lstat(place).st_mode):
            return ""
        return _digest(Path(place).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def _collect_known(lock: ExportLock | None) -> Mapping[str, frozenset[str]]:
    """Return the digests that an export has given each file, or may have."""
    known: dict[str, set[str]] = defaultdict(set)
    for part in (lock.list_files(), lock.pending) if lock else ():
        for name, digest in part.items():
            known[name].add(digest)
    return {name: frozenset(digests) for name, digests in known.items()}


def _lock_sources(library: SkillLibrary) -> Iterator[LockedSource]:
    for state in library.states():
        # Of a folder its last name, as each machine has it elsewhere; of a repository
        # the address, as a pin to its commit has no branch.
        is_folder = state.mode == "local"
        address = state.name.partition(" (")[0]
        yield LockedSource(
            mount=state.mount,
            name=Path(state.name).name if is_folder else address,
            commit=state.commit,
            signer=state.verified_by,
        )


def _write(place: Path, data: bytes) -> None:
    """Write a file whole or not at all; the disk is flushed once, at the end."""
    place.parent.mkdir(parents=True, exist_ok=True)
    staging = _stage(place, _digest(data))
    mode = _PROGRAM_MODE if data.startswith(_PROGRAM) else _PLAIN_MODE
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(staging, flags, mode), "wb") as handle:
        handle.write(data)
    staging.replace(place)


def _stage(place: _Place, digest: str) -> _Place:
    """Return where a file is written before it takes its place."""
    return place.with_name(f"{NEW_PREFIX}{digest[:_STAGED_DIGITS]}")


def _flush() -> None:
    if hasattr(os, "sync"):  # Windows has none
        os.sync()


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def list_files(folder: Path, names: Iterable[str]) -> Iterator[str]:
    """Iterate over all files in the packages of a folder, each with its path in it."""
    for name in names:
        for root, folders, files in os.walk(folder / name):
            folders.sort()
            inside = Path(root).relative_to(folder).as_posix()
            yield from (f"{inside}/{file}" for file in sorted(files))
