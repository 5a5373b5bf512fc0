"""Discovery: find the rule files and packages of a source, and read them.

Rule: every `SKILL.md` and every Markdown file is a result of the walk, or named in a
problem, or counted in the problem of a folder.

A skill depends on nothing but its discovered files, so that the same files need not be
read twice. An invalid file becomes a `Problem`.
"""

import codecs
import os
import re
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from posixpath import normpath

from skills_mcp.config import Limits
from skills_mcp.errors import LimitExceededError, MissingFileError
from skills_mcp.files.opening import open_inside
from skills_mcp.files.paths import (
    MAX_PARTS,
    are_plain_components,
    find_composed_name,
    fold_name,
    is_desktop_file,
    is_inside,
    is_path_component,
)
from skills_mcp.skills.document import decode_markdown, forbids_implicit_use
from skills_mcp.skills.inheritance import InheritableEntry
from skills_mcp.skills.model import (
    Level,
    Problem,
    ProblemList,
    Skill,
    SkillPath,
    Stamp,
    escape_unprintable,
)
from skills_mcp.skills.skill_files import is_lfs_pointer
from skills_mcp.skills.skill_index import INDEX, ROOT
from skills_mcp.skills.skill_parser import (
    SKILL_MD,
    find_named_files,
    has_purpose,
    is_path_text,
    is_rule_text,
    is_skill_md,
    parse_package,
    parse_rule_file,
)
from skills_mcp.skills.source_layout import (
    GENERATED_FOLDERS,
    IGNORED_NAMES,
    MARKETPLACE_MANIFEST,
    PLUGIN_MANIFEST,
    PLUGINS_FOLDER,
    SKILLS_FOLDER,
    TEST_FOLDERS,
    EntryKind,
    FileTree,
    FolderEntry,
    Layout,
    RelativeRoot,
    Selection,
    SkillRoot,
    find_layout,
    has_folder,
    list_or_empty,
    may_be_link,
)
from skills_mcp.text.rendering import count_noun

MAX_DEPTH = MAX_PARTS - 1
"""Limit of folders in the path of a file."""

_OUTSIDE = "outside-homes"

# A limit that is exceeded is told with the number of all, unless that takes too long.
_COUNT_FACTOR = 2

_MAX_TOP_FILES = 50
"""Files of a package at the top of a source with which it is no whole repository."""

_MAX_READ_TEXTS = 20
"""Texts read for the names of files: each may take a fetch."""

_MAX_LINK_BYTES = 255
"""Limit of a file that may be a link checked out as text."""

_MAX_NAMED = 3
"""Files named in the summary of many."""

_CODEX_POLICY = "agents/openai.yaml"
"""See https://developers.openai.com/codex/skills."""


@dataclass(frozen=True, slots=True)
class RuleFile:
    """A Markdown file in the tree, and its folder of resources."""

    file: str
    owns_folder: bool = False
    """Whether the folder of the same name has its assets and scripts."""
    markdown: tuple[str, ...] = ()
    """The Markdown files in that folder, relative to it."""
    stamp: Stamp | None = field(default=None, compare=False)
    files: Mapping[str, Stamp] = field(default_factory=dict, compare=False)
    """All files in that folder, relative to it; with those of packages."""

    @property
    def folder(self) -> str:
        return self.file.removesuffix(".md")


@dataclass(frozen=True, slots=True)
class Package:
    """A folder with a `SKILL.md`, and every file in it."""

    folder: str
    main: str
    files: Mapping[str, Stamp]
    stamp: Stamp | None = field(default=None, compare=False)

    @property
    def file(self) -> str:
        return f"{self.folder}/{self.main}" if self.folder else self.main


WalkResult = RuleFile | Package | Problem


_Entries = Mapping[str, FolderEntry]

_CURSOR = ".mdc"
INSTRUCTIONS = ".instructions.md"
"""Suffix of Copilot's instructions, which have `applyTo` instead of keywords."""
HOST_RULES = frozenset({"cursor-rules", "copilot-instructions"})
"""Rules of problems about files in the format of one host."""


@dataclass(slots=True)
class _WalkTally:
    """Counts of one source, and its files that are not served."""

    seen: int = 0
    size_bytes: int = 0
    looked_at: int = 0
    is_full: bool = False
    markdown: list[str] = field(default_factory=list)
    installed: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    refused_links: list[str] = field(default_factory=list)
    """Links in place of a `SKILL.md` in hidden folders; the first have a problem each."""
    holding_skills: dict[tuple[str, bool], bool] = field(default_factory=dict)
    """Whether the folder of a link holds skills, or packages alone: many may lead to one."""
    tests: list[str] = field(default_factory=list)
    host_rules: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Rules in the format of one host, by suffix."""

    def add(self, file: str, entry: FolderEntry) -> None:
        suffix = next(filter(file.endswith, (_CURSOR, INSTRUCTIONS)), "")
        if suffix and entry.kind == "file":
            self.host_rules[suffix].append(file)
            return
        if file.endswith(".md") and entry.kind == "file" and not _is_notice(file):
            self.markdown.append(file)

    def skip(self, folder: str, entries: _Entries) -> None:
        for name in GENERATED_FOLDERS & entries.keys():
            if entries[name].kind == "folder":
                self.installed.append(f"{folder}/{name}" if folder else name)

    def problems(self) -> Iterator[Problem]:
        if self.markdown:
            reason = "of Markdown outside of the folders where skills begin"
            hint = "if they are rules, set everywhere: true for this source"
            yield _summarize(self.markdown, "file", reason, hint, rule="outside-markdown")
        for suffix, files in sorted(self.host_rules.items()):
            yield summarize_host_rules(files, is_cursor=suffix == _CURSOR)
        if self.installed:
            reason = "filled by a program, of which nothing is served"
            hint = "take them out of the content"
            yield _summarize(self.installed, "folder", reason, hint, rule="installed-folder")
        if more := self.refused_links[_MAX_NAMED:]:
            reason = "in place of skills, so these are not served"
            yield _summarize(more, "more link", reason, _LINK[1], rule="link", level="error")
        if self.links:
            reason = "to skills that are served at their own place"
            yield _summarize(self.links, "link", reason, "nothing is lost", rule="link")
        if self.is_full:
            reason = "has more files outside of its homes than were looked at"
            hint = "serve a part of it with subfolder, or raise limits.max_files"
            yield Problem(".", reason, hint, "warning", rule="outside-unread")


_IMPORT_HINT = (
    "bring them as rule files: skills-mcp import FOLDER; then name the rule in validation.ignore"
)


def summarize_host_rules(files: list[str], *, is_cursor: bool) -> Problem:
    """Count rules in the format of one host, which no task can find."""
    if is_cursor:
        reason = "of rules for Cursor, which are no skills"
        hint = _IMPORT_HINT
        return _summarize(files, "file", reason, hint, rule="cursor-rules")
    reason = "of instructions for Copilot, which are no skills"
    hint = _IMPORT_HINT
    return _summarize(files, "file", reason, hint, rule="copilot-instructions")


def _summarize(  # noqa: PLR0913 - the parts of a problem
    files: list[str], noun: str, reason: str, hint: str, *, rule: str, level: Level = "warning"
) -> Problem:
    named = ", ".join(map(escape_unprintable, sorted(files)[:_MAX_NAMED]))
    more = ", …" if len(files) > _MAX_NAMED else ""
    reason = f"holds {count_noun(len(files), noun)} {reason}: {named}{more}"
    return Problem(".", reason, hint, level, rule=rule, count=len(files))


class SourceWalk:
    """A walk over one source: all of its roots, and the files outside."""

    def __init__(
        self,
        tree: FileTree,
        selection: Selection,
        limits: Limits,
        layout: Layout | None = None,
    ) -> None:
        self._tree = tree
        self._selection = selection
        self._limits = limits
        self._tally = _WalkTally()
        self._walked: set[str] = set()
        self.layout = layout or find_layout(tree, selection)

    def walk(self, home: RelativeRoot) -> Iterator[WalkResult]:
        """Yield the skills and problems of a root; files are relative to it.

        Raises:
            LimitExceededError: The source has too many files or bytes.
        """
        self._walked.add(home.folder)
        try:
            yield from self._open(home).run()
        except LimitExceededError:
            self._count_rest()
            raise self._open(home).too_many_error() from None
        if self._tally.size_bytes > self._limits.max_total_bytes:
            self._count_rest()
        require_total(self._tally.size_bytes, self._limits.max_total_bytes)

    def _count_rest(self) -> None:
        """Walk the rest, so that a message has the total."""
        for home in self.layout.homes:
            if home.folder not in self._walked:
                with suppress(LimitExceededError):
                    deque(self._open(home).run(), maxlen=0)

    def outside(self) -> Iterator[Problem]:
        """Report unserved files, with counts; call it after the roots are walked."""
        yield from self.layout.problems
        if not self._selection.subfolder:
            yield from self._find_outside("")
            if "" not in [home.folder for home in self.layout.homes]:
                yield from self._find_linked_homes()
        for folder in self._tally.tests:
            yield _report_outside(folder, self._count(folder), self.layout)
        yield from self._tally.problems()

    def _open(self, home: RelativeRoot) -> "RootWalk":
        return RootWalk(self._tree, home, self._limits, self._tally, self.layout.homes)

    def _find_linked_homes(self) -> Iterator[Problem]:
        """Report links and submodules in place of `.claude/skills` or a plugin."""
        walk = self._open(RelativeRoot(""))
        plugins = list_or_empty(self._tree, PLUGINS_FOLDER)
        hidden = (name for name in list_or_empty(self._tree, "") if name.startswith("."))
        for folder in (*hidden, *(f"{PLUGINS_FOLDER}/{name}" for name in plugins)):
            for path in (folder, f"{folder}/{SKILLS_FOLDER}"):
                above, _, name = path.rpartition("/")
                entry = list_or_empty(self._tree, above).get(name)
                if entry and entry.kind != "folder" and folder not in _NEVER_SERVED:
                    yield from walk.report_link(path, entry, packages_only=True)

    def _find_outside(self, folder: str) -> Iterator[Problem]:
        parts = [part for home in self.layout.homes for part in home.parts]
        if folder in parts or "" in parts:
            return
        if folder and not any(part.startswith(f"{folder}/") for part in parts):
            if count := self._count(folder):
                yield _report_outside(folder, count, self.layout)
            return
        entries = self._list(folder)
        if main := _find_main_file(entries):
            yield _report_outside(f"{folder}/{main}" if folder else main, 1, self.layout)
        for name, entry in entries.items():
            inner = f"{folder}/{name}" if folder else name
            if entry.kind == "folder":
                yield from self._find_outside(inner)
            elif not main:
                self._tally.add(inner, entry)

    def _count(self, folder: str) -> int:
        entries = self._list(folder)
        is_package = _find_main_file(entries) is not None
        count = int(is_package)
        for name, entry in entries.items():
            if entry.kind == "folder":
                count += self._count(f"{folder}/{name}")
            elif not is_package:
                self._tally.add(f"{folder}/{name}", entry)
        return count

    def _list(self, folder: str) -> _Entries:
        if folder.count("/") > 2 * MAX_DEPTH or self._tally.is_full:
            return {}
        try:
            entries = self._tree.list(folder, self._limits.max_files).entries
        except OSError:
            return {}
        self._tally.looked_at += len(entries)
        if self._tally.looked_at > self._limits.max_files:
            self._tally.is_full = True
        self._tally.skip(folder, entries)
        left_out = _find_never_served(entries)
        return {n: e for n, e in entries.items() if n not in left_out}


def require_total(size_bytes: int, max_total_bytes: int) -> None:
    """Check the size of the files of a source.

    Raises:
        LimitExceededError: It has too many bytes.
    """
    if size_bytes > max_total_bytes:
        raise LimitExceededError(
            f"the files to serve have {size_bytes:,} bytes, and "
            f"limits.max_total_bytes is {max_total_bytes:,}. Serve a part of them with "
            "subfolder, or raise limits.max_total_bytes"
        )


def count_outside_packages(problems: Iterable[Problem]) -> int:
    """Sum the packages outside of the roots, from the problems."""
    found = (problem for problem in problems if problem.rule == _OUTSIDE)
    return sum(problem.count for problem in found)


def _report_outside(folder: str, count: int, layout: Layout) -> Problem:
    packages = count_noun(count, "package")
    if layout.is_picked:
        reason = f"holds {packages} of plugins that are not picked"
        hint = "add the plugin to plugins in your settings"
        rule = "plugin-not-picked"
    else:
        homes = [home.folder for home in layout.homes]
        homes = [folder or "everything but test data" for folder in homes]
        where = ", ".join(homes[:_MAX_NAMED]) + (", …" if homes[_MAX_NAMED:] else "")
        reason = f"holds {packages} outside of the folders that are served ({where})"
        hint = "set everywhere: true for this source (SKILLS_EVERYWHERE=true)"
        rule = _OUTSIDE
    # A warning: previews and evaluations lie there on purpose.
    return Problem(escape_unprintable(folder), reason, hint, "warning", rule=rule, count=count)


@dataclass(frozen=True, slots=True)
class RootWalk:
    """A walk over one root, within the limits of its source."""

    tree: FileTree
    home: RelativeRoot
    limits: Limits
    tally: _WalkTally = field(default_factory=_WalkTally)
    homes: tuple[RelativeRoot, ...] = ()
    """All roots of the source."""

    def run(self) -> Iterator[WalkResult]:
        """Yield skills and problems; folders of a skill are its files.

        Raises:
            LimitExceededError: The source has too many files.
        """
        for found in self._walk_folder("", packages_only=self.home.packages_only):
            yield found
            if not isinstance(found, Problem):
                stamps = (found.stamp, *found.files.values())
                self.tally.size_bytes += sum(stamp.size_bytes for stamp in stamps if stamp)
        if self.tally.seen > self.limits.max_files:
            raise self.too_many_error()

    def _walk_folder(self, prefix: str, *, packages_only: bool) -> Iterator[WalkResult]:
        entries = yield from self._list_servable(prefix, packages_only=packages_only)
        main = _find_main_file(entries)
        if main is None:
            yield from self._walk_rules(prefix, entries, packages_only=packages_only)
        elif not prefix and entries[main].kind in _REFUSED_KINDS:
            # A commit is exported without it, so the others are what they are alone.
            yield from self._report_main_link(main, entries[main])
            others = {name: entry for name, entry in entries.items() if name != main}
            yield from self._walk_rules(prefix, others, packages_only=packages_only)
        elif self._holds_rules(prefix, entries, main):
            yield from self._walk_mixed(prefix, main, entries)
        else:
            yield from self._walk_package(prefix, main, entries)

    def _walk_mixed(self, prefix: str, main: str, entries: _Entries) -> Iterator[WalkResult]:
        """Walk rules with a `SKILL.md` among them, which has no other files."""
        others = {name: entry for name, entry in entries.items() if name != main}
        if not self._is_rule_file(prefix + main):
            yield from self._walk_package(prefix, main, {main: entries[main]})
            entries = others
        yield from self._walk_rules(prefix, entries, packages_only=False)

    def _holds_rules(self, prefix: str, entries: _Entries, main: str = "") -> bool:
        """Whether a folder with a package, or in one, is a folder of rules.

        Elsewhere than at the top of a root, only `_index.md` or a file that is called
        nearly `SKILL.md` is read: a walk may not read ten thousand packages.
        """
        if self.home.packages_only:
            return False
        names = [n for n in entries if n.endswith(".md") and n != main]
        is_near = main not in {"", SKILL_MD} and self._is_rule_file(prefix + main)
        if prefix and not is_near:
            names = [name for name in names if name in _RULES_OF_FOLDER]
        return any(self._is_rule_file(prefix + name) for name in names)

    def _is_rule_file(self, file: str) -> bool:
        return is_rule_text(self.tree.read(self.home.below(file)) or b"")

    def _walk_rules(
        self, prefix: str, entries: _Entries, *, packages_only: bool
    ) -> Iterator[WalkResult]:
        is_selected = self._is_selected(prefix)
        for name, entry in entries.items():
            is_hidden = packages_only or name.startswith(".")
            if entry.kind == "folder":
                yield from self._walk_inner(prefix + name, entries, packages_only=is_hidden)
            elif not is_selected:
                continue
            elif entry.kind in _REFUSED_KINDS or may_be_link(self.home.below(prefix + name)):
                yield from self.report_link(prefix + name, entry, packages_only=is_hidden)
            elif is_hidden or name.endswith(_CURSOR):
                self.tally.add(self.home.below(prefix + name), entry)
            elif name.endswith(".md"):
                yield from self._walk_markdown(prefix + name, entry, entries)

    def _walk_inner(
        self, folder: str, siblings: _Entries, *, packages_only: bool
    ) -> Iterator[WalkResult]:
        # No `PurePosixPath`, whose parts Python keeps in a table that never shrinks.
        owner = siblings.get(f"{folder.rpartition('/')[2]}.md")
        is_owned = owner is not None and owner.kind == "file" and not packages_only
        if not self._leads_to_selected(folder):
            return
        # A file that is too large to be served owns nothing.
        if owner and self._check_size(folder, owner, "error"):
            is_owned = False
        if is_owned and self._is_selected(folder) and not self._is_package(folder):
            return  # `_walk_owner` looks into it
        if folder.count("/") >= MAX_DEPTH:
            yield self._report_depth(folder)
        elif self._holds_test_data(folder):
            self.tally.tests.append(self.home.below(folder))
        else:
            yield from self._walk_folder(f"{folder}/", packages_only=packages_only)

    def _walk_markdown(
        self, file: str, entry: FolderEntry, siblings: _Entries
    ) -> Iterator[WalkResult]:
        folder = file.removesuffix(".md")
        resources = siblings.get(PurePosixPath(folder).name)
        # A pipe in place of the file is reported by the reader, and owns nothing.
        kinds = entry.kind, resources.kind if resources else None
        owns = kinds == ("file", "folder")
        if fault := self._check_size(file, entry, "error"):
            yield fault
        elif owns and self._is_selected(folder) and not self._is_package(folder):
            yield from self._walk_owner(file, entry)
        else:
            yield RuleFile(file, stamp=entry.stamp)

    def _walk_owner(self, file: str, entry: FolderEntry) -> Iterator[WalkResult]:
        """Yield the packages in the folder of a rule file, then the rule file."""
        folder = file.removesuffix(".md")
        own: dict[str, Stamp] = {}
        files: dict[str, Stamp] = {}
        entries = yield from self._list_servable(f"{folder}/", is_owned=True)
        for found in self._walk_files(f"{folder}/", "", entries, own):
            if isinstance(found, Package):
                files.update(_rebase_files(found, folder))
            yield found
        files |= own
        markdown = tuple(name for name in own if name.endswith(".md"))
        ordered = {name: files[name] for name in sorted(files)}
        yield RuleFile(file, owns_folder=True, markdown=markdown, stamp=entry.stamp, files=ordered)

    def _walk_package(self, prefix: str, main: str, entries: _Entries) -> Iterator[WalkResult]:
        files: dict[str, Stamp] = {}
        others = {name: entry for name, entry in entries.items() if name != main}
        yield from self._walk_files(prefix, "", others, files)
        entry = entries[main]
        if not self._is_selected(prefix):
            return
        if entry.kind in _REFUSED_KINDS:
            yield from self._report_main_link(prefix + main, entry)
        elif fault := self._check_size(prefix + main, entry, "error"):
            yield fault
        else:
            if self.home.is_fallback and not prefix and len(files) > _MAX_TOP_FILES:
                yield from self._leave_out_unnamed(main, files)
            ordered = {file: files[file] for file in sorted(files)}
            yield Package(prefix.rstrip("/"), main, ordered, entry.stamp)

    def _leave_out_unnamed(self, main: str, files: dict[str, Stamp]) -> Iterator[Problem]:
        """Leave files of a repository with a package at its top that no text names."""
        kept, texts = set(filter(_is_always_kept, files)), [main]
        for number, text in enumerate(texts):  # which grow meanwhile
            raw = self.tree.read(self.home.below(text)) if number < _MAX_READ_TEXTS else None
            found = find_named_files((raw or b"").decode("utf-8", "replace"), text, files)
            new = sorted(found - kept)
            kept.update(new)
            texts += [name for name in new if name.endswith(".md")]
        left = sorted(files.keys() - kept)
        for name in left:
            del files[name]
        if left := [name for name in left if not name.startswith(".")]:
            named = ", ".join(map(escape_unprintable, left[:_MAX_NAMED]))
            named += ", …" if len(left) > _MAX_NAMED else ""
            count = count_noun(len(left), "file")
            reason = f"has {count} in its repository that its text does not name: {named}"
            hint = "name what belongs to the skill, or put it into scripts/ or references/"
            yield Problem(main, reason, hint, "warning", rule="unnamed-files")

    def _walk_files(
        self, prefix: str, below: str, entries: _Entries, files: dict[str, Stamp]
    ) -> Iterator[WalkResult]:
        """Add the files of a skill's folder to `files`; yield the packages in it."""
        max_bytes = self.limits.max_file_bytes
        for name, entry in entries.items():
            path = prefix + below + name
            if entry.kind != "folder":
                if entry.stamp and entry.stamp.size_bytes <= max_bytes:
                    files[below + name] = entry.stamp
                else:
                    yield from self._report_unserved(path, entry)
            elif not self._leads_to_selected(path):
                continue
            elif path.count("/") >= MAX_DEPTH:
                yield self._report_depth(path)
            else:
                listed = yield from self._list_servable(f"{path}/", is_owned=True)
                main = _find_main_file(listed)
                # Below a package, only one at the top can be a file among rules.
                if not prefix and self._holds_rules(f"{path}/", listed, main or ""):
                    yield from self._walk_folder(f"{path}/", packages_only=False)
                elif main:
                    yield from self._walk_package(f"{path}/", main, listed)
                else:
                    yield from self._walk_files(prefix, f"{below}{name}/", listed, files)

    def _report_main_link(self, file: str, entry: FolderEntry) -> Iterator[Problem]:
        path = self.home.below(file)
        if not path.startswith("."):
            yield _refuse(file, self._find_refusal(path, entry), "error")
            return
        # The folder of one host, which mostly repeats all skills.
        target = self.tree.resolve(path) if entry.kind == "link" else None
        if target and is_skill_md(PurePosixPath(target).name) and self._is_in_home(target):
            self.tally.links.append(path)
            return
        self.tally.refused_links.append(path)
        if len(self.tally.refused_links) <= _MAX_NAMED:
            yield _refuse(file, self._find_refusal(path, entry), "error")

    def report_link(
        self, file: str, entry: FolderEntry, *, packages_only: bool
    ) -> Iterator[Problem]:
        """Report a link or submodule in place of a skill, or of a folder of skills.

        Links among other files, such as `CLAUDE.md` and libraries, are none of them.
        """
        path = self.home.below(file)
        target = self._find_target(path, entry)
        level: Level = "error"
        if target is None:
            may_be_skill = _may_be_skill(path, packages_only=packages_only)
            if entry.kind not in _REFUSED_KINDS or not may_be_skill:
                return
            # Beside other homes, all of the source is searched, and most is no skill.
            is_rest = not self.home.folder and len(self.homes) > 1 and not packages_only
            level = "warning" if is_rest else "error"
        elif not self._leads_to_skills(path, target, packages_only=packages_only):
            return
        elif self._is_in_home(target) and not path.endswith(".md"):
            self.tally.links.append(path)
            return
        yield _refuse(file, self._find_refusal(path, entry), level)

    def _find_refusal(self, path: str, entry: FolderEntry) -> "_Refusal":
        marker = f"{path.rpartition('/')[0]}/{_MOUNT_MARKER}".lstrip("/")
        is_mounted = entry.kind == "link" and self.tree.resolve(marker) is not None
        return _MOUNTED if is_mounted else _REFUSED_KINDS.get(entry.kind, _LINK)

    def _leads_to_skills(self, path: str, target: str, *, packages_only: bool) -> bool:
        is_page = path.endswith(".md") and not packages_only and not _is_notice(path)
        if has_folder(self.tree, target):
            key, known = (target, packages_only), self.tally.holding_skills
            if key not in known:
                known[key] = self._holds_skills(target, packages_only=packages_only)
            return is_page or (known[key] and not is_inside(path, target))
        is_main = is_skill_md(PurePosixPath(target).name)
        return is_page and (is_main or is_rule_text(self.tree.read(target) or b""))

    def _find_target(self, path: str, entry: FolderEntry) -> str | None:
        if entry.kind == "link":
            return self.tree.resolve(path)
        size = entry.stamp.size_bytes if entry.stamp else 0
        if entry.kind == "file" and 0 < size <= _MAX_LINK_BYTES:
            text = (self.tree.read(path) or b"").decode("utf-8", "replace")
            found = normpath(f"{path}/../{text.strip()}")
            return found if is_path_text(text) and has_folder(self.tree, found) else None
        return None

    def _is_in_home(self, path: str) -> bool:
        parts = (part for home in self.homes or (self.home,) for part in home.parts)
        return any(is_inside(path, part) or is_inside(part, path) for part in parts)

    def _holds_skills(self, folder: str, depth: int = 0, *, packages_only: bool) -> bool:
        entries = list_or_empty(self.tree, folder) if depth <= MAX_DEPTH else {}
        pages = () if packages_only else (name for name in entries if name.endswith(".md"))
        if _find_main_file(entries) or not all(map(_is_notice, pages)):
            return True
        return any(
            self._holds_skills(
                f"{folder}/{name}".lstrip("/"), depth + 1, packages_only=packages_only
            )
            for name, entry in entries.items()
            if entry.kind == "folder" and name not in _NEVER_SERVED
        )

    def _report_unserved(self, path: str, entry: FolderEntry) -> Iterator[Problem]:
        if fault := self._check_size(path, entry, "warning"):
            yield fault
        elif entry.kind in _REFUSED_KINDS:
            yield _refuse(path, _REFUSED_KINDS[entry.kind], "warning")

    def _check_size(self, file: str, entry: FolderEntry, level: Level) -> Problem | None:
        size = entry.stamp.size_bytes if entry.stamp else 0
        max_bytes = self.limits.max_file_bytes
        if size <= max_bytes:
            return None
        reason = f"has {size:,} bytes; limits.max_file_bytes is {max_bytes:,}"
        hint = "keep it elsewhere, or let the operator raise the limit"
        return Problem(file, reason, hint, level, rule="file-size")

    def _is_selected(self, folder: str) -> bool:
        if not self.home.only:
            return True
        path = self.home.below(folder.rstrip("/"))
        return any(is_inside(path, part) for part in self.home.only)

    def _leads_to_selected(self, folder: str) -> bool:
        """Whether a folder is served, or an ancestor of a served one."""
        home = self.home
        if not home.only and not home.without:
            return True
        path = home.below(folder)
        if path in home.without:
            return False
        parts = home.only or (path,)
        return any(is_inside(path, part) or is_inside(part, path) for part in parts)

    def _is_package(self, folder: str) -> bool:
        return _find_main_file(list_or_empty(self.tree, self.home.below(folder))) is not None

    def _holds_test_data(self, folder: str) -> bool:
        is_named_so = folder.rpartition("/")[2].lower() in TEST_FOLDERS
        if not (self.home.is_fallback and is_named_so) or self._is_package(folder):
            return False
        return self._count(self.home.below(folder)) > 0

    def _report_depth(self, folder: str) -> Problem:
        reason = f"is not served: it is more than {MAX_DEPTH} folders deep"
        count = self._count(self.home.below(folder))
        return Problem(folder, reason, "move it further up", rule="depth", count=count)

    def _count(self, folder: str, depth: int = 0) -> int:
        entries = list_or_empty(self.tree, folder) if depth < 4 * MAX_DEPTH else {}
        self.tally.skip(folder, entries)
        return (_find_main_file(entries) is not None) + sum(
            self._count(f"{folder}/{name}", depth + 1)
            for name, entry in entries.items()
            if entry.kind == "folder" and name not in _NEVER_SERVED
        )

    def _list_servable(
        self, prefix: str, *, packages_only: bool = False, is_owned: bool = False
    ) -> Generator[Problem, None, _Entries]:
        """List a folder; yield its unservable entries as problems."""
        try:
            entries = self._list(prefix)
        except OSError as error:
            hint = "check its permissions"
            reason = f"cannot be listed: {error.strerror}"
            at = prefix or "."
            yield Problem(at, reason, hint, rule="unreadable", is_passing=True)
            return {}
        if not entries or _are_all_safe(entries):
            return entries  # nearly always, and ten thousand folders are asked
        refused = dict(_find_unservable(entries))
        is_owned = is_owned or _find_main_file(entries) is not None
        for name, refusal in refused.items():
            if not self._leads_to_selected(prefix + name):
                continue
            entry, path = entries[name], self.home.below(prefix + name)
            count = self._count(path) if entry.kind == "folder" else 0
            is_skill = is_skill_md(name) or (name.endswith(".md") and not packages_only)
            if count or is_owned or entry.kind == "folder" or is_skill:
                is_error = count or is_skill_md(name) or not is_owned
                level: Level = "error" if is_error else "warning"
                yield _refuse(escape_unprintable(prefix + name), refusal, level, count)
            else:
                self.tally.add(path, entry)
        return {n: entry for n, entry in entries.items() if n not in refused}

    def _list(self, prefix: str) -> _Entries:
        """List a folder, without files of tools, below the limit."""
        most = min(_COUNT_FACTOR * self.limits.max_files, sys.maxsize)
        folder = self.home.below(prefix.rstrip("/"))
        entries, count = self.tree.list(folder, max(0, most - self.tally.seen))
        self.tally.seen += count
        if self.tally.seen > most:
            raise self.too_many_error()
        if left_out := _find_never_served(entries):
            self.tally.skip(folder, entries)
            return {n: entry for n, entry in entries.items() if n not in left_out}
        return entries

    def too_many_error(self) -> LimitExceededError:
        most = _COUNT_FACTOR * self.limits.max_files
        seen, number = self.tally.seen, f"{self.tally.seen:,}"
        return LimitExceededError(
            f"there are {number if seen <= most else f'more than {most:,}'} files and folders, and "
            f"limits.max_files is {self.limits.max_files:,}. Serve a part of them "
            "with subfolder, or raise limits.max_files"
        )


_Refusal = tuple[str, str, str]
"""Reason, hint and rule."""

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
_LINK: _Refusal = ("is a link, so it is not served", "put what it leads to in its place", "link")
_LINK_AS_TEXT: _Refusal = (
    "is a link that was checked out as text: it holds nothing but a path",
    "put what it leads to in its place",
    "link",
)
_REFUSED_KINDS: Mapping[EntryKind, _Refusal] = {
    "link": _LINK,
    "submodule": (
        "is a submodule, which is another repository",
        "add that repository to your sources, or copy its files",
        "submodule",
    ),
}
# Kubernetes mounts a ConfigMap or a Secret as links into a folder behind this link.
_MOUNT_MARKER = "..data"
_MOUNTED: _Refusal = (
    "is a link, so it is not served",
    "a ConfigMap is mounted as links: `cp -rL` it in an init container, serve the copy",
    "link",
)


def _refuse(file: str, refusal: _Refusal, level: Level, count: int = 0) -> Problem:
    reason, hint, rule = refusal
    return Problem(file, reason, hint, level, rule=rule, count=count)


def _are_all_safe(entries: _Entries) -> bool:
    """Whether all names are safe, and distinct in any case."""
    is_plain = are_plain_components(entries)
    return is_plain and len(set(map(str.lower, entries))) == len(entries)


def _find_unservable(entries: _Entries) -> Iterator[tuple[str, _Refusal]]:
    for name in entries:
        if not name.isprintable():
            yield name, _NOT_PRINTABLE
        elif not is_path_component(name):
            yield name, _UNSAFE
    alike = defaultdict(list)
    for name in entries:
        alike[fold_name(name)].append(name)
    for names in alike.values():
        # The standard asks for exactly this name, so it is not one of several.
        best = _find_main_file(entries) if any(map(is_skill_md, names)) else None
        others = [name for name in names if name != best]
        if len(names) > 1:
            yield from ((name, _COLLISION) for name in others)


def _rebase_files(package: Package, folder: str) -> Iterator[tuple[str, Stamp]]:
    inside = package.folder.removeprefix(f"{folder}/")
    for name, stamp in package.files.items():
        yield f"{inside}/{name}", stamp
    if package.stamp:
        yield f"{inside}/{package.main}", package.stamp


def _find_main_file(entries: _Entries) -> str | None:
    """Find the main file of a package, `SKILL.md` first; a link or pipe counts."""
    exact = entries.get(SKILL_MD)
    if exact and exact.kind == "file":
        return SKILL_MD
    names = [name for name in entries if len(name) == _MAIN_LENGTH and is_skill_md(name)]
    names = [name for name in names if entries[name].kind != "folder"]
    names.sort(key=lambda name: (entries[name].kind != "file", name != SKILL_MD))
    return next(iter(names), None)


def _is_always_kept(file: str) -> bool:
    """Whether a file belongs to a package without being named, or decides about layout."""
    folder, _, name = file.rpartition("/")
    is_layout = file == "config.yaml" or f"/{file}".endswith(_MANIFESTS)
    is_text = name in _RULES_OF_FOLDER or (not folder and name.endswith(".md"))
    return is_layout or is_text or has_purpose(file)


_MANIFESTS = (f"/{PLUGIN_MANIFEST}", f"/{MARKETPLACE_MANIFEST}")


def _may_be_skill(path: str, *, packages_only: bool) -> bool:
    """Whether a link to an unknown place may stand for a skill, by its path."""
    suffix = PurePosixPath(path).suffix
    if packages_only:
        return not suffix and not _LAYOUT_WORDS.isdisjoint(path.split("/"))
    return not suffix or (suffix == ".md" and not _is_notice(path))


_LAYOUT_WORDS = frozenset({SKILLS_FOLDER, PLUGINS_FOLDER})
_MAIN_LENGTH = len(SKILL_MD)
_RULES_OF_FOLDER = frozenset({f"{INDEX}.md", f"{ROOT}.md"})
_NOTICES = frozenset(
    {
        *("changelog", "code-of-conduct", "contributing", "contributors", "license", "readme"),
        *("issue-template", "pull-request-template"),
    }
)
"""Names that forges look for in any case."""
_NEVER_SERVED = IGNORED_NAMES | GENERATED_FOLDERS


def _find_never_served(entries: _Entries) -> Collection[str]:
    return (entries.keys() & _NEVER_SERVED) | set(filter(is_desktop_file, entries))


MAX_SKILL_BYTES = 1024 * 1024
"""Four times the largest known skill; more is a mistake, not a text to read."""


_MAX_HEAD_BYTES = 64 * 1024  # of a frontmatter, which has one in a thousand of it
_KEYWORDS_KEY = re.compile(rb"(?im)^[\"']?keywords[\"']?[ \t]*(?::|\xef\xbc\x9a)")

ReadSkill = tuple[Skill | None, tuple[Problem, ...]]
"""The skill, if it can be served, and its problems."""


OnRead = Callable[[SkillRoot, RuleFile | Package, bytes | None], None]
"""Receives each file or package that is read, and its Markdown; None if unreadable."""


def read_skill(
    home: SkillRoot, found: RuleFile | Package, on_read: OnRead | None = None
) -> ReadSkill:
    """Read the skill of a rule file or a package. Blocking."""
    raw = _read(home.directory, found.file)
    if on_read:
        on_read(home, found, None if isinstance(raw, Problem) else raw[0])
    skill, problems = _parse_skill_file(home.directory, found, raw)
    file_prefix = home.file_prefix
    if file_prefix:
        problems = tuple(replace(p, file=file_prefix + p.file) for p in problems)
    if skill is None:
        return None, problems
    return replace(
        skill,
        path=_add_prefix(skill.path, home.prefix),
        file=file_prefix + found.file,
        root=home.directory,
        location=home.directory / found.file,
        scope=home.scope,
    ), problems


def _parse_skill_file(
    root: Path, found: RuleFile | Package, raw: tuple[bytes, Stamp] | Problem
) -> ReadSkill:
    if isinstance(raw, Problem):
        return None, (raw, *_report_shadowed(root, found))
    text, stamp = raw
    report = ProblemList(found.file)
    decoded = decode_markdown(text, report, lenient=isinstance(found, Package))
    if decoded is None:
        skill, problems = None, tuple(_report_shadowed(root, found))
    elif is_path_text(decoded, ".md") and not (
        isinstance(found, RuleFile) and _is_notice(found.file)
    ):
        problem = _refuse(found.file, _LINK_AS_TEXT, "error")
        return None, (problem, *_report_shadowed(root, found))
    elif isinstance(found, Package):
        skill, problems = _parse_package_file(root, found, decoded, stamp)
    else:
        skill, problems = _parse_rules_file(root, found, decoded)
    problems = (*report.problems, *problems)
    if skill is None and not _declares_keywords(text):
        problems = tuple(replace(p, is_plain=p.file == found.file) for p in problems)
    return skill, problems


def _parse_package_file(root: Path, found: Package, text: str, stamp: Stamp) -> ReadSkill:
    if PurePosixPath(found.folder).name in {INDEX, ROOT}:
        reason = "is not served: this folder's name stands for the rules of a folder"
        return None, (Problem(found.file, reason, "rename it", rule="folder-name"),)
    files = dict(sorted({**found.files, found.main: stamp}.items()))
    skill, problems = parse_package(
        text, file=found.file, path=SkillPath(found.folder), files=files
    )
    if skill is not None:
        user_only = skill.user_only or _forbids_implicit_use(root, found)
        always_apply = skill.always_apply and not user_only
        directory = root / found.folder
        skill = replace(skill, directory=directory, user_only=user_only, always_apply=always_apply)
    return skill, (*problems, *_report_inner_rules(root, found))


def _forbids_implicit_use(root: Path, found: Package) -> bool:
    if _CODEX_POLICY not in found.files:
        return False
    raw = _read(root, f"{found.folder}/{_CODEX_POLICY}".lstrip("/"))
    return not isinstance(raw, Problem) and forbids_implicit_use(raw[0])


def _report_inner_rules(root: Path, found: Package) -> Iterator[Problem]:
    """Report files of a package that would be skills elsewhere."""
    rules = []
    for name in found.files:
        file = f"{found.folder}/{name}" if found.folder else name
        if name.endswith(".md") and is_rule_text(_read_with_frontmatter(root, file)):
            rules.append(name)
    if rules:
        named = ", ".join(map(escape_unprintable, rules[:_MAX_NAMED]))
        named += ", …" if len(rules) > _MAX_NAMED else ""
        count = count_noun(len(rules), "rule file")
        reason = f"has {count} among its files, served as no skill: {named}"
        hint = f"move {found.main} into a folder of its own if they are skills"
        yield Problem(found.file, reason, hint, "warning", rule="inner-rules")


def _parse_rules_file(root: Path, found: RuleFile, text: str) -> ReadSkill:
    if _is_notice(found.file) and not text.lstrip("\ufeff \t\r\n").startswith("---"):
        return None, tuple(_report_shadowed(root, found))
    directory = root / found.folder if found.owns_folder else None
    skill, problems = parse_rule_file(text, file=found.file, directory=directory)
    if directory is None:
        return skill, problems
    skill = _match_spelling_on_disk(skill, found.files) if skill else None
    declared = {entry.file for entry in skill.entries()} if skill else set()
    listed = sorted(declared & found.files.keys())
    peeked = {file: _peek(root, f"{found.folder}/{file}") for file in listed}
    files = {file: seen[0] for file, seen in peeked.items() if seen}
    if skill is not None:
        skill = replace(skill, files=files)
    return skill, (
        *problems,
        *_report_missing(found, declared - files.keys()),
        *_report_shadowed(root, found, declared),
    )


def _match_spelling_on_disk(skill: Skill, files: Collection[str]) -> Skill:
    """Spell file names as the disk does: é may be one character or two."""
    if all(entry.file.isascii() for entry in skill.entries()):
        return skill

    def spell(declared: InheritableEntry) -> InheritableEntry:
        return replace(declared, file=find_composed_name(files, declared.file) or declared.file)

    assets, scripts = tuple(map(spell, skill.assets)), tuple(map(spell, skill.scripts))
    return replace(skill, assets=assets, scripts=scripts)


def _read(root: Path, file: str) -> tuple[bytes, Stamp] | Problem:
    try:
        with open_inside(root, tuple(file.split("/"))) as handle:
            found = os.fstat(handle.fileno())
            # Asking for a megabyte would make room for one, ten thousand times.
            raw = handle.read(min(found.st_size, MAX_SKILL_BYTES) + 1)
    except (OSError, MissingFileError) as error:
        reason, hint = f"cannot be read: {error}", "check its permissions"
        return Problem(file, reason, hint, rule="unreadable", is_passing=True)
    if len(raw) > MAX_SKILL_BYTES:
        hint = "move examples and references into files of its folder"
        reason = f"is larger than {MAX_SKILL_BYTES:,} bytes"
        is_plain = not _declares_keywords(raw)
        return Problem(file, reason, hint, rule="file-size", is_plain=is_plain)
    return raw, Stamp.of(found)


def _declares_keywords(raw: bytes) -> bool:
    """Whether a file was meant as a rule file, however broken its frontmatter is."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raw = raw.decode("utf-16", errors="ignore").encode()
    text = raw[:_MAX_HEAD_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n")
    head = text[3:].partition(b"\n---")[0] if text.startswith(b"---") else b""
    return is_lfs_pointer(raw) or _KEYWORDS_KEY.search(head) is not None


def _peek(root: Path, file: str) -> tuple[Stamp, bytes] | None:
    """Read the stamp and three bytes of a file; None if it cannot be opened."""
    try:
        with open_inside(root, tuple(file.split("/"))) as handle:
            return Stamp.of(os.fstat(handle.fileno())), handle.read(3)
    except (OSError, MissingFileError):
        return None


def _read_with_frontmatter(root: Path, file: str) -> bytes:
    """Read a file that begins with a frontmatter; of any other, three bytes at most."""
    seen = _peek(root, file)
    raw = _read(root, file) if seen and seen[1] == b"---" else None
    return raw[0] if isinstance(raw, tuple) else b""


def _add_prefix(path: SkillPath, prefix: str) -> SkillPath:
    if not prefix:
        return path
    return SkillPath(prefix + (INDEX if path == ROOT else path))


def _is_notice(file: str) -> bool:
    """Whether a file is called like one for people: `README.md`, `contributing.md`."""
    name = file.rpartition("/")[2].removesuffix(".md")
    return name.isupper() or name.casefold().replace("_", "-") in _NOTICES


def _report_missing(found: RuleFile, missing: set[str]) -> Iterator[Problem]:
    for name in sorted(missing):
        yield Problem(
            found.file,
            f"declares {name}, which is not in its folder",
            "add the file, or take the declaration away",
            "warning",
            rule="file-missing",
            is_passing=name in found.files,  # it is there, and could not be opened
        )


def _report_shadowed(
    root: Path, found: RuleFile | Package, declared: Collection[str] = ()
) -> Iterator[Problem]:
    markdown = found.markdown if isinstance(found, RuleFile) else ()
    for name in markdown:
        file = f"{found.folder}/{name}"
        # Pages of a site have a frontmatter, too; without keywords none would be served.
        if name not in declared and _declares_keywords(_read_with_frontmatter(root, file)):
            yield Problem(
                escape_unprintable(file),
                f"is not served: its folder holds the files of {found.file}",
                f"declare it there, or move {found.file} into the folder as _index.md",
                rule="hidden-skill",
            )
