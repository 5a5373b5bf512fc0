"""Reads every skill of a folder; the middle between the walk and the two formats.

A file that cannot be a skill becomes a `Problem` while all others are served.
"""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from skills_mcp.config import Limits
from skills_mcp.errors import MissingFileError
from skills_mcp.safe_path import open_inside
from skills_mcp.skills.document import decode
from skills_mcp.skills.frontmatter import derive_path, parse_skill
from skills_mcp.skills.index import INDEX, ROOT
from skills_mcp.skills.model import Problem, Scope, Skill, SkillPath, Stamp
from skills_mcp.skills.package import is_main, parse_package
from skills_mcp.skills.problems import Report, printable
from skills_mcp.skills.walk import SKIPPED, Package, RuleFile, Walk

MAX_SKILL_BYTES = 1024 * 1024
"""Four times the largest skill known; more is a mistake, not a text to read."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a folder holds: the skills that can be served, and what is wrong."""

    skills: tuple[Skill, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Home:
    """A folder in which skills begin, and the prefix of their paths."""

    directory: Path
    prefix: str = ""
    packages_only: bool = False
    """Whether it is a hidden folder, in which only packages are skills."""


Parsed = tuple[Skill | None, tuple[Problem, ...]]


def find_homes(directory: Path, subfolder: str = "") -> tuple[Home, ...]:
    """Return where the skills of a content repository begin.

    A repository keeps them in `skills/` (001 §3.1), beside which a hidden folder
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


def load_skills(
    directory: Path,
    *,
    prefix: str = "",
    scope: Scope = "org",
    limits: Limits | None = None,
    packages_only: bool = False,
) -> Loaded:
    """Read every skill below `directory`, in path order (001 §4.6).

    Args:
        directory: The root; nothing outside it is read.
        prefix: Put in front of every path and file, such as `teams/web/`.
        scope: Whose skills they are.
        limits: How much is looked at and read; the defaults if there are none.
        packages_only: Whether Markdown files that stand alone are no skills.
    """
    skills: list[Skill] = []
    problems: list[Problem] = []
    limits = limits or Limits()
    room = limits.max_characters
    walk = Walk(directory, limits.max_files, packages_only=packages_only)
    for found in walk.run():
        if isinstance(found, Problem):
            problems.append(found)
            continue
        skill, findings = _load(directory, found, prefix)
        problems.extend(findings)
        room -= len(skill.body) if skill else 0
        if room < 0:
            problems.append(_too_much(limits))
            break
        if skill:
            skills.append(replace(skill, scope=scope))
    # In a mounted tree `_root.md` and `_index.md` have one path: the rules first.
    skills.sort(key=lambda skill: (skill.file != f"{prefix}{ROOT}.md", skill.file))
    shown = (replace(p, file=prefix + p.file) if prefix else p for p in problems)
    return Loaded(tuple(skills), tuple(sorted(shown, key=lambda p: p.file)))


def _too_much(limits: Limits) -> Problem:
    most = f"{limits.max_characters:,}"
    hint = "serve a subfolder of it, or raise limits.max_characters"
    reason = f"has more than {most} characters, the rest is not served"
    return Problem(".", reason, hint, rule="max-characters")


def _load(root: Path, found: RuleFile | Package, prefix: str) -> Parsed:
    raw = _read(root, found.file)
    if isinstance(raw, Problem):
        return None, (raw, *_hidden(found))
    is_package = isinstance(found, Package)
    report = Report(found.file)
    text = decode(raw[0], report, lenient=is_package)
    if text is None:
        return None, (*report.problems, *_hidden(found))
    if isinstance(found, Package):
        skill, problems = _load_package(root, found, text, raw[1])
    else:
        skill, problems = _load_rules(found, text)
    if skill is not None:
        skill = replace(
            skill,
            path=_mounted(skill.path, prefix),
            file=prefix + found.file,
            location=root / found.file,
        )
    return skill, (*report.problems, *problems)


def _load_package(root: Path, found: Package, text: str, stamp: Stamp) -> Parsed:
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


def _load_rules(found: RuleFile, text: str) -> Parsed:
    if _is_notice(found.file, text):
        return None, tuple(_hidden(found))
    skill, problems = parse_skill(text, file=found.file, directory=found.directory)
    if found.directory is None:
        return skill, problems
    declared = {entry.file for entry in skill.entries()} if skill else set()
    stamps = {file: _stamp(found.directory, file) for file in sorted(declared)}
    files = {file: stamp for file, stamp in stamps.items() if stamp}
    if skill is not None:
        skill = replace(skill, files=files)
    return skill, (
        *problems,
        *_missing(found.file, declared - files.keys()),
        *_hidden(found, declared),
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


def _stamp(directory: Path, file: str) -> Stamp | None:
    try:
        with open_inside(directory, tuple(file.split("/"))) as handle:
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
    found: RuleFile | Package, declared: Collection[str] = ()
) -> Iterator[Problem]:
    """Report skills that are taken for the files of another one."""
    if isinstance(found, Package) or found.directory is None:
        return
    for name in found.markdown:
        if name not in declared and _looks_like_a_skill(found.directory, name):
            yield Problem(
                printable(f"{derive_path(found.file)}/{name}"),
                f"is not served: its folder holds the files of {found.file}",
                f"declare it there, or move {found.file} into the folder as _index.md",
                rule="hidden-skill",
            )


def _looks_like_a_skill(directory: Path, name: str) -> bool:
    try:
        with open_inside(directory, tuple(name.split("/"))) as handle:
            return handle.read(3) == b"---"
    except (OSError, MissingFileError):
        return False


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
