"""Write the skills as folders that agents read without a server.

Only what differs is written, and nothing that an export did not write is touched.
"""

import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISREG
from typing import Any, Literal, TypeVar, get_args

import anyio
import anyio.from_thread
import click

from skills_mcp.bootstrap import build
from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.options import complete_folder, content_options, json_option, read_options
from skills_mcp.cli.terminal import print_json, progress_bar, sync_and_load
from skills_mcp.errors import ExportError
from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.features.export.layout import (
    EXPORT_LOCK_FILE,
    LOCK_VERSION,
    ExportedLocations,
    ExportLock,
    FolderFormat,
    LockedSettings,
    LockedSkill,
    LockedSource,
    PlainLayout,
    assign_names,
    choose_layout,
    detect_format,
    package_skill,
    read_lock,
)
from skills_mcp.files.durable import NEW_PREFIX
from skills_mcp.library import LibraryView, SkillLibrary
from skills_mcp.library.skill_folder import PublishedSkills, publish_skills
from skills_mcp.skills.access import EVERYTHING
from skills_mcp.skills.model import SkillPath, escape_unprintable
from skills_mcp.skills.skill_parser import SKILL_MD
from skills_mcp.text.rendering import count_noun, join_names

_PLAIN_MODE, _PROGRAM_MODE = 0o644, 0o755
_SHEBANG = b"#!"
_STAGED_DIGITS = 16
# In the metadata of each package; what its text says is of no account.
_EXPORTED_PATH = re.compile(rb'\A---\n(?:(?!---\n).*\n)*?  path: "([^"\n]+)"\n')
_PathType = TypeVar("_PathType", Path, PurePosixPath)


@dataclass(slots=True)
class ExportReport:
    """Result of an export or a dry run; paths are relative to the folder."""

    skills: int = 0
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """Foreign or edited files, left unchanged."""
    remarks: list[str] = field(default_factory=list)
    """Truncations and omissions, with the name of the skill."""
    is_lock_new: bool = False

    @property
    def is_current(self) -> bool:
        return not (self.written or self.removed or self.is_lock_new)


def export_skills(
    library: LibraryView,
    folder: Path,
    settings: LockedSettings,
    *,
    on_progress: OnProgress = ignore_progress,
    is_frozen: bool = False,
) -> ExportReport:
    """Write the visible skills and a lock into a folder, created if missing.

    Foreign files in it are never touched. With `is_frozen`, the names of an old lock stay.

    Raises:
        ExportError: The folder or its lock cannot be used; the message has the reason.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _Export(library, folder, settings, on_progress, is_frozen=is_frozen).run()
    except OSError as error:
        location = error.filename or folder
        raise ExportError(
            f"{location} cannot be written: {error.strerror}. Run the export again once "
            "that is repaired; it goes on where it stopped."
        ) from error


def plan_export(library: LibraryView, folder: Path, settings: LockedSettings) -> ExportReport:
    """Plan an export, without writing.

    Raises:
        ExportError: The lock of the folder cannot be read.
    """
    return _Export(library, folder, settings).plan()


class _Export:
    """Incremental export of packages into a folder.

    Rule 1: a file is replaced or deleted only if its bytes were written by an export.

    Rule 2: the lock lists pending files before they are written (write-ahead), so the next
    export recognises the files of a killed one.
    """

    def __init__(
        self,
        library: LibraryView,
        folder: Path,
        settings: LockedSettings,
        on_progress: OnProgress = ignore_progress,
        *,
        is_frozen: bool = False,
    ) -> None:
        self._library = library
        self._folder = folder
        self._settings = settings
        self._on_progress = on_progress
        self._old = read_lock(folder)
        self._version = self._old.version if self._old and is_frozen else LOCK_VERSION
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
        self._delete_staged()
        self._record_pending(lock)
        for name in report.removed:  # first: a folder may come where a file was
            self._delete(name)
        for path, data in self._writes:
            _write_file(path, data)
        _flush()
        lock.write(self._folder)
        return report

    def _prepare(self) -> ExportLock:
        published = publish_skills(self._library.snapshot)
        layout = choose_layout(self._settings.format)
        names = self._assign_names(_list_originals(published))
        locations = self._open_locations(published, layout, names)
        skills: dict[str, LockedSkill] = {}
        dropped: dict[str, list[str]] = defaultdict(list)
        for path, name in names.items():
            package = package_skill(published, path, name, self._settings, locations)
            folder, files = layout.add_package(package)
            digests = {file: _digest(data) for file, data in files.items()}
            skills[folder] = LockedSkill(path=package.path, files=digests)
            for file, data in files.items():
                self._compare(f"{folder}/{file}", data, digests[file])
            self._report.remarks += (f"{package.path}: {e}" for e in package.remarks)
            for key in package.dropped:
                dropped[key].append(package.path)
            self._on_progress(len(skills), len(names))
        self._report.remarks += _render_remarks(
            self._settings.format, dropped, locations.lost or {}
        )
        others = layout.finish()
        lock = ExportLock(
            version=self._version,
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

    def _assign_names(self, paths: Sequence[SkillPath]) -> Mapping[SkillPath, str]:
        """Names by path, those of the lock and of folders of others being taken."""
        locked = self._old.read_names() if self._old else {}
        keeps = self._old is not None and self._version == self._old.version
        ours = {*locked.values(), *(file.partition("/")[0] for file in self._ours)}
        others = {e.name for e in self._folder.glob("*") if not _find_path(e / SKILL_MD)}
        names = assign_names(paths, locked if keeps else {}, others - ours)
        renamed = [path for path in sorted(names) if locked.get(path, names[path]) != names[path]]
        if renamed:
            first = f"{locked[renamed[0]]} is now {names[renamed[0]]}"
            remark = f"Renamed {count_noun(len(renamed), 'skill')} to short names: {first}"
            self._report.remarks.append(remark)
        return names

    def _open_locations(
        self, published: PublishedSkills, layout: PlainLayout, names: Mapping[SkillPath, str]
    ) -> ExportedLocations:
        def locate(path: SkillPath) -> str | None:
            return layout.locate(path, names[path]) if path in names else None

        locations = ExportedLocations(published.snapshot.index, locate, layout.find_unit)
        locations.lost = Counter()
        return locations

    def _compare(self, name: str, data: bytes, digest: str) -> None:
        found = self._look(name)
        if found == digest:
            return
        is_free = found is None or self._will_be_vacated(name)
        if is_free or found in self._ours.get(name, ()):
            self._report.written.append(name)
            self._writes.append((self._folder / name, data))
        else:
            self._report.kept.append(name)

    def _will_be_vacated(self, name: str) -> bool:
        """Whether a path is occupied only by exported files about to be deleted."""
        above = [path.as_posix() for path in PurePosixPath(name).parents[:-1]]
        files = [*list_package_files(self._folder, [name])]
        return any(map(self._is_ours, above)) or (bool(files) and all(map(self._is_ours, files)))

    def _is_ours(self, name: str) -> bool:
        return self._look(name) in self._ours.get(name, ())

    def _find_leftovers(self, lock: ExportLock) -> None:
        for name in sorted(self._ours.keys() - lock.list_files().keys()):
            if self._is_ours(name):
                self._report.removed.append(name)
            elif self._look(name) is not None:
                self._report.kept.append(name)

    def _look(self, name: str) -> str | None:
        return hash_regular_file(self._folder, name)

    def _record_pending(self, lock: ExportLock) -> None:
        """Record pending files in the lock, for recovery."""
        digests = lock.list_files()
        pending = {name: digests[name] for name in self._report.written}
        before = self._old or lock.model_copy(update={"skills": {}, "files": {}})
        update = {"pending": {**before.pending, **pending}}
        before.model_copy(update=update).write(self._folder)

    def _delete(self, name: str) -> None:
        path = self._folder / name
        path.unlink(missing_ok=True)
        for above in path.parents:
            if above == self._folder:
                break
            with suppress(OSError):  # not empty, so it is not ours alone
                above.rmdir()

    def _delete_staged(self) -> None:
        for name, digest in self._old.pending.items() if self._old else ():
            staged = _derive_staging_path(PurePosixPath(name), digest).as_posix()
            if self._look(staged):  # a regular file, and no link on the way
                (self._folder / staged).unlink(missing_ok=True)


def _list_originals(published: PublishedSkills) -> list[SkillPath]:
    """Paths to export: without copies by an export whose original is in the content, too."""
    index, paths = published.snapshot.index, published.names.published
    copied = {path: _find_path(Path(index.require(path).location or "")) for path in paths}
    return [path for path, of in copied.items() if of == path or of not in copied]


def _find_path(file: Path) -> str:
    """The path of the skill that a file is an export of; empty for any other file."""
    try:
        found = _EXPORTED_PATH.match(file.read_bytes())
    except OSError:
        return ""
    return found[1].decode(errors="replace") if found else ""


def _render_remarks(
    kind: str, dropped: Mapping[str, list[str]], lost: Mapping[SkillPath, int]
) -> Iterator[str]:
    for key, paths in sorted(dropped.items()):
        of = f"{count_noun(len(paths), 'skill')}: {join_names(paths, _MAX_NAMED)}"
        yield f"{kind} cannot hold {key} of {of}"
    if lost:
        links, holders = count_noun(sum(lost.values()), "link"), join_names([*lost], _MAX_NAMED)
        yield f"Wrote as text {links} to files that are not exported, in {holders}"


def hash_regular_file(folder: Path, name: str) -> str | None:
    """Hash a regular file below a folder.

    Empty for other file types and below symbolic links; None if missing.
    """
    path = os.fspath(folder)
    *above, last = name.split("/")
    try:
        for part in above:
            path = f"{path}/{part}"
            if not S_ISDIR(os.lstat(path).st_mode):
                return ""
        path = f"{path}/{last}"
        if not S_ISREG(os.lstat(path).st_mode):
            return ""
        return _digest(Path(path).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def _collect_known(lock: ExportLock | None) -> Mapping[str, frozenset[str]]:
    """Map files to all digests an export may have written."""
    known: dict[str, set[str]] = defaultdict(set)
    for part in (lock.list_files(), lock.pending) if lock else ():
        for name, digest in part.items():
            known[name].add(digest)
    return {name: frozenset(digests) for name, digests in known.items()}


def _lock_sources(library: LibraryView) -> Iterator[LockedSource]:
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


def _write_file(path: Path, data: bytes) -> None:
    """Write a file atomically, without fsync; `_flush` syncs once at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = _derive_staging_path(path, _digest(data))
    mode = _PROGRAM_MODE if data.startswith(_SHEBANG) else _PLAIN_MODE
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(staging, flags, mode), "wb") as handle:
        handle.write(data)
    staging.replace(path)


def _derive_staging_path(path: _PathType, digest: str) -> _PathType:
    return path.with_name(f"{NEW_PREFIX}{digest[:_STAGED_DIGITS]}")


def _flush() -> None:
    if hasattr(os, "sync"):  # Windows has none
        os.sync()


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def list_package_files(folder: Path, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        for root, folders, files in os.walk(folder / name):
            folders.sort()
            inside = Path(root).relative_to(folder).as_posix()
            yield from (f"{inside}/{file}" for file in sorted(files))


DifferenceKind = Literal["edited", "missing", "added", "interrupted"]


@dataclass(frozen=True, slots=True)
class Difference:
    kind: DifferenceKind
    file: str
    """Relative path; the lock itself after an interrupted export."""


def verify_folder(folder: Path) -> tuple[ExportLock, tuple[Difference, ...]]:
    """Compare a folder with its lock, read-only.

    Folders next to the packages are ignored.

    Raises:
        ExportError: The folder has no lock, or an invalid one.
    """
    lock = read_lock(folder)
    if lock is None:
        raise ExportError(
            f"{folder} has no {EXPORT_LOCK_FILE}. Name a folder that skills-mcp export has written."
        )
    try:
        return lock, tuple(_find_differences(folder, lock))
    except OSError as error:
        location = error.filename or folder
        raise ExportError(
            f"{location} cannot be read: {error.strerror}. Check its permissions."
        ) from error


def _find_differences(folder: Path, lock: ExportLock) -> Iterator[Difference]:
    if lock.pending:
        yield Difference("interrupted", EXPORT_LOCK_FILE)
    expected = lock.list_files()
    for file, digest in expected.items():
        found = hash_regular_file(folder, file)
        if found is None:
            yield Difference("missing", file)
        elif found != digest:
            yield Difference("edited", file)
    for file in list_package_files(folder, lock.skills):
        if file not in expected:
            yield Difference("added", file)


_BEHIND = 1
_SHOWN = 20
_MAX_NAMED = 3  # skills in a line about a key; there may be thousands


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp export --skills-dir ./skills --to .claude/skills",
        "skills-mcp export --skills-dir ./skills --to ./out --select 'ui/**'",
        "skills-mcp export --to .claude/skills --check",
        "skills-mcp export --to .claude/skills --frozen",
        "skills-mcp export --verify .claude/skills",
    ),
)
@click.option(
    "--to",
    "target",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    shell_complete=complete_folder,
    help="The folder to write, such as .claude/skills.",
)
@click.option(
    "--format",
    "folder_format",
    type=click.Choice(get_args(FolderFormat)),
    help="For whom.  [default: by the name of the folder]",
)
@click.option(
    "--select",
    metavar="PATTERN",
    multiple=True,
    help="Only skills whose path or name fits, such as ui/**; may be repeated.",
)
@click.option("--raw", "is_raw", is_flag=True, help="Without the rules above each skill.")
@click.option(
    "--check", "is_check", is_flag=True, help="Write nothing; fail if the folder is behind."
)
@click.option(
    "--frozen",
    "is_frozen",
    is_flag=True,
    help="Write exactly the commit and settings of skills.lock.",
)
@click.option("--watch", "is_watching", is_flag=True, help="Follow the skills until Ctrl-C.")
@click.option(
    "--verify",
    "verified",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    shell_complete=complete_folder,
    help="Only compare an exported folder with its lock; no repository is needed.",
)
@json_option
@content_options(log_level="error")
def command(
    *,
    target: Path | None,
    folder_format: FolderFormat | None,
    select: tuple[str, ...],
    is_raw: bool,
    is_check: bool,
    is_frozen: bool,
    is_watching: bool,
    verified: Path | None,
    as_json: bool,
    **values: Any,
) -> None:
    if verified and not target:
        sys.exit(_verify(verified, as_json=as_json))
    if verified or not target:
        raise click.UsageError("Give one of: --to FOLDER, --verify FOLDER.")
    if is_watching and (is_check or is_frozen):
        raise click.UsageError("--watch excludes --check and --frozen.")
    options, environment = read_options(**values)
    lock = _require_lock(target) if is_frozen else None
    if lock and options.repo and len(lock.sources) == 1 and lock.sources[0].commit:
        options = replace(options, branch="", pin=lock.sources[0].commit)
    options = replace(options, settings={"analytics": {"enabled": False}})
    library = build(options, environment).library
    sync_and_load(library)
    if lock:
        _require_commits(library, lock)
        settings = lock.settings
    else:
        chosen = folder_format or detect_format(target)
        settings = LockedSettings(format=chosen, raw=is_raw, select=select)
    show = partial(_print, target=target, is_check=is_check, as_json=as_json)
    if is_check:
        report = plan_export(_narrow(library, settings), target, settings)
        show(report)
        sys.exit(0 if report.is_current else _BEHIND)
    write = partial(_write, library, target, settings, is_frozen=is_frozen)
    show(write())
    if is_watching:
        anyio.run(_follow, library, settings, write, show)


def _verify(folder: Path, *, as_json: bool) -> int:
    """Compare a folder with its lock; 1 if anything differs."""
    lock, differences = verify_folder(folder)
    if as_json:
        print_json(
            {
                "ok": not differences,
                "sources": [item.model_dump() for item in lock.sources],
                "skills": len(lock.skills),
                "differences": [asdict(item) for item in differences],
            }
        )
    else:
        for item in differences:
            click.echo(escape_unprintable(f"{item.kind}: {item.file}"))
        if not differences:
            commits = ", ".join(filter(None, (item.commit for item in lock.sources)))
            at = f" of {commits}" if commits else ""
            click.echo(f"{count_noun(len(lock.skills), 'skill')}{at}: as the lock says.")
    return 1 if differences else 0


def _require_lock(target: Path) -> ExportLock:
    lock = read_lock(target)
    if lock is None:
        raise ExportError(f"{target} has no {EXPORT_LOCK_FILE}. Export once without --frozen.")
    return lock


def _require_commits(library: SkillLibrary, lock: ExportLock) -> None:
    found = {state.mount: state.commit for state in library.view().states()}
    for source in lock.sources:
        if found.get(source.mount) != source.commit:
            raise ExportError(
                f"{source.name} is at {found.get(source.mount)}, and {EXPORT_LOCK_FILE} wants "
                f"{source.commit}. Name it with --repo, or pin each source with ref in "
                "config.yaml."
            )


def _narrow(library: SkillLibrary, settings: LockedSettings) -> LibraryView:
    access = EVERYTHING.narrow(tuple(settings.select), ()) if settings.select else EVERYTHING
    return library.view(access)


def _write(
    library: SkillLibrary, target: Path, settings: LockedSettings, *, is_frozen: bool
) -> ExportReport:
    narrowed = _narrow(library, settings)
    with progress_bar("Exporting") as on_progress:
        return export_skills(
            narrowed, target, settings, on_progress=on_progress, is_frozen=is_frozen
        )


async def _follow(
    library: SkillLibrary,
    settings: LockedSettings,
    write: Callable[[], ExportReport],
    show: Callable[[ExportReport], None],
) -> None:
    """Export again after each change, until Ctrl-C."""
    changed = anyio.Event()

    def tell() -> None:
        changed.set()

    # Each change is told on the thread that has read it.
    access = _narrow(library, settings).access
    library.watch_changes(lambda _: anyio.from_thread.run_sync(tell), access)
    click.echo("Following the skills; Ctrl-C ends it.", err=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(library.refresher.run)
        library.refresher.wake()
        while True:
            await changed.wait()
            changed = anyio.Event()
            try:
                report = await anyio.to_thread.run_sync(write)
            except ExportError as error:  # the next change may find more room
                click.echo(f"skills-mcp: {error}", err=True)
                continue
            if not report.is_current:
                show(report)


def _print(report: ExportReport, *, target: Path, is_check: bool, as_json: bool) -> None:
    if as_json:
        data = {"current": report.is_current, **asdict(report)}
        print_json({"ok": report.is_current or not is_check, **data})
        return
    for name in report.kept:
        line = f"Kept {name}: it was edited, or no export has written it"
        click.echo(escape_unprintable(line), err=True)
    for remark in report.remarks:
        click.echo(escape_unprintable(remark), err=True)
    if is_check:
        _list("would be written", report.written)
        _list("would be removed", report.removed)
        if report.is_current:
            click.echo(f"{target} is up to date: {count_noun(report.skills, 'skill')}.")
        elif not report.written and not report.removed:
            click.echo(f"{EXPORT_LOCK_FILE} is behind: the same skills are in a newer commit.")
        return
    noun = "skill" if report.skills == 1 else "skills"
    written, removed = len(report.written), len(report.removed)
    files = "file" if written == 1 else "files"
    click.echo(f"{report.skills} {noun} in {target}: {written} {files} written, {removed} removed.")


def _list(what: str, files: list[str]) -> None:
    for name in files[:_SHOWN]:
        click.echo(escape_unprintable(f"{what}: {name}"))
    if len(files) > _SHOWN:
        click.echo(f"and {len(files) - _SHOWN} more")
