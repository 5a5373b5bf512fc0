"""Files of a plugin outside of its skills, readable if a skill names them.

A plugin is a folder with a manifest, or a folder of `plugins/` with a folder `skills/`.
Paths are relative to the top of the source.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from posixpath import normpath

from skills_mcp.files.paths import is_desktop_file, is_inside, is_relative_path
from skills_mcp.skills import source_layout
from skills_mcp.skills.model import Skill, Stamp
from skills_mcp.skills.skill_files import HOST_PATH, PLUGIN_ROOT
from skills_mcp.skills.skill_parser import is_rule_text, is_skill_md

_ABOVE = re.compile(r"(?<![\w./-])(?:\.\./)+[\w./-]*[\w-]")
_MANIFESTS = (source_layout.PLUGIN_MANIFEST, source_layout.MARKETPLACE_MANIFEST)

MAX_NAMED_FILES = 100
"""Per skill: a text with more names a repository, not a plugin."""


def find_plugin(tree: source_layout.FileTree, folder: str) -> str | None:
    """Find the plugin around the folder of a package: the innermost with a manifest."""
    parts = folder.split("/")
    above = ["", *accumulate(parts[:-1], lambda one, other: f"{one}/{other}")][::-1]
    for plugin in above:
        inside = source_layout.list_or_empty(tree, f"{plugin}/.claude-plugin".lstrip("/"))
        if any(manifest.rpartition("/")[2] in inside for manifest in _MANIFESTS):
            return plugin
    usual = (one for one in above if is_inside(folder, f"{one}/{source_layout.SKILLS_FOLDER}"))
    return next((one for one in usual if one.startswith(f"{source_layout.PLUGINS_FOLDER}/")), None)


def parse_plugin_names(text: str, folder: str, plugin: str) -> list[str]:
    """Parse the files of a plugin that a text in a package's folder names, first ones first.

    >>> parse_plugin_names("Run ../../run.sh, ${CLAUDE_PLUGIN_ROOT}/a.py", "p/skills/x", "p")
    ['p/a.py', 'p/run.sh']
    """
    variables = (found for found in HOST_PATH.finditer(text) if found["variable"] == PLUGIN_ROOT)
    named = [f"{plugin}/{found['path']}" for found in variables]
    named += [f"{folder}/{found[0]}" for found in _ABOVE.finditer(text)]
    paths = dict.fromkeys(normpath(path.lstrip("/")) for path in named)
    return [
        path
        for path in paths
        if is_inside(path, plugin) and not is_inside(path, folder) and is_relative_path(path)
    ][:MAX_NAMED_FILES]


def quote_plugin_file(file: str) -> str:
    """Name a file of a plugin as the text of a skill does."""
    return f"${{{PLUGIN_ROOT}}}/{file}"


@dataclass(frozen=True, slots=True)
class PluginFiles:
    """The files of its plugin that a skill names."""

    owner: Skill
    """The skill, with the folder of the plugin, and these files, for its own."""
    folder: str
    plugin: str

    @property
    def names(self) -> list[str]:
        return [quote_plugin_file(file) for file in self.owner.files]

    def find(self, file: str) -> str | None:
        """Find a file by a path as in the text of the skill."""
        named = parse_plugin_names(file, self.folder, self.plugin)
        inside = named[0].removeprefix(self.plugin).lstrip("/") if named else ""
        return inside if inside in self.owner.files else None


def open_plugin(skill: Skill, top: Path) -> PluginFiles | None:
    """Find the files of its plugin that a skill names, below the top of its source."""
    is_naming = PLUGIN_ROOT in skill.body or "../" in skill.body
    if not is_naming or skill.directory is None or top not in skill.directory.parents:
        return None
    tree, folder = source_layout.FolderTree(top), skill.directory.relative_to(top).as_posix()
    plugin = find_plugin(tree, folder)
    if plugin is None:
        return None
    found = find_plugin_files(tree, skill.body, folder, plugin)
    files = {
        file.removeprefix(plugin).lstrip("/"): stamp
        for file, stamp in found
        # The rules of another skill may be visible to few.
        if not (file.endswith(".md") and is_rule_text(tree.read(file) or b""))
    }
    owner = replace(skill, directory=top / plugin, root=top, files=files)
    return PluginFiles(owner, folder, plugin) if files else None


def find_plugin_files(
    tree: source_layout.FileTree, text: str, folder: str, plugin: str
) -> Iterator[tuple[str, Stamp]]:
    """Find the files that a text names, except those in packages; no link is followed."""
    for file in parse_plugin_names(text, folder, plugin):
        if stamp := _find_file(tree, file, plugin):
            yield file, stamp


def _find_file(tree: source_layout.FileTree, file: str, plugin: str) -> Stamp | None:
    """Find a served file of a plugin; None without one, or in the package of a skill."""
    folder = plugin
    for name in file.removeprefix(plugin).lstrip("/").split("/"):
        entries = source_layout.list_or_empty(tree, folder)
        is_left_out = (
            name in source_layout.IGNORED_NAMES | source_layout.GENERATED_FOLDERS
            or is_desktop_file(name)
        )
        is_package = folder != plugin and any(map(is_skill_md, entries))
        if name not in entries or is_left_out or is_package:
            return None
        entry, folder = entries[name], f"{folder}/{name}".lstrip("/")
    return entry.stamp if entry.kind == "file" else None
