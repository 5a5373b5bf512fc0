"""Where skills begin, and which files are skills: Markdown in a tree, and packages.

Rule: nothing outside the folder is read, and no link is followed. A name can become a
link at any time, so each question about an entry is asked of the open folder, and never
again by its path.
"""

import heapq
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from skills_mcp.errors import InvalidPathError
from skills_mcp.files.opening import listed_inside
from skills_mcp.files.paths import MAX_PARTS, find_twins, parse_relative
from skills_mcp.skills.index import ROOT
from skills_mcp.skills.model import Problem, Scope, Stamp, printable
from skills_mcp.skills.package import MAIN, is_main

MAX_DEPTH = MAX_PARTS - 1
"""As many folders as the path of a file may have."""

SKIPPED = frozenset(
    {".git", ".hg", ".svn", ".jj", ".env", ".env.local", ".netrc", ".venv"}
    | {".DS_Store", "node_modules", "__pycache__"}
)
"""What tools leave beside a skill, and secrets such as `.env`; none of it is served."""

_TO_LINK = "put what it leads to in its place"


@dataclass(frozen=True, slots=True)
class RuleFile:
    """A Markdown file in the tree, and the folder that belongs to it."""

    file: str
    """Relative to the root of the walk."""
    directory: Path | None
    markdown: tuple[str, ...] = ()
    """The Markdown files in that folder, by their paths in it."""
    stamp: Stamp | None = field(default=None, compare=False)
    """The size and times of the file; None if it cannot be looked at."""
    files: Mapping[str, Stamp] = field(default_factory=dict, compare=False)
    """All files in that folder by their paths in it, those of packages included."""


@dataclass(frozen=True, slots=True)
class Package:
    """A folder with a `SKILL.md`, and every file in it."""

    folder: str
    """Relative to the root of the walk; empty for the root itself."""
    main: str
    files: Mapping[str, Stamp]
    """All files but the main one, by their paths in the folder."""
    stamp: Stamp | None = field(default=None, compare=False)
    """The size and times of the main file; None if it cannot be looked at."""

    @property
    def file(self) -> str:
        """The `SKILL.md`, relative to the root of the walk."""
        return f"{self.folder}/{self.main}" if self.folder else self.main


Found = RuleFile | Package | Problem


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """One name in a folder."""

    mode: int
    """The kind of file, as in `st_mode`; 0 if it is unknown."""
    stamp: Stamp | None
    """Its size and times; None if it cannot be looked at."""
    leads_to_folder: bool
    """Whether it is a folder, or a link to one."""

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder itself."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file itself."""
        return stat.S_ISREG(self.mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.mode)


Entries = Mapping[str, FolderEntry]


@dataclass(slots=True)
class FolderListing:
    """The names in a folder."""

    entries: Entries
    """The first entries in the order of their names."""
    count: int = 0
    """The number of names, those beyond `entries` included."""
    has_main: bool = False
    """Whether any of the names makes the folder a package."""


@dataclass(frozen=True, slots=True)
class _Stamped:
    file: str
    stamp: Stamp


class Walk:
    """One walk over one folder, with a limit for everything that it looks at.

    Args:
        root: The folder; nothing outside it is looked at.
        max_files: How many files and folders are looked at.
        packages_only: Whether Markdown files that stand alone are no skills.
    """

    def __init__(
        self,
        root: Path,
        max_files: int,
        *,
        packages_only: bool = False,
    ) -> None:
        self._root = root
        self._max_files = max_files
        self._packages_only = packages_only
        self._seen = 0

    def run(self) -> Iterator[Found]:
        """Yield skills and problems; folders that belong to a skill are its files."""
        yield from self._folder("", packages_only=self._packages_only)
        if self._is_full:
            reason = f"has more than {self._max_files:,} files, the rest is not served"
            hint = "serve a subfolder of it, or raise limits.max_files"
            yield Problem(".", reason, hint, rule="max-files")

    def _folder(self, prefix: str, *, packages_only: bool) -> Iterator[Found]:
        entries = self._list(prefix)
        if isinstance(entries, Problem):
            yield entries
        elif main := _main_of(entries):
            yield from self._package(prefix, main, entries)
        else:
            yield from self._tree(prefix, entries, packages_only=packages_only)

    def _tree(
        self, prefix: str, entries: Entries, *, packages_only: bool
    ) -> Iterator[Found]:
        """Yield what a folder of rules holds; of a hidden one, only packages."""
        for name, entry in entries.items():
            is_hidden = packages_only or name.startswith(".")
            if entry.is_folder:
                yield from self._inner(prefix + name, entries, packages_only=is_hidden)
            elif not is_hidden:
                yield from self._markdown(prefix + name, entry, entries)

    def _inner(
        self, folder: str, beside: Entries, *, packages_only: bool
    ) -> Iterator[Found]:
        """Walk a folder, unless a file of its name has it for its resources."""
        owner = beside.get(f"{PurePosixPath(folder).name}.md")
        is_owned = owner is not None and owner.is_file and not packages_only
        if not folder.isprintable():
            yield _unreadable(folder)
        elif is_owned and not is_package(self._root, folder):
            return  # `_owner` looks into it
        elif folder.count("/") >= MAX_DEPTH:
            yield _too_deep(folder)
        else:
            yield from self._folder(f"{folder}/", packages_only=packages_only)

    def _markdown(
        self, file: str, entry: FolderEntry, beside: Entries
    ) -> Iterator[Found]:
        is_markdown = file.endswith(".md")
        if not is_markdown and not entry.leads_to_folder:
            return
        if not file.isprintable():
            yield _unreadable(file)
        elif entry.is_link:
            yield Problem(file, "is a link", _TO_LINK, rule="link")
        elif is_markdown:
            folder = file.removesuffix(".md")
            resources = beside.get(PurePosixPath(folder).name)
            owns = resources is not None and resources.is_folder
            if owns and entry.is_file and not is_package(self._root, folder):
                yield from self._owner(file, entry)
            else:
                yield RuleFile(file, None, (), entry.stamp)

    def _owner(self, file: str, entry: FolderEntry) -> Iterator[Found]:
        """Yield the packages in the folder of a rule file, then the rule file."""
        folder = file.removesuffix(".md")
        files: dict[str, Stamp] = {}
        markdown: list[str] = []
        for found in self._inside(folder, ""):
            if isinstance(found, _Stamped):
                files[found.file] = found.stamp
                markdown += [found.file] if found.file.endswith(".md") else []
                continue
            if isinstance(found, Package):
                files.update(_files_of(found, folder))
            yield found
        directory = self._root / folder
        yield RuleFile(file, directory, tuple(markdown), entry.stamp, files)

    def _inside(self, folder: str, below: str) -> Iterator["Found | _Stamped"]:
        """Yield the files of a folder that belongs to a rule file, and packages.

        A package is one wherever it lies: no file beside it takes it away.
        """
        listed = self._list(f"{folder}/{below}")
        for name, entry in {} if isinstance(listed, Problem) else listed.items():
            inner = f"{below}{name}/"
            if entry.is_folder and is_package(self._root, f"{folder}/{inner}"):
                yield from self._folder(f"{folder}/{inner}", packages_only=True)
            elif entry.is_folder and inner.count("/") < MAX_DEPTH:
                yield from self._inside(folder, inner)
            elif entry.is_file and entry.stamp:
                yield _Stamped(below + name, entry.stamp)

    def _package(self, prefix: str, main: str, entries: Entries) -> Iterator[Found]:
        """Yield a package, and the packages inside it."""
        files: dict[str, Stamp] = {}
        others = {name: entry for name, entry in entries.items() if name != main}
        for found in self._files(prefix, "", others):
            if isinstance(found, _Stamped):
                files[found.file] = found.stamp
            else:
                yield found
        if entries[main].is_link:
            yield Problem(prefix + main, "is a link", _TO_LINK, rule="link")
        elif not self._is_full:  # or it would look as if these were all of its files
            twins = find_twins((*files, main))
            for file in sorted(twins & files.keys()):
                reason = "differs from another file only in how accents are encoded"
                yield _unsafe(prefix + file, reason)
            ordered = {file: files[file] for file in sorted(files.keys() - twins)}
            yield Package(prefix.rstrip("/"), main, ordered, entries[main].stamp)

    def _files(
        self, prefix: str, below: str, entries: Entries
    ) -> Iterator["Found | _Stamped"]:
        """Yield the files of a package; a folder with its own main file is another."""
        for name, entry in entries.items():
            if not entry.is_folder:
                yield from _stamp(prefix, below + name, entry)
                continue
            inner = f"{below}{name}/"
            if not name.isprintable():
                yield _unreadable(prefix + below + name)
            elif (prefix + inner).count("/") > MAX_DEPTH:
                yield _too_deep(prefix + below + name)
            elif isinstance(listed := self._list(prefix + inner), Problem):
                yield listed
            elif main := _main_of(listed):
                yield from self._package(prefix + inner, main, listed)
            else:
                yield from self._files(prefix, inner, listed)

    def _list(self, prefix: str) -> Entries | Problem:
        """Return the entries of a folder in the order of their names."""
        room = max(0, self._max_files - self._seen)
        try:
            listing = load_listing(self._root, prefix, skipped=SKIPPED, most=room)
        except OSError as error:
            hint = "check its permissions"
            reason = f"cannot be listed: {error.strerror}"
            return Problem(
                prefix or ".", reason, hint, rule="unreadable", is_passing=True
            )
        self._seen += listing.count
        if self._is_full and listing.has_main:
            return {}  # a part of a package would look like the whole
        return listing.entries

    @property
    def _is_full(self) -> bool:
        """Whether the limit is exceeded; nothing is looked at any more."""
        return self._seen > self._max_files


def _stamp(
    prefix: str, file: str, entry: FolderEntry
) -> Iterator["Problem | _Stamped"]:
    shown = prefix + file
    if entry.is_link:
        reason = "is a link, so it is not among the files of its package"
        yield Problem(printable(shown), reason, _TO_LINK, "warning", rule="link")
        return
    try:
        parse_relative(file)
    except InvalidPathError:
        reason = "has a name that is not safe everywhere"
        yield _unsafe(shown, reason)
    else:
        # Without a stamp it was deleted since the folder was listed.
        if entry.is_file and entry.stamp:
            yield _Stamped(file, entry.stamp)


def _files_of(package: Package, folder: str) -> Iterator[tuple[str, Stamp]]:
    """Iterate over the files of a package by their paths in a folder above it."""
    inside = package.folder.removeprefix(f"{folder}/")
    for name, stamp in package.files.items():
        yield f"{inside}/{name}", stamp
    if package.stamp:
        yield f"{inside}/{package.main}", package.stamp


def _main_of(entries: Entries) -> str | None:
    """Return the file that makes a folder a package; `SKILL.md` before others.

    A link and a pipe make it a package, too: no file beside them is a skill of its own.
    """
    names = [n for n, e in entries.items() if is_main(n) and not e.is_folder]
    names.sort(key=lambda name: (not entries[name].is_file, name != MAIN))
    return next(iter(names), None)


def _too_deep(folder: str) -> Problem:
    reason = f"is not served: it is more than {MAX_DEPTH} folders deep"
    return Problem(folder, reason, "move it further up", rule="depth")


def _unreadable(file: str) -> Problem:
    """Report a name that cannot be typed, and that may steer a terminal."""
    reason = "has a name with invisible characters, or one that is not UTF-8"
    return Problem(printable(file), reason, "rename it", rule="file-name")


def _unsafe(file: str, reason: str) -> Problem:
    return Problem(printable(file), reason, "rename it", "warning", rule="file-name")


def load_listing(
    root: Path, folder: str, *, skipped: frozenset[str], most: int
) -> FolderListing:
    """List a folder below `root`; no link on the way is followed.

    Args:
        root: The top of the content.
        folder: Relative to the root, with slashes; empty for the root itself.
        skipped: Names that are left out and not counted.
        most: The largest number of entries that are looked at.

    Raises:
        OSError: There is no such folder, or no permission to list it.
    """
    listing = FolderListing({})
    with listed_inside(root, _split(folder)) as scan:
        kept = (entry for entry in scan if entry.name not in skipped)
        # A folder of millions of files costs no more memory than the limit.
        first = heapq.nsmallest(most + 1, _count(kept, listing), key=_name_of)
        listing.entries = {entry.name: _look(entry) for entry in first[:most]}
    return listing


def is_package(root: Path, folder: str) -> bool:
    """Whether a folder below `root` has a main file of a package, or a link for one."""
    try:
        with listed_inside(root, _split(folder)) as scan:
            return any(
                is_main(entry.name) and not entry.is_dir(follow_symlinks=False)
                for entry in scan
            )
    except OSError:
        return False


def _split(folder: str) -> tuple[str, ...]:
    return tuple(filter(None, folder.split("/")))


def _count(
    entries: Iterable["os.DirEntry[str]"], listing: FolderListing
) -> Iterator["os.DirEntry[str]"]:
    for entry in entries:
        listing.count += 1
        listing.has_main |= is_main(entry.name)
        yield entry


def _name_of(entry: "os.DirEntry[str]") -> str:
    return entry.name


def _look(entry: "os.DirEntry[str]") -> FolderEntry:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:  # deleted since it was listed, or behind a lock
        return FolderEntry(_guess_mode(entry), None, leads_to_folder=False)
    leads_to_folder = stat.S_ISDIR(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        with suppress(OSError):  # a link to itself
            leads_to_folder = entry.is_dir()
    return FolderEntry(found.st_mode, Stamp.of(found), leads_to_folder)


def _guess_mode(entry: "os.DirEntry[str]") -> int:
    """Return the kind that was listed with the name; not every disk has one."""
    with suppress(OSError):
        if entry.is_dir(follow_symlinks=False):
            return stat.S_IFDIR
        if entry.is_file(follow_symlinks=False):
            return stat.S_IFREG
    return 0


@dataclass(frozen=True, slots=True)
class Home:
    """A folder in which skills begin, and the place of these skills in the tree."""

    directory: Path
    prefix: str = ""
    """Stands before every path and file, such as `teams/web/`."""
    packages_only: bool = False
    """Whether it is a hidden folder, in which only packages are skills."""
    scope: Scope = "org"


def find_homes(directory: Path, subfolder: str = "") -> tuple[Home, ...]:
    """Return where the skills of a content repository begin.

    A repository keeps them in `skills/`, beside which a hidden folder
    such as `.github/skills` may have more for its own agents; or at its top.
    """
    if subfolder:
        return (Home(directory / subfolder),)
    inner = directory / "skills"
    if not _is_folder(inner) or _is_skill(directory):
        return (Home(directory),)
    hidden = (
        Home(path / "skills", f"{path.name}/skills/", packages_only=True)
        for path in sorted(directory.glob(".*"))
        if path.name.isprintable() and path.name not in SKIPPED
        if _is_folder(path) and _is_folder(path / "skills")
    )
    return (Home(inner), *hidden)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir() and not path.is_symlink()
    except OSError:
        return False  # its own folder may not be looked into


def _is_skill(directory: Path) -> bool:
    """Whether the top itself says something to every task, or is a package."""
    try:
        names = [path.name for path in directory.iterdir() if path.is_file()]
    except OSError:
        return False
    return any(name == f"{ROOT}.md" or is_main(name) for name in names)
