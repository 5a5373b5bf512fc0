"""From what a walk finds to a skill: reads one rule file or one package.

Rule: the result depends on nothing but the files that the walk has found, so that the
same files need not be read twice. A file that cannot be a skill becomes a `Problem`.
"""

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from skills_mcp.errors import MissingFileError
from skills_mcp.files.opening import open_inside
from skills_mcp.files.paths import find_name
from skills_mcp.skills.document import decode
from skills_mcp.skills.frontmatter import derive_path, parse_skill
from skills_mcp.skills.homes import Home
from skills_mcp.skills.index import INDEX, ROOT
from skills_mcp.skills.model import (
    Problem,
    ProblemList,
    Skill,
    SkillPath,
    Stamp,
    printable,
)
from skills_mcp.skills.package import parse_package
from skills_mcp.skills.walk import Package, RuleFile

MAX_SKILL_BYTES = 1024 * 1024
"""Four times the largest skill known; more is a mistake, not a text to read."""


Described = tuple[Skill | None, tuple[Problem, ...]]
"""The skill, if it can be served, and what is wrong with it."""


def read_skill(home: Home, found: RuleFile | Package) -> Described:
    """Read the skill of a rule file or a package.  Blocking."""
    skill, problems = _read_found(home.directory, found)
    shown = home.file_prefix
    if shown:
        problems = tuple(replace(p, file=shown + p.file) for p in problems)
    if skill is None:
        return None, problems
    return replace(
        skill,
        path=_mounted(skill.path, home.prefix),
        file=shown + found.file,
        root=home.directory,
        location=home.directory / found.file,
        scope=home.scope,
    ), problems


def _read_found(root: Path, found: RuleFile | Package) -> Described:
    raw = _read(root, found.file)
    if isinstance(raw, Problem):
        return None, (raw, *_hidden(root, found))
    text, stamp = raw
    report = ProblemList(found.file)
    decoded = decode(text, report, lenient=isinstance(found, Package))
    if decoded is None:
        return None, (*report.problems, *_hidden(root, found))
    if isinstance(found, Package):
        skill, problems = _load_package(root, found, decoded, stamp)
    else:
        skill, problems = _load_rules(root, found, decoded)
    return skill, (*report.problems, *problems)


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
    directory = root / found.folder if found.owns_folder else None
    skill, problems = parse_skill(text, file=found.file, directory=directory)
    if directory is None:
        return skill, problems
    skill = _spell_as_disk(skill, found.files) if skill else None
    declared = {entry.file for entry in skill.entries()} if skill else set()
    folder = found.folder
    listed = sorted(declared & found.files.keys())
    stamps = {file: _stamp(root, f"{folder}/{file}") for file in listed}
    files = {file: stamp for file, stamp in stamps.items() if stamp}
    if skill is not None:
        skill = replace(skill, files=files)
    return skill, (
        *problems,
        *_missing(found, declared - files.keys()),
        *_hidden(root, found, declared),
    )


def _spell_as_disk(skill: Skill, files: Collection[str]) -> Skill:
    """Return the skill with the names of its files as the disk has them.

    An author types é as one character, and the disk may keep it as two.
    """
    if all(entry.file.isascii() for entry in skill.entries()):
        return skill

    def spell(file: str) -> str:
        return find_name(files, file) or file

    return replace(
        skill,
        assets=tuple(replace(each, file=spell(each.file)) for each in skill.assets),
        scripts=tuple(replace(each, file=spell(each.file)) for each in skill.scripts),
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


def _missing(found: RuleFile, missing: set[str]) -> Iterator[Problem]:
    for name in sorted(missing):
        yield Problem(
            found.file,
            f"declares {name}, which is not in its folder",
            "add the file, or take the declaration away",
            "warning",
            rule="file-missing",
            is_passing=name in found.files,  # it is there, and could not be opened
        )


def _hidden(
    root: Path, found: RuleFile | Package, declared: Collection[str] = ()
) -> Iterator[Problem]:
    """Report skills that are taken for the files of another one."""
    if isinstance(found, Package) or not found.owns_folder:
        return
    for name in found.markdown:
        file = f"{found.folder}/{name}"
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
