"""Where skills begin in a source: `skills/`, hidden folders, plugins, or the top.

Rule: words of a layout, such as `plugins` and `skills`, are no part of a skill's path.
See docs/how-to/whole-repositories.md.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from posixpath import normpath
from typing import Any

from skills_mcp.errors import InvalidPathError
from skills_mcp.files.paths import parse_relative
from skills_mcp.files.patterns import fits
from skills_mcp.skills.file_tree import FileTree, has_folder, list_quietly
from skills_mcp.skills.index import ROOT
from skills_mcp.skills.model import Problem, Scope, printable
from skills_mcp.skills.package import is_main

SKILLS = "skills"
"""The folder in which a repository, a plugin or an agent keeps its skills."""

EXPORT_LOCK = "skills.lock"
"""The file in a folder that an export has written."""

TOP = "."
"""The `subfolder` for the top of a source, even if it has a folder `skills/`."""

PLUGINS = "plugins"
_MANIFESTS = ".claude-plugin"
MARKETPLACE = f"{_MANIFESTS}/marketplace.json"
"""Lists the plugins of a repository.

See https://code.claude.com/docs/en/plugin-marketplaces.
"""
PLUGIN = f"{_MANIFESTS}/plugin.json"
"""Describes one plugin, in its folder."""

EARLIER = ".skills-mcp"
"""The folder beside skills in which `skills-mcp add` keeps their earlier versions."""

SKIPPED = frozenset(
    {".git", ".hg", ".svn", ".jj", ".env", ".env.local", ".netrc", ".DS_Store", EARLIER}
)
"""What tools leave beside a skill, and secrets such as `.env`; none of it is served."""

INSTALLED = frozenset({"node_modules", ".venv", "__pycache__"})
"""Folders that programs fill; nothing in them is served."""

# `plugins/cloud/aws/skills` has two folders between.
_MAX_PLUGIN_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Home:
    """A folder in which skills begin, and the place of these skills in the tree."""

    directory: Path
    prefix: str = ""
    """Stands before every path, such as `teams/web/`."""
    packages_only: bool = False
    """Whether it is a hidden folder, in which only packages are skills."""
    scope: Scope = "org"
    file_prefix: str = ""
    """Stands before every file in messages and headers, such as `plugins/a/skills/`."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which part of a source is served."""

    subfolder: str = ""
    """The only folder that is served; empty for those of `find_layout`."""
    everywhere: bool = False
    """Whether what lies outside of the usual homes is served, too."""
    plugins: tuple[str, ...] = ()
    """Names or patterns of plugins; if there are any, only these are served."""


WHOLE = Selection()
"""All usual homes of a source."""


@dataclass(frozen=True, slots=True)
class HomeFolder:
    """A home by its place in the source, which may be a commit."""

    folder: str
    """Relative to the top of the source; empty for the top itself."""
    prefix: str = ""
    packages_only: bool = False
    only: tuple[str, ...] = ()
    """The folders in it that are served, from the top of the source; empty for all."""
    without: tuple[str, ...] = ()
    """Folders in it that are homes themselves, from the top of the source."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The folders that are served, from the top of the source."""
        return self.only or (self.folder,)

    @property
    def shown(self) -> str:
        """What stands before the files of this home in messages and headers.

        Nothing for a home without a prefix: its files are called as its skills are.
        """
        return f"{self.folder}/" if self.prefix and self.folder else ""

    def below(self, path: str) -> str:
        """Return the path of something in this home from the top of the source."""
        return f"{self.folder}/{path}".strip("/") if path else self.folder

    def at(self, top: Path, above: str, scope: Scope) -> Home:
        """Return the home of a source that lies on a disk.

        Args:
            top: The folder of the source.
            above: What stands before every path of the source, such as `teams/web/`.
            scope: Whose skills they are.
        """
        directory = top / self.folder if self.folder else top
        shown = above + self.shown
        return Home(directory, above + self.prefix, self.packages_only, scope, shown)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the skills of a source begin, and what is wrong with its manifests."""

    homes: tuple[HomeFolder, ...]
    """In the order in which they get a path that several of them want."""
    problems: tuple[Problem, ...] = ()
    is_picked: bool = False
    """Whether the operator has picked some of the plugins."""


@dataclass(frozen=True, slots=True)
class _Plugin:
    """A plugin of this source."""

    name: str
    folder: str
    homes: tuple[HomeFolder, ...] = ()
    """Where its skills begin."""


def find_layout(tree: FileTree, selection: Selection) -> Layout:
    """Return where the skills of a source begin.

    A repository keeps them in `skills/`, in the plugins that its marketplace lists or
    that lie in `plugins/`, and in hidden folders such as `.github/skills`; one without
    a `skills/` keeps them at its top.
    """
    subfolder = selection.subfolder
    if subfolder:
        return _find_part(tree, "" if subfolder == TOP else normpath(subfolder))
    reading = _Manifests(tree)
    plugins = tuple(reading.find_plugins())
    usual = [*_find_usual(tree, plugins, everywhere=selection.everywhere)]
    problems = reading.problems
    if selection.plugins:
        usual = [*_pick(usual, plugins, selection.plugins)]
        problems += _unknown(plugins, selection.plugins)
    homes = tuple(_separate(usual))
    return Layout(homes, tuple(problems), is_picked=bool(selection.plugins))


def _find_part(tree: FileTree, folder: str) -> Layout:
    try:
        tree.list(folder, 0)
    except (FileNotFoundError, NotADirectoryError):
        reason = "is not there, so nothing of this source is served"
        hint = "correct the subfolder of this source in your settings"
        return Layout((), (Problem(folder, reason, hint, rule="subfolder"),))
    except OSError:
        pass  # the walk says why
    return Layout((HomeFolder(folder),))


def _find_usual(
    tree: FileTree, plugins: Sequence["_Plugin"], *, everywhere: bool
) -> Iterator[HomeFolder]:
    top = list_quietly(tree, "")
    inner = top.get(SKILLS)
    has_skills = inner is not None and inner.kind == "folder" and not _is_skill(top)
    base = HomeFolder(SKILLS if has_skills else "")
    yield base
    taken: set[str] = set()
    for plugin in plugins:
        # Of two plugins with one name, its place tells the second one apart.
        name = plugin.folder if plugin.name in taken else plugin.name
        taken.add(plugin.name)
        for home in plugin.homes:
            if plugin.folder or not lies_in(home.folder, base.folder):
                yield replace(home, prefix=f"{name}/" if home.prefix else "")
    for name, entry in top.items():
        if name.startswith(".") and name.isprintable() and name not in SKIPPED:
            folder = f"{name}/{SKILLS}"
            if entry.kind == "folder" and has_folder(tree, folder):
                yield HomeFolder(folder, f"{name}/", packages_only=True)
    if has_skills and everywhere:
        yield HomeFolder("")


def _separate(usual: Sequence[HomeFolder]) -> Iterator[HomeFolder]:
    """Yield each home once, without the homes that lie in it."""
    homes: dict[str, HomeFolder] = {}
    # A commit may hold a folder that is called `..`.
    for home in (each for each in usual if not each.folder or _is_legal(each.folder)):
        known = homes.setdefault(home.folder, home)
        only = (*known.only, *home.only) if known.only and home.only else ()
        homes[home.folder] = replace(known, only=tuple(dict.fromkeys(only)))
    for home in homes.values():
        inner = (e for e in homes.values() if e is not home)
        without = {f for e in inner for f in e.parts if lies_in(f, home.folder)}
        yield replace(home, without=tuple(sorted(without)))


def _pick(
    usual: Sequence[HomeFolder], plugins: Sequence["_Plugin"], wanted: Sequence[str]
) -> Iterator[HomeFolder]:
    """Yield the homes of the plugins that the operator wants."""
    picked = [plugin for plugin in plugins if fits(plugin.name, *wanted)]
    parts = [part for plugin in picked for home in plugin.homes for part in home.parts]
    for home in usual:
        if set(home.parts) <= set(parts):
            yield home
        elif not home.only:
            whole = {each.folder for each in usual} - {home.folder}
            only = [p for p in parts if p not in whole and lies_in(p, home.folder)]
            if only:
                yield replace(home, only=tuple(only))


def _unknown(plugins: Sequence[_Plugin], wanted: Sequence[str]) -> list[Problem]:
    """Report names of plugins that fit none: they may be misspelt."""
    names = [plugin.name for plugin in plugins]
    known = ", ".join(names[:20]) or "none"
    return [
        Problem(
            "plugins",
            f"has no plugin that fits {printable(each)!r}",
            f"correct plugins in your settings; this source has: {printable(known)}",
            "warning",
            rule="plugin-unknown",
        )
        for each in wanted
        if not any(fits(name, each) for name in names)
    ]


def lies_in(folder: str, above: str) -> bool:
    """Whether a folder is another one, or lies in it."""
    return not above or folder == above or folder.startswith(f"{above}/")


def _is_skill(top: Mapping[str, Any]) -> bool:
    """Whether the top itself says something to every task, or is a package."""
    names = (name for name, entry in top.items() if entry.kind == "file")
    return any(name == f"{ROOT}.md" or is_main(name) for name in names)


@dataclass(slots=True)
class _Manifests:
    """Reads the manifests of a source, and collects what is wrong with them."""

    tree: FileTree
    problems: list[Problem] = field(default_factory=list)

    def find_plugins(self) -> Iterator[_Plugin]:
        """Yield the plugins: those of the marketplace, then those of `plugins/`."""
        known: set[str] = set()
        for plugin in (*self._listed(), *self._unlisted()):
            if plugin.folder not in known or not plugin.folder:
                known.add(plugin.folder)
                yield plugin

    def _listed(self) -> Iterator[_Plugin]:
        manifest = self._read(MARKETPLACE)
        entries = manifest.get("plugins")
        metadata = manifest.get("metadata")
        base = metadata.get("pluginRoot") if isinstance(metadata, dict) else None
        for entry in entries if isinstance(entries, list) else []:
            name = entry.get("name") if isinstance(entry, dict) else None
            if not isinstance(name, str) or not isinstance(entry, dict):
                self._warn("has a plugin without a name", "add its name")
                continue
            folder = self._locate(name, entry.get("source"), base)
            if folder is not None:
                yield self._open(folder, name, entry.get("skills"))

    def _locate(self, name: str, source: object, base: object) -> str | None:
        """Return the folder of a plugin; None if it is not in this source."""
        shown = printable(name)
        if not isinstance(source, str):
            reason = f"has the plugin {shown}, which lies in another repository"
            self._warn(reason, "add that repository to your sources")
            return None
        above = base if isinstance(base, str) and not source.startswith(".") else ""
        folder = _parse_folder(f"{above}/{source}")
        if folder is None or (folder and not has_folder(self.tree, folder)):
            reason = f"has the plugin {shown}, whose source is no folder in here"
            self._warn(reason, "correct its source")
            return None
        return folder

    def _unlisted(self) -> Iterator[_Plugin]:
        if has_folder(self.tree, PLUGINS):
            yield from self._descend(PLUGINS, 1)

    def _descend(self, folder: str, depth: int) -> Iterator[_Plugin]:
        for name, entry in list_quietly(self.tree, folder).items():
            inner = f"{folder}/{name}"
            if entry.kind != "folder" or name.startswith(".") or name in INSTALLED:
                continue
            inside = list_quietly(self.tree, inner)
            if any(map(is_main, inside)):
                continue  # a package, which may have a folder `skills` of its own
            if SKILLS in inside or _MANIFESTS in inside:
                yield self._open(inner, inner.removeprefix(f"{PLUGINS}/"), None)
            elif depth < _MAX_PLUGIN_DEPTH:
                yield from self._descend(inner, depth + 1)

    def _open(self, folder: str, name: str, skills: object) -> _Plugin:
        """Return a plugin; what the marketplace says of it wins."""
        own = self._read(f"{folder}/{PLUGIN}") if folder else {}
        said, file = (skills, MARKETPLACE) if skills else (own.get("skills"), PLUGIN)
        named = [*self._find_named(folder, said, file)]
        # What a manifest names is in addition to the usual folder.
        usual = f"{folder}/{SKILLS}" if folder else SKILLS
        if (folder or not named) and has_folder(self.tree, usual):
            named = [usual, *(f for f in named if not lies_in(f, usual))]
        if not named and self._is_package(folder):
            named = [folder]
        is_safe = _is_legal(name) and "/" not in name
        if not is_safe and name != folder.removeprefix(f"{PLUGINS}/"):
            name = folder.rpartition("/")[2] or SKILLS
        homes = [self._home(each, folder, name) for each in dict.fromkeys(named)]
        return _Plugin(name, folder, tuple(homes))

    def _find_named(self, plugin: str, said: object, file: str) -> Iterator[str]:
        """Yield the folders that a manifest names; a plugin has no others."""
        texts = said if isinstance(said, list) else [said] if said else []
        for text in texts:
            folder = _parse_folder(f"{plugin}/{text}")
            if folder is None or not self._has(plugin, folder):
                where = printable(plugin) or "this repository"
                reason = (
                    f"names {printable(str(text))!r}, which is no folder in {where}"
                )
                shown = f"{plugin}/{file}" if file == PLUGIN else file
                self._warn(reason, "correct skills", shown)
                continue
            yield folder

    def _has(self, plugin: str, folder: str) -> bool:
        is_top = not folder
        return lies_in(folder, plugin) and (is_top or has_folder(self.tree, folder))

    def _home(self, folder: str, plugin: str, name: str) -> HomeFolder:
        if not self._is_package(folder) or not folder:
            return HomeFolder(folder, f"{name}/")
        above = folder.rpartition("/")[0]  # so that its own name is in its path
        return HomeFolder(above, "" if folder == plugin else f"{name}/", only=(folder,))

    def _is_package(self, folder: str) -> bool:
        return any(map(is_main, list_quietly(self.tree, folder)))

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
        self._warn("is no JSON object, so it is not used", "repair it", file)
        return {}

    def _warn(self, reason: str, hint: str, file: str = MARKETPLACE) -> None:
        problem = Problem(file, reason, hint, "warning", rule="manifest")
        self.problems.append(problem)


def _parse_folder(path: str) -> str | None:
    """Return a folder from the top of the source; None if it is not in there."""
    folder = normpath(path.strip("/") or ".")
    if folder == ".":
        return ""
    return folder if _is_legal(folder) else None


def _is_legal(path: str) -> bool:
    try:
        parse_relative(path)
    except InvalidPathError:
        return False
    return True
