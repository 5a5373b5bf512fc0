"""The statement of powers of skills: signs of all of their files, with levels."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import NamedTuple

from skills_mcp.errors import SkillsError
from skills_mcp.features.powers.file_signs import MAX_READ_BYTES, TEXT_SUFFIXES, find_signs
from skills_mcp.features.powers.power import Kind, Power, Sign, derive_levels, is_at_least
from skills_mcp.files.opening import open_inside
from skills_mcp.skills.model import Skill
from skills_mcp.skills.plugin_files import open_plugin
from skills_mcp.skills.skill_files import open_listed_file
from skills_mcp.skills.skill_index import SkillIndex


class _File(NamedTuple):
    name: str
    signs: Sequence[Sign]
    size_bytes: int
    """Of its text, without blanks: none of them makes a text longer."""


def read_powers(skill: Skill, *, inherited_by: int = 0) -> tuple[Power, ...]:
    """The powers of one skill, without those that it inherits.

    A file that cannot be read is not served, so it has none.
    """
    files = tuple(_find_files(skill))
    names = {sign.name for file in files for sign in file.signs}
    purpose = f"{skill.name} {skill.description}"
    levels = derive_levels(names, sum(file.size_bytes for file in files), purpose)
    found: dict[tuple[Kind, str, str], Power] = {}
    for sign, name in ((sign, file.name) for file in files for sign in file.signs):
        power = Power(
            skill=skill.path,
            kind=sign.kind,
            what=sign.what,
            file=name,
            line=sign.line,
            level=levels.get(sign.name, "note"),
            inherited_by=inherited_by,
        )
        key = sign.kind, sign.what, name
        if not is_at_least(found.setdefault(key, power).level, power.level):
            found[key] = power  # what is ordinary and comes first hides no alarm
    return tuple(power for key, power in found.items() if not _is_said(key, found))


def _is_said(key: tuple[Kind, str, str], found: Collection[tuple[Kind, str, str]]) -> bool:
    """Whether a host is listed with more: that text is sent there."""
    kind, what, file = key
    return kind == "network" and (kind, f"{what}, sends text", file) in found


def state_powers(
    index: SkillIndex, skills: Iterable[Skill] | None = None
) -> Iterator[tuple[Skill, tuple[Power, ...]]]:
    """The powers of these skills, or of all, drafts included."""
    # For each skill, how many others are served with its text.
    followers = Counter(
        above.path
        for skill in (*index, *index.drafts)
        for above in index.contributors(skill)
        if above.path != skill.path
    )
    for skill in (*index, *index.drafts) if skills is None else skills:
        yield skill, read_powers(skill, inherited_by=followers[skill.path])


def read_composed_powers(index: SkillIndex, skill: Skill) -> Iterator[Power]:
    """The powers of a skill and of its ancestors."""
    for contributor in index.contributors(skill):
        yield from read_powers(contributor)


def _find_files(skill: Skill) -> Iterator[_File]:
    folder = PurePosixPath(skill.file)
    main = folder.name if skill.location is None else skill.location.name
    is_package = skill.directory is not None and skill.location == skill.directory / main
    for name, data, size in _read_files(skill, main, is_package=is_package):
        inside = folder.parent if is_package or name == main else folder.with_suffix("")
        file = folder.as_posix() if name == main else normpath((inside / name).as_posix())
        is_text = PurePosixPath(name).suffix.lower() in TEXT_SUFFIXES
        length = len(data.translate(None, b" \t\r\n")) if is_text else 0
        yield _File(file, find_signs(name, data, size), length)


def _read_files(skill: Skill, main: str, *, is_package: bool) -> Iterator[tuple[str, bytes, int]]:
    if not is_package and skill.location is not None:
        yield from _read_main(skill.root or skill.location.parent, skill.location, main)
    plugin = open_plugin(skill, Path(os.fspath(skill.location or "").removesuffix(skill.file)))
    for owner in (skill, plugin.owner) if plugin else (skill,):
        for name in sorted(owner.files):
            try:
                with open_listed_file(owner, name) as handle:
                    data = handle.read(MAX_READ_BYTES)
                    path = os.path.relpath(f"{owner.directory}/{name}", skill.directory)
                    yield Path(path).as_posix(), data, os.fstat(handle.fileno()).st_size
            except (OSError, SkillsError):
                continue


def _read_main(root: Path, location: Path, name: str) -> Iterator[tuple[str, bytes, int]]:
    try:
        with open_inside(root, location.relative_to(root).parts) as handle:
            yield name, handle.read(MAX_READ_BYTES), os.fstat(handle.fileno()).st_size
    except (OSError, SkillsError, ValueError):
        return
