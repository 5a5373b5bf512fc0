"""Which files of a folder are skills: Markdown in a tree (001 §4.1), and packages.

Nothing outside the folder is ever read, and no link is followed, whoever puts one
there while the walk is on its way.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from skills_mcp.errors import InvalidPathError
from skills_mcp.files.paths import MAX_PARTS, find_twins, parse_relative
from skills_mcp.skills.found import Found, Package, RuleFile, Untouched
from skills_mcp.skills.listing import Entry, is_package, load_listing
from skills_mcp.skills.model import Problem, Stamp
from skills_mcp.skills.package import MAIN, is_main
from skills_mcp.skills.problems import printable

MAX_DEPTH = MAX_PARTS - 1
"""As many folders as the path of a file may have."""

SKIPPED = frozenset(
    {".git", ".hg", ".svn", ".jj", ".env", ".env.local", ".netrc", ".venv"}
    | {".DS_Store", "node_modules", "__pycache__"}
)
"""What tools leave beside a skill; a secret in `.env` is nobody's to read."""

_TO_LINK = "put what it leads to in its place"

Entries = Mapping[str, Entry]


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
            return  # whoever loads that file looks into it
        elif folder.count("/") >= MAX_DEPTH:
            yield _too_deep(folder)
        elif self._is_known(folder):
            yield Untouched(folder)
        else:
            yield from self._folder(f"{folder}/", packages_only=packages_only)

    def _markdown(self, file: str, entry: Entry, beside: Entries) -> Iterator[Found]:
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
                markdown: list[str] = []
                for found in self._inside(folder, ""):
                    if isinstance(found, str):
                        markdown.append(found)
                    else:
                        yield found
                directory = self._root / folder
                yield RuleFile(file, directory, tuple(markdown), entry.stamp)
            else:
                yield RuleFile(file, None, (), entry.stamp)

    def _inside(self, folder: str, below: str) -> Iterator["Found | str"]:
        """Yield the Markdown of a folder that belongs to a rule file, and packages.

        A package is one wherever it lies: no file beside it takes it away.
        """
        listed = self._list(f"{folder}/{below}")
        for name, entry in {} if isinstance(listed, Problem) else listed.items():
            inner = f"{below}{name}/"
            if entry.is_folder and is_package(self._root, f"{folder}/{inner}"):
                yield from self._folder(f"{folder}/{inner}", packages_only=True)
            elif entry.is_folder and inner.count("/") < MAX_DEPTH:
                yield from self._inside(folder, inner)
            elif name.endswith(".md") and entry.is_file:
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
        room = max(0, self._max_files - self.seen)
        try:
            listing = load_listing(self._root, prefix, skipped=SKIPPED, most=room)
        except OSError as error:
            hint = "check its permissions"
            reason = f"cannot be listed: {error.strerror}"
            return Problem(
                prefix or ".", reason, hint, rule="unreadable", is_passing=True
            )
        self.seen += listing.count
        if self._is_full and listing.has_main:
            return {}  # a part of a package would look like the whole
        return listing.entries

    @property
    def _is_full(self) -> bool:
        """Whether the limit is exceeded; nothing is looked at any more."""
        return self.seen > self._max_files


def _stamp(prefix: str, file: str, entry: Entry) -> Iterator["Problem | _Stamped"]:
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


def _main_of(entries: Entries) -> str | None:
    """Return the file that makes a folder a package; `SKILL.md` before others.

    A link and a pipe do, too: whatever lies beside them is no skill of its own.
    """
    names = [n for n, e in entries.items() if is_main(n) and not e.is_folder]
    names.sort(key=lambda name: (not entries[name].is_file, name != MAIN))
    return next(iter(names), None)


def _too_deep(folder: str) -> Problem:
    reason = f"is not served: it is more than {MAX_DEPTH} folders deep"
    return Problem(folder, reason, "move it further up", rule="depth")


def _unreadable(file: str) -> Problem:
    """Report a name that nobody can type and not every terminal survives."""
    reason = "has a name with invisible characters, or one that is not UTF-8"
    return Problem(printable(file), reason, "rename it", rule="file-name")


def _unsafe(file: str, reason: str) -> Problem:
    return Problem(printable(file), reason, "rename it", "warning", rule="file-name")
