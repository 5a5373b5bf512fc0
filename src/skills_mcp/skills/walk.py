"""Which files of a source are skills: Markdown in a tree, and packages.

Rule: every `SKILL.md` and every Markdown file is part of what a walk finds, or it is in
a problem, or it lies in a folder whose problem has the count.
"""

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from skills_mcp.config import Limits
from skills_mcp.errors import LimitExceededError
from skills_mcp.files.paths import (
    MAX_PARTS,
    are_plain_components,
    fold_name,
    is_path_component,
)
from skills_mcp.skills.file_tree import FileTree, FolderEntry, list_quietly
from skills_mcp.skills.homes import (
    INSTALLED,
    SKIPPED,
    HomeFolder,
    Layout,
    Selection,
    find_layout,
    lies_in,
)
from skills_mcp.skills.model import Level, Problem, Stamp, printable
from skills_mcp.skills.package import MAIN, is_main

MAX_DEPTH = MAX_PARTS - 1
"""As many folders as the path of a file may have."""

_OUTSIDE = "outside-homes"
_TO_LINK = "put what it leads to in its place"

# A limit that is exceeded is told with the number found, unless that takes too long.
_COUNTED_TIMES = 2

_MOST_NAMED = 3
"""As many files are named of those that one problem stands for."""

_LIMITS = Limits.model_construct()


@dataclass(frozen=True, slots=True)
class RuleFile:
    """A Markdown file in the tree, and the folder that belongs to it."""

    file: str
    """Relative to the home."""
    owns_folder: bool = False
    """Whether the folder of the same name has its assets and scripts."""
    markdown: tuple[str, ...] = ()
    """The Markdown files in that folder, by their paths in it."""
    stamp: Stamp | None = field(default=None, compare=False)
    """The size and times of the file; None if it cannot be looked at."""
    files: Mapping[str, Stamp] = field(default_factory=dict, compare=False)
    """All files in that folder by their paths in it, those of packages included."""

    @property
    def folder(self) -> str:
        """The folder that may belong to it, relative to the home."""
        return self.file.removesuffix(".md")


@dataclass(frozen=True, slots=True)
class Package:
    """A folder with a `SKILL.md`, and every file in it."""

    folder: str
    """Relative to the home; empty for the home itself."""
    main: str
    files: Mapping[str, Stamp]
    """All files but the main one, by their paths in the folder."""
    stamp: Stamp | None = field(default=None, compare=False)
    """The size and times of the main file; None if it cannot be looked at."""

    @property
    def file(self) -> str:
        """The `SKILL.md`, relative to the home."""
        return f"{self.folder}/{self.main}" if self.folder else self.main


Found = RuleFile | Package | Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkLimits:
    """How much is looked at in one source.  The defaults are those of `Config`."""

    max_files: int = _LIMITS.max_files
    max_file_bytes: int = _LIMITS.max_file_bytes
    max_total_bytes: int = _LIMITS.max_total_bytes

    @classmethod
    def of(cls, limits: Limits) -> "WalkLimits":
        """Return the limits of a walk that the operator has set."""
        return cls(
            max_files=limits.max_files,
            max_file_bytes=limits.max_file_bytes,
            max_total_bytes=limits.max_total_bytes,
        )


_Entries = Mapping[str, FolderEntry]


@dataclass(slots=True)
class _Tally:
    """How much was seen in all homes of one source."""

    seen: int = 0
    size_bytes: int = 0


class Survey:
    """One walk over a source: all of its homes, and what lies outside of them.

    Args:
        tree: The folder or the commit.
        selection: Which part of it is served.
        limits: How much is looked at.
        layout: Where its skills begin if that is known already.
    """

    def __init__(
        self,
        tree: FileTree,
        selection: Selection,
        limits: WalkLimits,
        layout: Layout | None = None,
    ) -> None:
        self._tree = tree
        self._selection = selection
        self._limits = limits
        self._tally = _Tally()
        self._aside = _Aside()
        self.layout = layout or find_layout(tree, selection)

    def walk(self, home: HomeFolder) -> Iterator[Found]:
        """Yield the skills and problems of a home; files are relative to it.

        Raises:
            LimitExceededError: The source has more files or bytes than it may have.
        """
        yield from Walk(self._tree, home, self._limits, self._tally, self._aside).run()
        most = self._limits.max_total_bytes
        if self._tally.size_bytes > most:
            raise LimitExceededError(
                f"the files to serve have {self._tally.size_bytes:,} bytes, and "
                f"limits.max_total_bytes is {most:,}. Serve a part of them with "
                "subfolder, or raise limits.max_total_bytes"
            )

    def outside(self) -> Iterator[Problem]:
        """Yield what is not served, with counts; call it after the homes are walked."""
        yield from self.layout.problems
        if not self._selection.subfolder:
            yield from self._find_outside("")
        yield from self._aside.problems()

    def _find_outside(self, folder: str) -> Iterator[Problem]:
        """Yield the folders without a home in them that hold packages."""
        parts = [part for home in self.layout.homes for part in home.parts]
        if folder in parts or "" in parts:
            return
        has_home = not folder or any(p.startswith(f"{folder}/") for p in parts)
        if not has_home:
            count = self._count(folder)
            if count:
                yield _outside(folder, count, self.layout)
            return
        entries = self._list(folder)
        mains = [name for name, entry in entries.items() if _is_main_file(name, entry)]
        if mains:
            shown = f"{folder}/{mains[0]}" if folder else mains[0]
            yield _outside(shown, 1, self.layout)
        for name, entry in entries.items():
            inner = f"{folder}/{name}" if folder else name
            if entry.kind == "folder":
                yield from self._find_outside(inner)
            elif not mains:
                self._aside.add(inner, entry)

    def _count(self, folder: str) -> int:
        """Return the number of packages in a folder, at any depth."""
        entries = self._list(folder)
        is_package = any(_is_main_file(*each) for each in entries.items())
        count = int(is_package)
        for name, entry in entries.items():
            if entry.kind == "folder":
                count += self._count(f"{folder}/{name}")
            elif not is_package:
                self._aside.add(f"{folder}/{name}", entry)
        return count

    def _list(self, folder: str) -> _Entries:
        if folder.count("/") > 2 * MAX_DEPTH or self._aside.is_full:
            return {}
        try:
            entries = self._tree.list(folder, self._limits.max_files).entries
        except OSError:
            return {}
        self._aside.looked_at += len(entries)
        if self._aside.looked_at > self._limits.max_files:
            self._aside.is_full = True
        self._aside.skip(folder, entries)
        return {n: e for n, e in entries.items() if n not in _NEVER_SERVED}


def _is_main_file(name: str, entry: FolderEntry) -> bool:
    return entry.kind != "folder" and is_main(name)


def count_not_served(problems: Iterable[Problem]) -> int:
    """Return how many packages lie outside of the homes, as the problems say."""
    found = (each for each in problems if each.rule == _OUTSIDE)
    return sum(each.count for each in found)


def _outside(folder: str, count: int, layout: Layout) -> Problem:
    packages = "1 package" if count == 1 else f"{count:,} packages"
    if layout.is_picked:
        reason = f"holds {packages} of plugins that are not picked"
        hint = "add the plugin to plugins in your settings"
        rule = "plugin-not-picked"
    else:
        homes = [home.folder for home in layout.homes]
        where = ", ".join(homes[:_MOST_NAMED]) + (", …" if homes[_MOST_NAMED:] else "")
        reason = f"holds {packages} outside of the folders that are served ({where})"
        hint = "set everywhere: true for this source (SKILLS_EVERYWHERE=true)"
        rule = _OUTSIDE
    # A warning: previews and evaluations lie there on purpose.
    shown = printable(folder)
    return Problem(shown, reason, hint, "warning", rule=rule, count=count)


@dataclass(slots=True)
class _Aside:
    """What is no skill and no error either, for one line each."""

    markdown: list[str] = field(default_factory=list)
    installed: list[str] = field(default_factory=list)
    looked_at: int = 0
    is_full: bool = False

    def add(self, file: str, entry: FolderEntry) -> None:
        """Count a file that may be a rule file, outside of every home."""
        name = PurePosixPath(file).name
        is_notice = name.removesuffix(".md").isupper()
        if file.endswith(".md") and entry.kind == "file" and not is_notice:
            self.markdown.append(file)

    def skip(self, folder: str, entries: _Entries) -> None:
        """Remember the folders that programs have filled."""
        for name in INSTALLED & entries.keys():
            if entries[name].kind == "folder":
                self.installed.append(f"{folder}/{name}" if folder else name)

    def problems(self) -> Iterator[Problem]:
        """Yield one problem for all files of a kind."""
        if self.markdown:
            reason = "outside of the folders where skills begin"
            yield _summary(
                self.markdown,
                "file of Markdown",
                reason,
                "if they are rules, set everywhere: true for this source",
                rule="outside-markdown",
            )
        if self.installed:
            reason = "filled by a program, of which nothing is served"
            hint = "take them out of the content"
            yield _summary(
                self.installed, "folder", reason, hint, rule="installed-folder"
            )
        if self.is_full:
            reason = "has more files outside of its homes than were looked at"
            hint = "serve a part of it with subfolder, or raise limits.max_files"
            yield Problem(".", reason, hint, "warning", rule="outside-unread")


def _summary(
    files: list[str], noun: str, reason: str, hint: str, *, rule: str
) -> Problem:
    """Return one problem for many files, which names the first few."""
    ordered = sorted(files)
    named = ", ".join(map(printable, ordered[:_MOST_NAMED]))
    more = ", …" if len(files) > _MOST_NAMED else ""
    kind, _, rest = noun.partition(" ")
    nouns = noun if len(files) == 1 else f"{kind}s {rest}".rstrip()
    reason = f"holds {len(files):,} {nouns} {reason}: {named}{more}"
    return Problem(".", reason, hint, "warning", rule=rule, count=len(files))


class Walk:
    """One walk over one home, with a limit for everything that it looks at.

    Args:
        tree: The folder or the commit; nothing outside of it is looked at.
        home: The folder in it where skills begin.
        limits: How much is looked at.
        tally: What was seen in other homes.
        aside: Collects what is no skill and no error either.
    """

    def __init__(
        self,
        tree: FileTree,
        home: HomeFolder,
        limits: WalkLimits,
        tally: _Tally | None = None,
        aside: _Aside | None = None,
    ) -> None:
        self._tree = tree
        self._home = home
        self._limits = limits
        self._tally = tally or _Tally()
        self._aside = aside or _Aside()

    def run(self) -> Iterator[Found]:
        """Yield skills and problems; folders that belong to a skill are its files.

        Raises:
            LimitExceededError: The source has more files than it may have.
        """
        for found in self._folder("", packages_only=self._home.packages_only):
            yield found
            if not isinstance(found, Problem):
                its = (found.stamp, *found.files.values())
                self._tally.size_bytes += sum(each.size_bytes for each in its if each)
        if self._tally.seen > self._limits.max_files:
            raise self._too_many("")

    def _folder(self, prefix: str, *, packages_only: bool) -> Iterator[Found]:
        entries = yield from self._open(prefix, packages_only=packages_only)
        if main := _main_of(entries):
            yield from self._package(prefix, main, entries)
        else:
            yield from self._rules(prefix, entries, packages_only=packages_only)

    def _rules(
        self, prefix: str, entries: _Entries, *, packages_only: bool
    ) -> Iterator[Found]:
        """Yield what a folder of rules holds; of a hidden one, only packages."""
        is_wanted = self._is_wanted(prefix)
        for name, entry in entries.items():
            is_hidden = packages_only or name.startswith(".")
            if entry.kind == "folder":
                yield from self._inner(prefix + name, entries, packages_only=is_hidden)
            elif is_hidden and is_wanted:
                self._aside.add(self._home.below(prefix + name), entry)
            elif entry.kind in {"link", "submodule"} and is_wanted:
                yield from _no_file(prefix + name, entry, "error")
            elif name.endswith(".md") and is_wanted:
                yield from self._markdown(prefix + name, entry, entries)

    def _inner(
        self, folder: str, beside: _Entries, *, packages_only: bool
    ) -> Iterator[Found]:
        """Walk a folder, unless a file of its name has it for its resources."""
        # No `PurePosixPath`, whose parts Python keeps in a table that never shrinks.
        owner = beside.get(f"{folder.rpartition('/')[2]}.md")
        is_owned = owner is not None and owner.kind == "file" and not packages_only
        if not self._leads_to_wanted(folder):
            return
        # A file that is too large to be served owns nothing.
        if owner and self._fault_of_size(folder, owner, "error"):
            is_owned = False
        if is_owned and self._is_wanted(folder) and not self._is_package(folder):
            return  # `_owner` looks into it
        if folder.count("/") >= MAX_DEPTH:
            yield self._too_deep(folder)
        else:
            yield from self._folder(f"{folder}/", packages_only=packages_only)

    def _markdown(
        self, file: str, entry: FolderEntry, beside: _Entries
    ) -> Iterator[Found]:
        folder = file.removesuffix(".md")
        resources = beside.get(PurePosixPath(folder).name)
        # A pipe in place of the file is reported by the reader, and owns nothing.
        kinds = entry.kind, resources.kind if resources else None
        owns = kinds == ("file", "folder")
        if fault := self._fault_of_size(file, entry, "error"):
            yield fault
        elif owns and self._is_wanted(folder) and not self._is_package(folder):
            yield from self._owner(file, entry)
        else:
            yield RuleFile(file, stamp=entry.stamp)

    def _owner(self, file: str, entry: FolderEntry) -> Iterator[Found]:
        """Yield the packages in the folder of a rule file, then the rule file."""
        folder = file.removesuffix(".md")
        own: dict[str, Stamp] = {}
        files: dict[str, Stamp] = {}
        for found in self._inside(folder, "", own):
            if isinstance(found, Package):
                files.update(_files_of(found, folder))
            yield found
        files |= own
        markdown = tuple(name for name in own if name.endswith(".md"))
        ordered = {name: files[name] for name in sorted(files)}
        owns = True
        yield RuleFile(file, owns, markdown, entry.stamp, ordered)

    def _inside(
        self, folder: str, below: str, files: dict[str, Stamp]
    ) -> Iterator[Found]:
        """Yield the packages in a folder that belongs to a rule file.

        A package counts in any folder: no file beside it hides it. The other
        files are added to `files`.
        """
        prefix = f"{folder}/{below}"
        entries = yield from self._open(prefix, is_owned=True)
        for name, entry in entries.items():
            inner = f"{below}{name}/"
            if entry.kind != "folder":
                if not self._keeps(files, below + name, entry):
                    yield from self._explain(prefix + name, entry)
            elif not self._leads_to_wanted(prefix + name):
                continue
            elif self._is_package(prefix + name):
                yield from self._folder(f"{folder}/{inner}", packages_only=True)
            elif (prefix + inner).count("/") > MAX_DEPTH:
                yield self._too_deep(prefix + name)
            else:
                yield from self._inside(folder, inner, files)

    def _package(self, prefix: str, main: str, entries: _Entries) -> Iterator[Found]:
        """Yield a package, and the packages inside it."""
        files: dict[str, Stamp] = {}
        others = {name: entry for name, entry in entries.items() if name != main}
        yield from self._files(prefix, "", others, files)
        entry = entries[main]
        if not self._is_wanted(prefix):
            return
        if entry.kind in {"link", "submodule"}:
            yield from _no_file(prefix + main, entry, "error")
        elif fault := self._fault_of_size(prefix + main, entry, "error"):
            yield fault
        else:
            ordered = {file: files[file] for file in sorted(files)}
            yield Package(prefix.rstrip("/"), main, ordered, entry.stamp)

    def _files(
        self, prefix: str, below: str, entries: _Entries, files: dict[str, Stamp]
    ) -> Iterator[Found]:
        """Add the files of a package to `files`; yield the packages inside it."""
        for name, entry in entries.items():
            path = prefix + below + name
            if entry.kind != "folder":
                if not self._keeps(files, below + name, entry):
                    yield from self._explain(path, entry)
            elif not self._leads_to_wanted(path):
                continue
            elif path.count("/") >= MAX_DEPTH:
                yield self._too_deep(path)
            else:
                listed = yield from self._open(f"{path}/", is_owned=True)
                if main := _main_of(listed):
                    yield from self._package(f"{path}/", main, listed)
                else:
                    yield from self._files(prefix, f"{below}{name}/", listed, files)

    def _keeps(self, files: dict[str, Stamp], file: str, entry: FolderEntry) -> bool:
        """Add a file that belongs to a skill; return whether it can be served."""
        stamp = entry.stamp
        if stamp is None or stamp.size_bytes > self._limits.max_file_bytes:
            return False
        files[file] = stamp
        return True

    def _explain(self, path: str, entry: FolderEntry) -> Iterator[Problem]:
        """Yield why a file does not belong to its skill."""
        if fault := self._fault_of_size(path, entry, "warning"):
            yield fault
        else:
            yield from _no_file(path, entry, "warning")

    def _fault_of_size(
        self, file: str, entry: FolderEntry, level: Level
    ) -> Problem | None:
        size = entry.stamp.size_bytes if entry.stamp else 0
        most = self._limits.max_file_bytes
        if size <= most:
            return None
        reason = f"has {size:,} bytes; limits.max_file_bytes is {most:,}"
        hint = "keep it elsewhere, or let the operator raise the limit"
        return Problem(file, reason, hint, level, rule="file-size")

    def _is_wanted(self, folder: str) -> bool:
        """Whether a folder of the home is a part that is served."""
        only = self._home.only
        path = self._home.below(folder.rstrip("/"))
        return not only or any(lies_in(path, part) for part in only)

    def _leads_to_wanted(self, folder: str) -> bool:
        """Whether a folder is served, or has a part in it that is."""
        home = self._home
        if not home.only and not home.without:
            return True
        path = home.below(folder)
        if path in home.without:
            return False
        parts = home.only or (path,)
        return any(lies_in(path, part) or lies_in(part, path) for part in parts)

    def _is_package(self, folder: str) -> bool:
        """Whether a folder has a main file of a package, or a link for one."""
        entries = list_quietly(self._tree, self._home.below(folder))
        return any(_is_main_file(*each) for each in entries.items())

    def _too_deep(self, folder: str) -> Problem:
        reason = f"is not served: it is more than {MAX_DEPTH} folders deep"
        count = self._count(self._home.below(folder))
        return Problem(folder, reason, "move it further up", rule="depth", count=count)

    def _count(self, folder: str, depth: int = 0) -> int:
        """Return the number of packages in a folder, at any depth that a disk has."""
        entries = list_quietly(self._tree, folder) if depth < 4 * MAX_DEPTH else {}
        self._aside.skip(folder, entries)
        count = int(any(_is_main_file(*each) for each in entries.items()))
        return count + sum(
            self._count(f"{folder}/{name}", depth + 1)
            for name, entry in entries.items()
            if entry.kind == "folder" and name not in _NEVER_SERVED
        )

    def _open(
        self, prefix: str, *, packages_only: bool = False, is_owned: bool = False
    ) -> Generator[Problem, None, _Entries]:
        """Return the entries of a folder, and yield those that cannot be served.

        Args:
            prefix: The folder in the home, with a slash at its end.
            packages_only: Whether Markdown in it is no skill.
            is_owned: Whether it belongs to a skill, so that every file counts.
        """
        try:
            entries = self._list(prefix)
        except OSError as error:
            hint = "check its permissions"
            reason = f"cannot be listed: {error.strerror}"
            at = prefix or "."
            yield Problem(at, reason, hint, rule="unreadable", is_passing=True)
            return {}
        if not entries or _are_all_served(entries):
            return entries  # nearly always, and ten thousand folders are asked
        refused = dict(_find_refused(entries))
        is_owned = is_owned or any(_is_main_file(*each) for each in entries.items())
        for name, (reason, hint, rule) in refused.items():
            if not self._leads_to_wanted(prefix + name):
                continue
            entry, path = entries[name], self._home.below(prefix + name)
            count = self._count(path) if entry.kind == "folder" else 0
            is_skill = is_main(name) or (name.endswith(".md") and not packages_only)
            if count or is_owned or entry.kind == "folder" or is_skill:
                is_error = count or is_main(name) or not is_owned
                level: Level = "error" if is_error else "warning"
                shown = printable(prefix + name)
                yield Problem(shown, reason, hint, level, rule=rule, count=count)
            else:
                self._aside.add(path, entry)
        return {n: entry for n, entry in entries.items() if n not in refused}

    def _list(self, prefix: str) -> _Entries:
        """Return the entries of a folder, but those that tools leave there.

        Raises:
            OSError: It may not be listed.
            LimitExceededError: There are far more files than there may be.
        """
        most = self._limits.max_files
        folder = self._home.below(prefix.rstrip("/"))
        entries, count = self._tree.list(folder, max(0, most - self._tally.seen))
        self._tally.seen += count
        if self._tally.seen > _COUNTED_TIMES * most:
            raise self._too_many("more than ")
        if left_out := entries.keys() & _NEVER_SERVED:
            self._aside.skip(folder, entries)
            return {n: entry for n, entry in entries.items() if n not in left_out}
        return entries

    def _too_many(self, about: str) -> LimitExceededError:
        return LimitExceededError(
            f"there are {about}{self._tally.seen:,} files and folders, and "
            f"limits.max_files is {self._limits.max_files:,}. Serve a part of them "
            "with subfolder, or raise limits.max_files"
        )


_Refusal = tuple[str, str, str]
"""Why a name is not served: the reason, what to do, and the rule."""

_NOT_PRINTABLE: _Refusal = (
    "has a name with invisible characters, or one that is not UTF-8",
    "rename it",
    "file-name",
)
_UNSAFE: _Refusal = (
    "has a name that is not safe on every system",
    "rename it: letters, digits, hyphens and dots are safe",
    "file-name",
)
_COLLISION: _Refusal = (
    "has a name that some file systems take for another one in its folder",
    "rename one of them so that they differ in more than capitals and accents",
    "name-collision",
)


def _are_all_served(entries: _Entries) -> bool:
    """Whether each name is safe, and none is another one's twin."""
    is_plain = are_plain_components(entries)
    return is_plain and len(set(map(str.lower, entries))) == len(entries)


def _find_refused(entries: _Entries) -> Iterator[tuple[str, _Refusal]]:
    """Yield the names that no file system should be given, each with the reason."""
    for name in entries:
        if not name.isprintable():
            yield name, _NOT_PRINTABLE
        elif not is_path_component(name):
            yield name, _UNSAFE
    folded = {fold_name(name) for name in entries}
    if len(folded) == len(entries):
        return
    alike = defaultdict(list)
    for name in entries:
        alike[fold_name(name)].append(name)
    for names in alike.values():
        # The standard asks for exactly this name, so it is not one of several.
        best = _main_of(entries) if any(map(is_main, names)) else None
        others = [name for name in names if name != best]
        if len(names) > 1:
            yield from ((name, _COLLISION) for name in others)


def _no_file(file: str, entry: FolderEntry, level: Level) -> Iterator[Problem]:
    """Yield a problem for a name that has no content of its own."""
    if entry.kind == "link":
        reason = "is a link, so it is not served"
        yield Problem(file, reason, _TO_LINK, level, rule="link")
    elif entry.kind == "submodule":
        reason = "is a submodule, which is another repository"
        hint = "add that repository to your sources, or copy its files"
        yield Problem(file, reason, hint, level, rule="submodule")


def _files_of(package: Package, folder: str) -> Iterator[tuple[str, Stamp]]:
    """Iterate over the files of a package by their paths in a folder above it."""
    inside = package.folder.removeprefix(f"{folder}/")
    for name, stamp in package.files.items():
        yield f"{inside}/{name}", stamp
    if package.stamp:
        yield f"{inside}/{package.main}", package.stamp


def _main_of(entries: _Entries) -> str | None:
    """Return the file that makes a folder a package; `SKILL.md` before others.

    A link and a pipe make it a package, too: no file beside them is a skill of its own.
    """
    exact = entries.get(MAIN)
    if exact and exact.kind == "file":
        return MAIN
    names = [name for name in entries if len(name) == _MAIN_LENGTH and is_main(name)]
    names = [name for name in names if entries[name].kind != "folder"]
    names.sort(key=lambda name: (entries[name].kind != "file", name != MAIN))
    return next(iter(names), None)


_MAIN_LENGTH = len(MAIN)
_NEVER_SERVED = SKIPPED | INSTALLED
