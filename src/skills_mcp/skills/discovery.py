"""Which files of a folder are skills (001 §4.1), and reading all of them.

Nothing outside the folder is ever read: links are not followed, and a file that
cannot be a skill becomes a `Problem` while all others are served.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skills_mcp.errors import MissingFileError
from skills_mcp.safe_path import open_inside
from skills_mcp.skills.frontmatter import parse_skill
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.model import Problem, Skill

MAX_SKILL_BYTES = 1024 * 1024
"""Four times the largest skill known; more is a mistake, not a text to read."""

_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a folder holds: the skills that can be served, and what is wrong."""

    index: SkillIndex
    problems: tuple[Problem, ...]


def load_skills(directory: Path) -> Loaded:
    """Read every skill below `directory`, in path order (001 §4.6)."""
    skills: list[Skill] = []
    problems: list[Problem] = []
    for found in _walk(directory, ""):
        if isinstance(found, Problem):
            problems.append(found)
            continue
        skill, findings = _load(directory, found)
        problems.extend(findings)
        if skill:
            skills.append(skill)
    return Loaded(SkillIndex(skills), tuple(sorted(problems, key=lambda p: p.file)))


def skills_root(directory: Path) -> Path:
    """Return where the skills of a content repository begin.

    A repository keeps them in `skills/` (001 §3.1) or at its top.
    """
    inner = directory / "skills"
    is_folder = inner.is_dir() and not inner.is_symlink()
    is_nested = is_folder and not (directory / "_root.md").is_file()
    return inner if is_nested else directory


@dataclass(frozen=True, slots=True)
class _Found:
    file: str
    directory: Path | None


def _walk(root: Path, prefix: str) -> Iterator[_Found | Problem]:
    """Yield Markdown files; folders that belong to a file are its resources."""
    try:
        with os.scandir(root / prefix) as scan:
            entries = {entry.name: entry for entry in scan if entry.name[0] != "."}
    except OSError as error:
        hint = "check its permissions"
        yield Problem(prefix or ".", f"cannot be listed: {error.strerror}", hint)
        return
    folders = {name for name, e in entries.items() if e.is_dir(follow_symlinks=False)}
    for name, entry in sorted(entries.items()):
        file, stem = prefix + name, name.removesuffix(".md")
        if stem == name and name not in folders and not _leads_to_folder(entry):
            continue
        if not name.isprintable():
            yield _unreadable(file)
        elif entry.is_symlink():
            yield Problem(file, "is a link", "put what it leads to in its place")
        elif name not in folders:
            yield _Found(file, root / prefix / stem if stem in folders else None)
        elif f"{name}.md" in entries:
            continue  # it belongs to that file, and `_load` looks into it
        elif file.count("/") < _MAX_DEPTH:
            yield from _walk(root, f"{file}/")


def _leads_to_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link to itself


def _unreadable(file: str) -> Problem:
    """Report a name that nobody can type and not every terminal survives."""
    name = file.encode("unicode_escape").decode()
    reason = "has a name with invisible characters, or one that is not UTF-8"
    return Problem(name, reason, "rename it")


def _load(root: Path, found: _Found) -> tuple[Skill | None, tuple[Problem, ...]]:
    try:
        with open_inside(root, tuple(found.file.split("/"))) as handle:
            raw = handle.read(MAX_SKILL_BYTES + 1)
    except (OSError, MissingFileError) as error:
        reason, hint = f"cannot be read: {error}", "check its permissions"
        problem = Problem(found.file, reason, hint, is_passing=True)
        return None, (problem,)
    if len(raw) > MAX_SKILL_BYTES:
        hint = "move examples and references into files of its folder"
        reason = f"is larger than {MAX_SKILL_BYTES:,} bytes"
        return None, (Problem(found.file, reason, hint),)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8 text (byte {error.start})"
        return None, (Problem(found.file, reason, "save the file as UTF-8"),)
    skill, problems = parse_skill(text, file=found.file, directory=found.directory)
    return skill, (*problems, *_compare(root, found, skill))


def _compare(root: Path, found: _Found, skill: Skill | None) -> Iterator[Problem]:
    """Hold what a skill declares against what its folder has."""
    if found.directory is None:
        return
    declared = {entry.file for entry in skill.entries()} if skill else set()
    for file in sorted(declared):
        if not (found.directory / file).is_file():
            yield Problem(
                found.file,
                f"declares {file}, which is not in its folder",
                "add the file, or take the declaration away",
                "warning",
            )
    for path in sorted(found.directory.rglob("*.md")):
        file = path.relative_to(found.directory).as_posix()
        if file not in declared and _looks_like_a_skill(path):
            yield Problem(
                path.relative_to(root).as_posix(),
                f"is not served: its folder holds the files of {found.file}",
                f"declare it there, or move {found.file} into the folder as _index.md",
            )


def _looks_like_a_skill(path: Path) -> bool:
    try:
        with path.open("rb") as handle:
            return not path.is_symlink() and handle.read(3) == b"---"
    except OSError:
        return False
