"""Reading discovered rule files and packages."""

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from skills_mcp.errors import MissingFileError
from skills_mcp.files.opening import open_inside
from skills_mcp.files.paths import find_composed_name
from skills_mcp.skills.document import decode_markdown
from skills_mcp.skills.frontmatter import derive_rule_path, parse_rule_file
from skills_mcp.skills.homes import SkillRoot
from skills_mcp.skills.index import INDEX, ROOT
from skills_mcp.skills.model import (
    Problem,
    ProblemList,
    Skill,
    SkillPath,
    Stamp,
    escape_unprintable,
)
from skills_mcp.skills.package import parse_package
from skills_mcp.skills.walk import Package, RuleFile

MAX_SKILL_BYTES = 1024 * 1024
"""Four times the largest known skill; more is a mistake, not a text to read."""


ReadSkill = tuple[Skill | None, tuple[Problem, ...]]
"""The skill, if it can be served, and its problems."""


def read_skill(home: SkillRoot, found: RuleFile | Package) -> ReadSkill:
    """Read the skill of a rule file or a package. Blocking."""
    skill, problems = _read_skill_file(home.directory, found)
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


def _read_skill_file(root: Path, found: RuleFile | Package) -> ReadSkill:
    raw = _read(root, found.file)
    if isinstance(raw, Problem):
        return None, (raw, *_report_shadowed(root, found))
    text, stamp = raw
    report = ProblemList(found.file)
    decoded = decode_markdown(text, report, lenient=isinstance(found, Package))
    if decoded is None:
        return None, (*report.problems, *_report_shadowed(root, found))
    if isinstance(found, Package):
        skill, problems = _parse_package_file(root, found, decoded, stamp)
    else:
        skill, problems = _parse_rules_file(root, found, decoded)
    return skill, (*report.problems, *problems)


def _parse_package_file(root: Path, found: Package, text: str, stamp: Stamp) -> ReadSkill:
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


def _parse_rules_file(root: Path, found: RuleFile, text: str) -> ReadSkill:
    if _is_notice(found.file, text):
        return None, tuple(_report_shadowed(root, found))
    directory = root / found.folder if found.owns_folder else None
    skill, problems = parse_rule_file(text, file=found.file, directory=directory)
    if directory is None:
        return skill, problems
    skill = _match_spelling_on_disk(skill, found.files) if skill else None
    declared = {entry.file for entry in skill.entries()} if skill else set()
    folder = found.folder
    listed = sorted(declared & found.files.keys())
    stamps = {file: _read_stamp(root, f"{folder}/{file}") for file in listed}
    files = {file: stamp for file, stamp in stamps.items() if stamp}
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

    def spell(file: str) -> str:
        return find_composed_name(files, file) or file

    return replace(
        skill,
        assets=tuple(
            replace(declared_file, file=spell(declared_file.file)) for declared_file in skill.assets
        ),
        scripts=tuple(
            replace(declared_file, file=spell(declared_file.file))
            for declared_file in skill.scripts
        ),
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


def _read_stamp(root: Path, file: str) -> Stamp | None:
    try:
        with open_inside(root, tuple(file.split("/"))) as handle:
            return Stamp.of(os.fstat(handle.fileno()))
    except (OSError, MissingFileError):
        return None


def _add_prefix(path: SkillPath, prefix: str) -> SkillPath:
    if not prefix:
        return path
    return SkillPath(prefix + (INDEX if path == ROOT else path))


def _is_notice(file: str, text: str) -> bool:
    """Whether a file is for people: `README.md`, `LICENSE.md`, `AGENTS.md`."""
    name = derive_rule_path(file).rsplit("/", 1)[-1]
    return name.isupper() and not text.lstrip("\ufeff \t\r\n").startswith("---")


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
    if isinstance(found, Package) or not found.owns_folder:
        return
    for name in found.markdown:
        file = f"{found.folder}/{name}"
        if name not in declared and _looks_like_a_skill(root, file):
            yield Problem(
                escape_unprintable(file),
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
