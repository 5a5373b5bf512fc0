"""Reads every skill of a folder; the middle between the walk and the two formats.

A file that cannot be a skill becomes a `Problem` while all others are served. What is
provably the same as before is not read again (see `Before`).
"""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Protocol

from skills_mcp.config import Limits
from skills_mcp.errors import MissingFileError
from skills_mcp.files.opening import open_inside
from skills_mcp.skills.document import decode
from skills_mcp.skills.found import Package, RuleFile, Untouched
from skills_mcp.skills.frontmatter import derive_path, parse_skill
from skills_mcp.skills.index import INDEX, ROOT
from skills_mcp.skills.model import Problem, Scope, Skill, SkillPath, Stamp
from skills_mcp.skills.package import parse_package
from skills_mcp.skills.problems import Report, printable
from skills_mcp.skills.records import Entry, Place, Read
from skills_mcp.skills.records import decode as decode_record
from skills_mcp.skills.spelling import spell_as_disk
from skills_mcp.skills.walk import Walk

MAX_SKILL_BYTES = 1024 * 1024
"""Four times the largest skill known; more is a mistake, not a text to read."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a folder holds: the skills that can be served, and what is wrong."""

    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    seen: int
    """How many files and folders were looked at, or would have been at most."""
    place: Place

    @property
    def skills(self) -> tuple[Skill, ...]:
        """The skills themselves."""
        return tuple(
            decode_record(each.record, self.place, list(each.files.values()))
            for each in self.entries
        )


class Before(Protocol):
    """What was read of a folder before."""

    @property
    def seen(self) -> int:
        """How many files and folders there are at most, whoever looks at them."""
        ...

    def is_known(self, folder: str) -> bool:
        """Whether nothing below a folder can have changed."""
        ...

    def below(self, folder: str) -> Iterable[Entry]:
        """Return the skills of such a folder."""
        ...

    def find(self, found: RuleFile | Package) -> Entry | None:
        """Return the skill if nothing that belongs to it can have changed."""
        ...


Parsed = tuple[Entry | None, tuple[Problem, ...]]
Described = tuple[Skill | None, tuple[Problem, ...]]


def load_skills(  # noqa: PLR0913 - each of them says something else of the folder
    directory: Path,
    *,
    prefix: str = "",
    scope: Scope = "org",
    limits: Limits | None = None,
    packages_only: bool = False,
    before: Before | None = None,
) -> Loaded:
    """Read every skill below `directory`, in path order (001 §4.6).

    Args:
        directory: The root; nothing outside it is read.
        prefix: Put in front of every path and file, such as `teams/web/`.
        scope: Whose skills they are.
        limits: How much is looked at and read; the defaults if there are none.
        packages_only: Whether Markdown files that stand alone are no skills.
        before: What is known already; without it everything is read.
    """
    entries: list[Entry] = []
    problems: list[Problem] = []
    limits = limits or Limits()
    room = limits.max_characters
    walk = _walk(directory, limits, before, packages_only=packages_only)
    place = Place(directory, prefix, scope)
    for found in walk.run():
        if isinstance(found, Problem):
            problems.append(found)
            continue
        read, findings = _read_anew_or_keep(place, found, before)
        problems.extend(findings)
        entries.extend(read)
        room -= sum(entry.characters for entry in read)
        if room < 0 and before:
            # What is left out depends on the order, in which known folders are no help.
            return load_skills(
                directory,
                prefix=prefix,
                scope=scope,
                limits=limits,
                packages_only=packages_only,
            )
        if room < 0:
            problems.append(_too_much(limits))
            del entries[_count_fitting(entries, limits) :]
            break
    # In a mounted tree `_root.md` and `_index.md` have one path: the rules first.
    entries.sort(key=lambda entry: (entry.file != f"{prefix}{ROOT}.md", entry.file))
    shown = (replace(p, file=prefix + p.file) if prefix else p for p in problems)
    ordered = tuple(sorted(shown, key=lambda p: p.file))
    return Loaded(tuple(entries), ordered, _count_seen(walk, before, limits), place)


def _walk(
    directory: Path, limits: Limits, before: Before | None, *, packages_only: bool
) -> Walk:
    # What is not looked at is not counted, so near the limit everything is looked at.
    if before is None or not _may_skip(before, limits):
        return Walk(directory, limits.max_files, packages_only=packages_only)
    return Walk(
        directory,
        limits.max_files,
        packages_only=packages_only,
        is_known=before.is_known,
    )


def _may_skip(before: Before, limits: Limits) -> bool:
    return before.seen <= limits.max_files


def _count_seen(walk: Walk, before: Before | None, limits: Limits) -> int:
    """Return how many files and folders there are at most; a whole walk knows it."""
    if before is None or not _may_skip(before, limits):
        return walk.seen
    return max(before.seen, walk.seen)


def _read_anew_or_keep(
    place: Place, found: RuleFile | Package | Untouched, before: Before | None
) -> tuple[Sequence[Entry], tuple[Problem, ...]]:
    if isinstance(found, Untouched):
        return tuple(before.below(found.folder)) if before else (), ()
    kept = before.find(found) if before else None
    if kept:
        return (kept,), ()
    read, problems = _load(place, found)
    return (read,) if read else (), problems


def _count_fitting(entries: Sequence[Entry], limits: Limits) -> int:
    """Return how many of the entries have room, in the order of the walk."""
    ends = accumulate(entry.characters for entry in entries)
    return sum(1 for end in ends if end <= limits.max_characters)


def _too_much(limits: Limits) -> Problem:
    most = f"{limits.max_characters:,}"
    hint = "serve a subfolder of it, or raise limits.max_characters"
    reason = f"has more than {most} characters, the rest is not served"
    return Problem(".", reason, hint, rule="max-characters")


def _load(place: Place, found: RuleFile | Package) -> Parsed:
    root, prefix = place.directory, place.prefix
    raw = _read(root, found.file)
    if isinstance(raw, Problem):
        return None, (raw, *_hidden(root, found))
    text, stamp = raw
    is_package = isinstance(found, Package)
    report = Report(found.file)
    decoded = decode(text, report, lenient=is_package)
    if decoded is None:
        return None, (*report.problems, *_hidden(root, found))
    if isinstance(found, Package):
        skill, problems = _load_package(root, found, decoded, stamp)
    else:
        skill, problems = _load_rules(root, found, decoded)
    every = (*report.problems, *problems)
    if skill is None:
        return None, every
    skill = replace(
        skill,
        path=_mounted(skill.path, prefix),
        file=prefix + found.file,
        location=root / found.file,
        scope=place.scope,
    )
    return Read.of(skill, place, stamp), every


def _load_package(root: Path, found: Package, text: str, stamp: Stamp) -> Described:
    if PurePosixPath(found.folder).name in {INDEX, ROOT}:
        reason = "is not served: this folder's name stands for the rules of a folder"
        return None, (Problem(found.file, reason, "rename it", rule="folder-name"),)
    files = dict(sorted({**found.files, found.main: stamp}.items()))
    skill, problems = parse_package(
        text, file=found.file, path=SkillPath(found.folder), files=files
    )
    if skill is not None:
        skill = replace(skill, directory=root / found.folder)
    return skill, problems


def _load_rules(root: Path, found: RuleFile, text: str) -> Described:
    if _is_notice(found.file, text):
        return None, tuple(_hidden(root, found))
    skill, problems = parse_skill(text, file=found.file, directory=found.directory)
    if found.directory is None:
        return skill, problems
    skill = spell_as_disk(root, skill) if skill else None
    declared = {entry.file for entry in skill.entries()} if skill else set()
    folder = derive_path(found.file)
    stamps = {file: _stamp(root, f"{folder}/{file}") for file in sorted(declared)}
    files = {file: stamp for file, stamp in stamps.items() if stamp}
    if skill is not None:
        skill = replace(skill, files=files)
    return skill, (
        *problems,
        *_missing(found.file, declared - files.keys()),
        *_hidden(root, found, declared),
    )


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
        return Problem(file, reason, hint, rule="file-size")
    return raw, Stamp.of(found)


def _stamp(root: Path, file: str) -> Stamp | None:
    try:
        with open_inside(root, tuple(file.split("/"))) as handle:
            return Stamp.of(os.fstat(handle.fileno()))
    except (OSError, MissingFileError):
        return None


def _mounted(path: SkillPath, prefix: str) -> SkillPath:
    """Return a skill's path below `prefix`, where the top's rules are an index."""
    if not prefix:
        return path
    return SkillPath(prefix + (INDEX if path == ROOT else path))


def _is_notice(file: str, text: str) -> bool:
    """Whether a file speaks to people: `README.md`, `LICENSE.md`, `AGENTS.md`."""
    name = derive_path(file).rsplit("/", 1)[-1]
    return name.isupper() and not text.lstrip("\ufeff \t\r\n").startswith("---")


def _missing(file: str, missing: set[str]) -> Iterator[Problem]:
    for name in sorted(missing):
        yield Problem(
            file,
            f"declares {name}, which is not in its folder",
            "add the file, or take the declaration away",
            "warning",
            rule="file-missing",
        )


def _hidden(
    root: Path, found: RuleFile | Package, declared: Collection[str] = ()
) -> Iterator[Problem]:
    """Report skills that are taken for the files of another one."""
    if isinstance(found, Package) or found.directory is None:
        return
    for name in found.markdown:
        file = f"{derive_path(found.file)}/{name}"
        if name not in declared and _looks_like_a_skill(root, file):
            yield Problem(
                printable(file),
                f"is not served: its folder holds the files of {found.file}",
                f"declare it there, or move {found.file} into the folder as _index.md",
                rule="hidden-skill",
            )


def _looks_like_a_skill(root: Path, file: str) -> bool:
    try:
        with open_inside(root, tuple(file.split("/"))) as handle:
            return handle.read(3) == b"---"
    except (OSError, MissingFileError):
        return False
