"""Which files of a folder are skills: Markdown in a tree (001 §4.1), and packages.

Nothing outside the folder is ever read, and no link is followed.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from skills_mcp.errors import InvalidPathError
from skills_mcp.safe_path import parse_relative
from skills_mcp.skills.found import Found, Package, RuleFile, Untouched
from skills_mcp.skills.model import Problem, Stamp
from skills_mcp.skills.package import MAIN, is_main
from skills_mcp.skills.problems import printable

MAX_DEPTH = 32
"""Three times the deepest public skill."""

SKIPPED = frozenset(
    {".git", ".hg", ".svn", ".jj", ".env", ".env.local", ".netrc", ".venv"}
    | {".DS_Store", "node_modules", "__pycache__"}
)
"""What tools leave beside a skill; a secret in `.env` is nobody's to read."""

_TO_LINK = "put what it leads to in its place"

Entries = Mapping[str, "os.DirEntry[str]"]


@dataclass(frozen=True, slots=True)
class _Stamped:
    file: str
    stamp: Stamp


def _nothing(_: str) -> bool:
    return False


class Walk:
    """One walk over one folder, with a limit for everything that it looks at.

    Args:
        root: The folder; nothing outside it is looked at.
        max_files: How many files and folders are looked at.
        packages_only: Whether Markdown files that stand alone are no skills.
        is_known: Tells folders that need not be looked into.
    """

    def __init__(
        self,
        root: Path,
        max_files: int,
        *,
        packages_only: bool = False,
        is_known: Callable[[str], bool] = _nothing,
    ) -> None:
        self._root = root
        self._max_files = max_files
        self._packages_only = packages_only
        self._is_known = is_known
        self.seen = 0
        """How many files and folders have been looked at."""

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
            if _is_folder(entry):
                yield from self._inner(prefix + name, entries, packages_only=is_hidden)
            elif not is_hidden:
                yield from self._markdown(prefix + name, entry, entries)

    def _inner(
        self, folder: str, beside: Entries, *, packages_only: bool
    ) -> Iterator[Found]:
        """Walk a folder, unless a file of its name has it for its resources."""
        owner = beside.get(f"{PurePosixPath(folder).name}.md")
        is_owned = owner is not None and _is_file(owner) and not packages_only
        if not folder.isprintable():
            yield _unreadable(folder)
        elif is_owned and not self._is_package(folder):
            return  # whoever loads that file looks into it
        elif folder.count("/") >= MAX_DEPTH:
            yield _too_deep(folder)
        elif self._is_known(folder):
            yield Untouched(folder)
        else:
            yield from self._folder(f"{folder}/", packages_only=packages_only)

    def _markdown(
        self, file: str, entry: "os.DirEntry[str]", beside: Entries
    ) -> Iterator[Found]:
        is_markdown = file.endswith(".md")
        if not is_markdown and not _leads_to_folder(entry):
            return
        if not file.isprintable():
            yield _unreadable(file)
        elif entry.is_symlink():
            yield Problem(file, "is a link", _TO_LINK, rule="link")
        elif is_markdown:
            folder = file.removesuffix(".md")
            resources = beside.get(PurePosixPath(folder).name)
            owns = resources is not None and _is_folder(resources)
            if owns and _is_file(entry) and not self._is_package(folder):
                markdown: list[str] = []
                for found in self._inside(folder, ""):
                    if isinstance(found, str):
                        markdown.append(found)
                    else:
                        yield found
                directory = self._root / folder
                yield RuleFile(file, directory, tuple(markdown), _look(entry))
            else:
                yield RuleFile(file, None, (), _look(entry))

    def _inside(self, folder: str, below: str) -> Iterator["Found | str"]:
        """Yield the Markdown of a folder that belongs to a rule file, and packages.

        A package is one wherever it lies: no file beside it takes it away.
        """
        listed = self._list(f"{folder}/{below}")
        for name, entry in {} if isinstance(listed, Problem) else listed.items():
            inner = f"{below}{name}/"
            if _is_folder(entry) and self._is_package(f"{folder}/{inner}"):
                yield from self._folder(f"{folder}/{inner}", packages_only=True)
            elif _is_folder(entry) and inner.count("/") < MAX_DEPTH:
                yield from self._inside(folder, inner)
            elif name.endswith(".md") and _is_file(entry):
                yield below + name

    def _package(self, prefix: str, main: str, entries: Entries) -> Iterator[Found]:
        """Yield a package, and the packages inside it."""
        files: dict[str, Stamp] = {}
        others = {name: entry for name, entry in entries.items() if name != main}
        for found in self._files(prefix, "", others):
            if isinstance(found, _Stamped):
                files[found.file] = found.stamp
            else:
                yield found
        if entries[main].is_symlink():
            yield Problem(prefix + main, "is a link", _TO_LINK, rule="link")
        elif not self._is_full:  # or it would look as if these were all of its files
            ordered = dict(sorted(files.items()))
            yield Package(prefix.rstrip("/"), main, ordered, _look(entries[main]))

    def _files(
        self, prefix: str, below: str, entries: Entries
    ) -> Iterator["Found | _Stamped"]:
        """Yield the files of a package; a folder with its own main file is another."""
        for name, entry in entries.items():
            if not _is_folder(entry):
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
        try:
            with os.scandir(self._root / prefix) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            hint = "check its permissions"
            reason = f"cannot be listed: {error.strerror}"
            return Problem(
                prefix or ".", reason, hint, rule="unreadable", is_passing=True
            )
        kept = [entry for entry in entries if entry.name not in SKIPPED]
        room = max(0, self._max_files - self.seen)
        self.seen += len(kept)
        if self._is_full and any(is_main(entry.name) for entry in kept):
            return {}  # a part of a package would look like the whole
        return {entry.name: entry for entry in kept[:room]}

    @property
    def _is_full(self) -> bool:
        """Whether the limit is exceeded; nothing is looked at any more."""
        return self.seen > self._max_files

    def _is_package(self, folder: str) -> bool:
        try:
            with os.scandir(self._root / folder) as scan:
                return any(is_main(e.name) and not _is_folder(e) for e in scan)
        except OSError:
            return False


def _stamp(
    prefix: str, file: str, entry: "os.DirEntry[str]"
) -> Iterator["Problem | _Stamped"]:
    shown = prefix + file
    if entry.is_symlink():
        reason = "is a link, so it is not among the files of its package"
        yield Problem(printable(shown), reason, _TO_LINK, "warning", rule="link")
        return
    try:
        parse_relative(file)
        found = entry.stat(follow_symlinks=False)
    except InvalidPathError:
        reason = "has a name that is not safe everywhere"
        yield Problem(
            printable(shown), reason, "rename it", "warning", rule="file-name"
        )
    except OSError:
        pass  # deleted since the folder was listed
    else:
        if stat.S_ISREG(found.st_mode):
            yield _Stamped(file, Stamp.of(found))


def _look(entry: "os.DirEntry[str]") -> Stamp | None:
    try:
        return Stamp.of(entry.stat(follow_symlinks=False))
    except OSError:
        return None


def _main_of(entries: Entries) -> str | None:
    """Return the file that makes a folder a package; `SKILL.md` before others.

    A link and a pipe do, too: whatever lies beside them is no skill of its own.
    """
    names = [n for n, e in entries.items() if is_main(n) and not _is_folder(e)]
    names.sort(key=lambda name: (not _is_file(entries[name]), name != MAIN))
    return next(iter(names), None)


def _is_file(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_file(follow_symlinks=False)
    except OSError:
        return False


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _leads_to_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link to itself


def _too_deep(folder: str) -> Problem:
    reason = f"is not served: it is more than {MAX_DEPTH} folders deep"
    return Problem(folder, reason, "move it further up", rule="depth")


def _unreadable(file: str) -> Problem:
    """Report a name that nobody can type and not every terminal survives."""
    reason = "has a name with invisible characters, or one that is not UTF-8"
    return Problem(printable(file), reason, "rename it", rule="file-name")
