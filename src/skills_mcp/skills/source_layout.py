"""Source layout: file trees on a disk or in a commit, and the roots of skills in them.

No link is followed. A name can become a link at any time, so each question about an
entry is asked of the open folder, and never again by its path.

Skills begin in `skills/`, in hidden folders, in plugins, or at the top. Words of a
layout, such as `plugins` and `skills`, are no part of a skill's path. See
docs/how-to/whole-repositories.md.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import attrgetter
from pathlib import Path
from posixpath import normpath
from typing import Any, Literal, NamedTuple, Protocol

from skills_mcp.errors import MissingFileError
from skills_mcp.files.opening import OpenFolder, open_inside
from skills_mcp.files.paths import MAX_PARTS, is_inside, is_relative_path, matches_any
from skills_mcp.skills.model import Problem, Scope, Stamp, escape_unprintable
from skills_mcp.skills.skill_index import ROOT
from skills_mcp.skills.skill_parser import is_rule_text, is_skill_md

EntryKind = Literal["folder", "file", "link", "submodule", "other"]


class FolderEntry(NamedTuple):
    kind: EntryKind
    stamp: Stamp | None = None


class FolderListing(NamedTuple):
    """Directory entries, up to a limit."""

    entries: Mapping[str, FolderEntry]
    """Sorted by name; incomplete beyond the limit."""
    number: int
    """The number of names, those beyond `entries` included."""


class FileTree(Protocol):
    """Folders and files below one top folder, on a disk or in a commit.

    Paths are relative to the top, with slashes; the top itself is empty.
    """

    def list(self, folder: str, limit: int) -> FolderListing:
        """List a folder, with `limit` entries at most.

        Raises:
            OSError: Permission is denied, or it is no folder (any more).
        """
        ...

    def read(self, file: str) -> bytes | None:
        """Read a file up to `MAX_READ_BYTES`; None without one, or beyond."""
        ...

    def resolve(self, link: str) -> str | None:
        """Find the path below the top that a link leads to; None without one."""
        ...


class FolderTree:
    """A file tree on this machine; follows links on the way to `root`. Blocking."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._held = OpenFolder(root)

    def list(self, folder: str, limit: int) -> FolderListing:
        with self._held.scan_folder(_split_path(folder)) as scan:
            found = list(islice(scan, limit))  # of millions, no more cost memory
            number = len(found) + sum(1 for _ in scan)
            found.sort(key=_name_of)
            return FolderListing({entry.name: _to_entry(entry) for entry in found}, number)

    def read(self, file: str) -> bytes | None:
        try:
            with open_inside(self._root, _split_path(file)) as handle:
                data = handle.read(MAX_READ_BYTES + 1)
        except (OSError, MissingFileError):
            return None
        return data if len(data) <= MAX_READ_BYTES else None

    def resolve(self, link: str) -> str | None:
        # Only a name: questions about it go to the open folder.
        try:
            top = self._root.resolve()
            return "/".join(top.joinpath(link).resolve(strict=True).relative_to(top).parts)
        except (OSError, ValueError, RuntimeError):
            return None


MAX_READ_BYTES = 1024 * 1024
"""Limit of `FileTree.read`: a manifest of a thousand plugins."""


def has_folder(tree: FileTree, folder: str) -> bool:
    above, _, name = folder.rpartition("/")
    entry = list_or_empty(tree, above).get(name) if folder else _FOLDER
    return entry is not None and entry.kind == "folder"


def list_or_empty(tree: FileTree, folder: str) -> Mapping[str, FolderEntry]:
    """List a folder; empty on errors: the walk reports them."""
    try:
        return tree.list(folder, MAX_READ_BYTES).entries
    except OSError:
        return {}


def may_be_link(file: str) -> bool:
    """Whether a file may be a link to skills that was checked out as text."""
    above, _, name = file.strip("/").rpartition("/")
    return "." not in name and SKILLS_FOLDER in {name, above.rpartition("/")[2]}


def _split_path(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")) if path else ()


def _to_entry(entry: "os.DirEntry[str]") -> FolderEntry:
    # The kind comes with the name; only files have to be looked at.
    found = _OTHER
    try:
        if entry.is_dir(follow_symlinks=False):
            return _FOLDER
        if entry.is_symlink():
            return _LINK
        if entry.is_file(follow_symlinks=False):
            found = _FILE
            return FolderEntry("file", Stamp.of(entry.stat(follow_symlinks=False)))
    except OSError:  # deleted since it was listed, or behind a lock
        pass
    return found


_FOLDER, _LINK = FolderEntry("folder"), FolderEntry("link")
_FILE, _OTHER = FolderEntry("file"), FolderEntry("other")
_name_of = attrgetter("name")


SKILLS_FOLDER = "skills"
"""The customary folder of skills in a repository, a plugin or an agent."""

EXPORT_LOCK = "skills.lock"

TOP_SUBFOLDER = "."
"""The `subfolder` for the top of a source, even with a folder `skills/`."""

PLUGINS_FOLDER = "plugins"
_MANIFEST_FOLDER = ".claude-plugin"
MARKETPLACE_MANIFEST = f"{_MANIFEST_FOLDER}/marketplace.json"
"""See https://code.claude.com/docs/en/plugin-marketplaces."""
PLUGIN_MANIFEST = f"{_MANIFEST_FOLDER}/plugin.json"

BACKUP_FOLDER = ".skills-mcp"
"""Backups of earlier versions by `skills-mcp add`, next to the skills."""

IGNORED_NAMES = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".jj",
        ".env",
        ".env.local",
        ".netrc",
        BACKUP_FOLDER,
    }
)
"""Files of tools, and secrets such as `.env`; never served."""

GENERATED_FOLDERS = frozenset({"node_modules", ".venv", "__pycache__"})
"""Folders filled by programs; nothing in them is served."""

TEST_FOLDERS = frozenset(
    {"test", "tests", "testdata", "test-data", "test_data", "fixtures"}
    | {"__tests__", "__fixtures__"}
)
"""Folders of test data; packages in them are examples, unless they lie in `skills/`."""

# `plugins/cloud/aws/skills` has two folders between.
_MAX_PLUGIN_DEPTH = 4


@dataclass(frozen=True, slots=True)
class SkillRoot:
    """A root folder of skills on this machine, and its prefix in the tree."""

    directory: Path
    prefix: str = ""
    """Of every skill path, such as `teams/web/`."""
    packages_only: bool = False
    """Whether it is a hidden folder, with only packages as skills."""
    scope: Scope = "org"
    file_prefix: str = ""
    """Of every file in messages and headers, such as `plugins/a/skills/`."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The served part of a source."""

    subfolder: str = ""
    """The only served folder; empty for the result of `find_layout`."""
    everywhere: bool = False
    """Whether to serve files outside of the default roots, too."""
    plugins: tuple[str, ...] = ()


DEFAULT_SELECTION = Selection()


@dataclass(frozen=True, slots=True)
class RelativeRoot:
    """A skill root relative to its source, on a disk or in a commit."""

    folder: str
    prefix: str = ""
    packages_only: bool = False
    only: tuple[str, ...] = ()
    """The served folders in it, from the top of the source; empty for all."""
    without: tuple[str, ...] = ()
    """Nested roots, from the top of the source."""
    is_fallback: bool = False
    """Whether it is the top of a source, which holds more than skills."""

    @property
    def parts(self) -> tuple[str, ...]:
        return self.only or (self.folder,)

    @property
    def file_prefix(self) -> str:
        """Prefix of files in messages and headers; empty without a prefix of skills."""
        return f"{self.folder}/" if self.prefix and self.folder else ""

    def below(self, path: str) -> str:
        return f"{self.folder}/{path}".strip("/") if path else self.folder

    def at(self, top: Path, above: str, scope: Scope) -> SkillRoot:
        """Resolve on a disk, below a source's prefix such as `teams/web/`."""
        directory = top / self.folder if self.folder else top
        file_prefix = above + self.file_prefix
        return SkillRoot(directory, above + self.prefix, self.packages_only, scope, file_prefix)


class Layout(NamedTuple):
    """The skill roots of a source, and the problems of its manifests."""

    homes: tuple[RelativeRoot, ...]
    """In order of precedence for a path."""
    problems: tuple[Problem, ...] = ()
    is_picked: bool = False
    """Whether the operator has selected plugins."""


class _Plugin(NamedTuple):
    name: str
    folder: str
    homes: tuple[RelativeRoot, ...] = ()


def find_layout(tree: FileTree, selection: Selection) -> Layout:
    """Find the skill roots of a source.

    A repository keeps skills in `skills/`, in the plugins of its marketplace or of
    `plugins/`, and in hidden folders such as `.github/skills`; without a `skills/`, it
    keeps them at its top.
    """
    subfolder = selection.subfolder
    if subfolder:
        return _find_subfolder(tree, "" if subfolder == TOP_SUBFOLDER else normpath(subfolder))
    manifests = _ManifestReader(tree)
    plugins = tuple(manifests.find_plugins())
    roots = [*_find_default_roots(tree, plugins, everywhere=selection.everywhere)]
    problems = [*manifests.report()]
    if selection.plugins:
        roots = [*_select_plugins(roots, plugins, selection.plugins)]
        problems += _report_unknown_plugins(plugins, selection.plugins)
    homes = tuple(_separate_roots(roots))
    return Layout(homes, tuple(problems), is_picked=bool(selection.plugins))


def _find_subfolder(tree: FileTree, folder: str) -> Layout:
    try:
        tree.list(folder, 0)
    except (FileNotFoundError, NotADirectoryError):
        reason = "is not there, so nothing of this source is served"
        hint = "correct the subfolder of this source in your settings"
        return Layout((), (Problem(folder, reason, hint, rule="subfolder"),))
    except OSError:
        pass  # the walk says why
    return Layout((RelativeRoot(folder),))


def _find_default_roots(
    tree: FileTree, plugins: Sequence["_Plugin"], *, everywhere: bool
) -> Iterator[RelativeRoot]:
    top = list_or_empty(tree, "")
    has_skills = has_folder(tree, SKILLS_FOLDER)
    is_package = any(is_skill_md(name) for name, entry in top.items() if entry.kind == "file")
    if _has_root_rules(top) or (is_package and not _holds_rules(tree, SKILLS_FOLDER)):
        has_skills = False
    folder = SKILLS_FOLDER if has_skills else ""
    base = RelativeRoot(folder, is_fallback=not (has_skills or everywhere))
    yield base
    used_names: set[str] = set()
    for plugin in plugins:
        # Of two plugins with one name, its place tells the second one apart.
        name = plugin.folder if plugin.name in used_names else plugin.name
        used_names.add(plugin.name)
        for home in plugin.homes:
            if plugin.folder or not is_inside(home.folder, base.folder):
                yield replace(home, prefix=f"{name}/" if home.prefix else "")
    for name, entry in top.items():
        if name.startswith(".") and name.isprintable() and name not in IGNORED_NAMES:
            folder = f"{name}/{SKILLS_FOLDER}"
            if entry.kind == "folder" and has_folder(tree, folder):
                yield RelativeRoot(folder, f"{name}/", packages_only=True)
    if has_skills and (everywhere or is_package):
        yield RelativeRoot("", is_fallback=not everywhere)


def _separate_roots(roots: Sequence[RelativeRoot]) -> Iterator[RelativeRoot]:
    homes: dict[str, RelativeRoot] = {}
    for home in roots:
        if home.folder and not is_relative_path(home.folder):
            continue  # a commit may hold a folder that is called `..`
        known = homes.setdefault(home.folder, home)
        only = (*known.only, *home.only) if known.only and home.only else ()
        homes[home.folder] = replace(known, only=tuple(dict.fromkeys(only)))
    for home in homes.values():
        inner = (e for e in homes.values() if e is not home)
        without = {f for e in inner for f in e.parts if is_inside(f, home.folder)}
        yield replace(home, without=tuple(sorted(without)))


def _select_plugins(
    roots: Sequence[RelativeRoot], plugins: Sequence["_Plugin"], patterns: Sequence[str]
) -> Iterator[RelativeRoot]:
    picked = [plugin for plugin in plugins if matches_any(plugin.name, *patterns)]
    parts = [part for plugin in picked for home in plugin.homes for part in home.parts]
    for home in roots:
        if set(home.parts) <= set(parts):
            yield home
        elif not home.only:
            other_roots = {root.folder for root in roots} - {home.folder}
            only = [p for p in parts if p not in other_roots and is_inside(p, home.folder)]
            if only:
                yield replace(home, only=tuple(only))


def _report_unknown_plugins(plugins: Sequence[_Plugin], patterns: Sequence[str]) -> list[Problem]:
    """Report patterns without a plugin: they may be misspelt."""
    names = [plugin.name for plugin in plugins]
    known = ", ".join(names[:20]) or "none"
    return [
        Problem(
            "plugins",
            f"has no plugin that fits {escape_unprintable(pattern)!r}",
            f"correct plugins in your settings; this source has: {escape_unprintable(known)}",
            "warning",
            rule="plugin-unknown",
        )
        for pattern in patterns
        if not any(matches_any(name, pattern) for name in names)
    ]


def _has_root_rules(top: Mapping[str, FolderEntry]) -> bool:
    entry = top.get(f"{ROOT}.md")
    return entry is not None and entry.kind == "file"


def _holds_rules(tree: FileTree, folder: str) -> bool:
    """Whether a folder or one below it has a rule file outside of packages."""
    entries = list_or_empty(tree, folder)
    files = [name for name, entry in entries.items() if entry.kind == "file"]
    inner = [name for name, entry in entries.items() if entry.kind == "folder"]
    if any(is_rule_text(tree.read(f"{folder}/{n}") or b"") for n in files if n.endswith(".md")):
        return True
    is_open = not any(map(is_skill_md, files)) and folder.count("/") < MAX_PARTS
    return is_open and any(_holds_rules(tree, f"{folder}/{name}") for name in inner)


class _ManifestFault(NamedTuple):
    """A kind of fault: of a thousand plugins with it one problem says how many."""

    one: str
    many: str
    hint: str


_MAX_NAMED = 3

_NAMELESS = _ManifestFault(
    "has a plugin without a name", "has {count:,} plugins without a name", "add its name"
)
_ELSEWHERE = _ManifestFault(
    "has the plugin {names}, which lies in another repository",
    "has {count:,} plugins, which lie in other repositories: {names}",
    "add that repository to your sources",
)
_NO_SOURCE = _ManifestFault(
    "has the plugin {names}, whose source is no folder in here",
    "has {count:,} plugins, whose sources are no folders in here: {names}",
    "correct its source",
)
_NO_FOLDER = _ManifestFault(
    "names {names}, which is no folder in there",
    "names {count:,} folders of skills that are not there: {names}",
    "correct skills",
)
_NO_OBJECT = _ManifestFault("is no JSON object, so it is not used", "", "repair it")


@dataclass(slots=True)
class _ManifestReader:
    tree: FileTree
    faults: dict[tuple[str, _ManifestFault], list[str]] = field(default_factory=dict)

    def report(self) -> Iterator[Problem]:
        """Yield one problem for each kind of fault in each manifest."""
        for (file, fault), names in self.faults.items():
            more = ", …" if len(names) > _MAX_NAMED else ""
            text = fault.one if len(names) == 1 else fault.many
            listed = ", ".join(names[:_MAX_NAMED]) + more
            reason = text.format(count=len(names), names=listed)
            yield Problem(file, reason, fault.hint, "warning", rule="manifest")

    def find_plugins(self) -> Iterator[_Plugin]:
        known: set[str] = set()
        for plugin in (*self._find_listed(), *self._descend(PLUGINS_FOLDER, 1)):
            if plugin.folder not in known or not plugin.folder:
                known.add(plugin.folder)
                yield plugin

    def _find_listed(self) -> Iterator[_Plugin]:
        manifest = self._read(MARKETPLACE_MANIFEST)
        entries = manifest.get("plugins")
        metadata = manifest.get("metadata")
        base = metadata.get("pluginRoot") if isinstance(metadata, dict) else None
        for entry in entries if isinstance(entries, list) else []:
            name = entry.get("name") if isinstance(entry, dict) else None
            if not isinstance(name, str) or not isinstance(entry, dict):
                self._warn(_NAMELESS)
                continue
            folder = self._locate(name, entry.get("source"), base)
            if folder is not None:
                yield self._open(folder, name, entry.get("skills"))

    def _locate(self, name: str, source: object, base: object) -> str | None:
        if not isinstance(source, str):
            self._warn(_ELSEWHERE, name)
            return None
        above = base if isinstance(base, str) and not source.startswith(".") else ""
        folder = _parse_folder(f"{above}/{source}")
        if folder is None or not has_folder(self.tree, folder):
            self._warn(_NO_SOURCE, name)
            return None
        return folder

    def _descend(self, folder: str, depth: int) -> Iterator[_Plugin]:
        for name, entry in list_or_empty(self.tree, folder).items():
            inner = f"{folder}/{name}"
            if entry.kind != "folder" or name.startswith(".") or name in GENERATED_FOLDERS:
                continue
            inside = list_or_empty(self.tree, inner)
            if any(map(is_skill_md, inside)):
                continue  # a package, which may have a folder `skills` of its own
            if SKILLS_FOLDER in inside or _MANIFEST_FOLDER in inside:
                yield self._open(inner, inner.removeprefix(f"{PLUGINS_FOLDER}/"), None)
            elif depth < _MAX_PLUGIN_DEPTH:
                yield from self._descend(inner, depth + 1)

    def _open(self, folder: str, name: str, skills: object) -> _Plugin:
        """Read a plugin; the marketplace has precedence over its own manifest."""
        own = self._read(f"{folder}/{PLUGIN_MANIFEST}") if folder else {}
        file = MARKETPLACE_MANIFEST if skills else PLUGIN_MANIFEST
        named = [*self._find_named_folders(folder, skills or own.get("skills"), file)]
        # What a manifest names is in addition to the usual folder.
        usual = f"{folder}/{SKILLS_FOLDER}" if folder else SKILLS_FOLDER
        if (folder or not named) and has_folder(self.tree, usual):
            named = [usual, *(f for f in named if not is_inside(f, usual))]
        if not named and self._is_package(folder):
            named = [folder]
        is_safe = is_relative_path(name) and "/" not in name
        if not is_safe and name != folder.removeprefix(f"{PLUGINS_FOLDER}/"):
            name = folder.rpartition("/")[2] or SKILLS_FOLDER
        homes = [self._to_root(named_folder, folder, name) for named_folder in dict.fromkeys(named)]
        return _Plugin(name, folder, tuple(homes))

    def _find_named_folders(self, plugin: str, declared: object, file: str) -> Iterator[str]:
        texts = declared if isinstance(declared, list) else [declared] if declared else []
        for text in texts:
            folder = _parse_folder(f"{plugin}/{text}")
            if folder is None or not (is_inside(folder, plugin) and has_folder(self.tree, folder)):
                where = plugin or "this repository"
                manifest = f"{plugin}/{file}" if file == PLUGIN_MANIFEST else file
                self._warn(_NO_FOLDER, f"{str(text)!r} of {where}", manifest)
                continue
            yield folder

    def _to_root(self, folder: str, plugin: str, name: str) -> RelativeRoot:
        if not self._is_package(folder) or not folder:
            return RelativeRoot(folder, f"{name}/")
        above = folder.rpartition("/")[0]  # so that its own name is in its path
        return RelativeRoot(above, "" if folder == plugin else f"{name}/", only=(folder,))

    def _is_package(self, folder: str) -> bool:
        return any(map(is_skill_md, list_or_empty(self.tree, folder)))

    def _read(self, file: str) -> Mapping[str, Any]:
        data = self.tree.read(file)
        if data is None:
            return {}
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
        self._warn(_NO_OBJECT, file=file)
        return {}

    def _warn(
        self, fault: _ManifestFault, name: str = "", file: str = MARKETPLACE_MANIFEST
    ) -> None:
        self.faults.setdefault((file, fault), []).append(escape_unprintable(name))


def _parse_folder(path: str) -> str | None:
    folder = normpath(path.strip("/") or ".")
    if folder == ".":
        return ""
    return folder if is_relative_path(folder) else None
