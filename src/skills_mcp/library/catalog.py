"""The short list of skills for a system prompt.  Pure.

Rule: any skill makes well-formed XML, the list is no longer than its limit, and no
skill in it is cut in the middle.

A program that talks to a model puts it at the end of its system prompt:

    prompt += library.compose_catalog(max_bytes=8_192).text

The same skills give the same bytes, so a prompt cache holds.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from pathlib import PurePosixPath
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from skills_mcp.config import Catalog as Limits
from skills_mcp.errors import SkillsError
from skills_mcp.skills.index import INDEX, ROOT, SCOPES, SkillIndex
from skills_mcp.skills.model import Scope, Skill
from skills_mcp.text.unicode import HIDING

CatalogStyle = Literal["skills_context", "available_skills", "lines"]
"""The form of the list: places of files, folders with what is in them, or neither."""

_CORE = "The skills with always_apply hold for every task: load them before you begin."

_LIMITS = Limits()

# For the areas that are left out: a long sentence. A shorter list is better without it.
_AREAS_BYTES = 300
_ROOM_FOR_AREAS = 4096

_MAX_NAMED_FILES = 10  # of one skill; it is a hint at what there is, not the list

_LEGAL = frozenset({"license", "licence"})  # 004 §5.1 leaves it out, too

# Control characters, what XML cannot hold, and marks that hide text from a reviewer.
_UNFIT = re.compile(
    f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff{HIDING}]"
)

_RULES = """\
Before you begin a task, look for a skill in this list that fits it.
Load it by its name with load_skill, or describe the task to get_skill, and follow \
what you get. Without these tools, read the file at its path.
Load only what fits, and each skill once.
"""

_USAGE = """\
When a task fits one of these skills, first read its SKILL.md with read_skill_file; \
call load_skill for a skill that lists none. Read its other files in the same way, \
and only those that you need.
Run scripts with your own shell, in the folder that the skill has for its path, \
unless its text says that the server runs them.
"""


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A skill, and the name under which tools find it."""

    skill: Skill
    name: str
    """Its own name; its path in the tree where several skills have that name."""


@dataclass(frozen=True, slots=True)
class SkillCatalog:
    """The skills that fit into a prompt."""

    entries: tuple[CatalogEntry, ...]
    total: int
    """The number of skills without any limit."""
    left_out: tuple[tuple[str, int], ...] = ()
    """The areas that are missing because of the limits, and how many skills of each."""
    text: str = ""
    """What goes into the prompt."""

    @property
    def truncated(self) -> bool:
        """Whether skills are missing because of the limits."""
        return len(self.entries) < self.total


def build_catalog(
    index: SkillIndex,
    *,
    render: Callable[[SkillCatalog], str] | None = None,
    scope: Scope | None = None,
    max_entries: int = _LIMITS.max_entries,
    max_bytes: int = _LIMITS.max_bytes,
) -> SkillCatalog:
    """Choose the skills for a prompt: the organisation's, the project's, the user's.

    Core skills stand in front of all. Within a scope they are in the order of their
    paths. `_root` and `_index` are left out, because each skill below them brings their
    text; one that no listed skill inherits from is listed.

    Whole skills are dropped from the end until the text fits. One that would not
    fit even alone is dropped first, so that it does not cost all others. If not
    even the sentences around the list fit, some 700 bytes, the list is empty.

    Args:
        index: The skills; those that the operator hides are not in the list.
        render: Makes the text; without it, `render_skills_context`.
        scope: Only these skills.
        max_entries: The most skills.
        max_bytes: The most bytes of the whole text in UTF-8.
    """
    draw = render or render_skills_context
    entries = tuple(_entries(index, scope))

    reserved = _AREAS_BYTES if max_bytes >= _ROOM_FOR_AREAS else 0

    def fits(chosen: Sequence[CatalogEntry]) -> bool:
        text = draw(SkillCatalog(tuple(chosen), len(entries)))
        room = max_bytes - (reserved if len(chosen) < len(entries) else 0)
        return len(text.encode("utf-8")) <= room

    chosen = entries[:max_entries]
    if not fits(chosen):
        chosen = tuple(islice((e for e in entries if fits([e])), max_entries))
        counts = range(1, len(chosen) + 1)
        chosen = chosen[: bisect_right(counts, 0, key=lambda n: not fits(chosen[:n]))]
    listed = {entry.skill.path for entry in chosen}
    missing = [e.skill.path for e in entries if e.skill.path not in listed]
    areas = tuple(_count_areas(missing)) if reserved else ()
    catalog = SkillCatalog(chosen, len(entries), areas)
    return replace(catalog, text=draw(catalog))


def render_skills_context(catalog: SkillCatalog) -> str:
    """Return the `<skills_context>`: names, descriptions and places."""
    rules = "".join(f"  <rule>{escape(rule)}</rule>\n" for rule in _rules(catalog))
    skills = "".join(map(_render_skill, catalog.entries))
    return (
        f"<skills_context>\n<skills_usage>\n{rules}</skills_usage>\n"
        f'<skills_catalog scope="initial" truncated="{_flag(catalog.truncated)}">\n'
        f"{skills}</skills_catalog>\n</skills_context>\n"
    )


def render_available_skills(catalog: SkillCatalog) -> str:
    """Return the `<available_skills>`, with their files, and how to use them."""
    skills = "".join(map(_render_available, catalog.entries))
    listed = f"<available_skills>\n{skills}</available_skills>\n"
    core = f"{_CORE}\n" if _has_core(catalog) else ""
    more = f"{_count(catalog)}\n" if catalog.truncated else ""
    return f"{listed}\n{_USAGE}{core}{more}"


def render_lines(catalog: SkillCatalog) -> str:
    """Return the list without any XML: `- name: description`, a line for each skill."""
    lines = "".join(f"{render_line(entry)}\n" for entry in catalog.entries)
    return f"{lines}\n{_count(catalog)}\n" if catalog.truncated else lines


def render_line(entry: CatalogEntry) -> str:
    """Return `- name: description` on one line."""
    return f"- {_line(entry.name)}: {_line(entry.skill.description)}"


RENDERERS: dict[CatalogStyle, Callable[[SkillCatalog], str]] = {
    "skills_context": render_skills_context,
    "available_skills": render_available_skills,
    "lines": render_lines,
}


def _entries(index: SkillIndex, scope: Scope | None) -> Iterator[CatalogEntry]:
    """Yield the skills in order, each with a name that leads to it alone."""
    for skill in sorted(_listed(index, scope), key=_order):
        yield CatalogEntry(skill, skill.name if _leads_to(index, skill) else skill.path)


def _leads_to(index: SkillIndex, skill: Skill) -> bool:
    """Whether the name leads to this skill and to no other."""
    try:
        return index.resolve(skill.name).path == skill.path
    except SkillsError:
        return False


def _listed(index: SkillIndex, scope: Scope | None) -> Iterator[Skill]:
    """Yield the skills to list, without rules that come with a skill below them."""
    skills = [skill for skill in index if scope in {None, skill.scope}]
    inherited = {
        folder
        for skill in skills
        if skill.inherit and not _is_index(skill)
        for folder in _folders(skill.path)
    }
    for skill in skills:
        if not _is_index(skill) or skill.path.rpartition("/")[0] not in inherited:
            yield skill


def _is_index(skill: Skill) -> bool:
    return skill.path == ROOT or skill.path.rpartition("/")[2] == INDEX


def _folders(path: str) -> Iterator[str]:
    """Yield every folder above a path; the top is the empty one."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def _order(skill: Skill) -> tuple[bool, int, str]:
    return not skill.always_apply, SCOPES.index(skill.scope), skill.path


def _count_areas(paths: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Iterate over the folders that differ, those with most skills first."""
    folders = [path.split("/")[:-1] for path in paths]
    levels = zip(*folders, strict=False)
    same = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, levels))
    areas = Counter("/".join(names[: same + 1]) for names in folders)
    yield from sorted(areas.items(), key=lambda area: (-area[1], area[0]))


def _rules(catalog: SkillCatalog) -> Iterator[str]:
    yield from _RULES.splitlines()
    if _has_core(catalog):
        yield _CORE
    if catalog.truncated:
        yield _count(catalog)


def _count(catalog: SkillCatalog) -> str:
    return (
        f"The list is not complete: it has {len(catalog.entries)} of {catalog.total} "
        f"skills. Find the others with search_skills.{_name_areas(catalog.left_out)}"
    )


def _name_areas(areas: Sequence[tuple[str, int]]) -> str:
    """Return a sentence with the largest areas; it has its place in the limit."""
    if len(areas) < 2:  # noqa: PLR2004 - a single one tells nothing
        return ""
    shown = [f"{_line(path) or 'the top'} ({count})" for path, count in areas]
    for number in range(len(shown), 0, -1):
        rest = len(shown) - number
        others = f" and {rest} more areas" if rest else ""
        text = f" Left out are skills of: {', '.join(shown[:number])}{others}."
        if len(escape(text).encode()) <= _AREAS_BYTES:
            return text
    return ""


def _has_core(catalog: SkillCatalog) -> bool:
    return any(entry.skill.always_apply for entry in catalog.entries)


def _flag(value: bool) -> str:  # noqa: FBT001 - it is the value, not a choice
    return "true" if value else "false"


def _render_skill(entry: CatalogEntry) -> str:
    skill = entry.skill
    path = str(skill.location or skill.path)
    core = "    <always_apply>true</always_apply>\n" if skill.always_apply else ""
    return (
        "  <skill>\n"
        f"    <name>{escape(_line(entry.name))}</name>\n"
        f"    <description>{escape(_line(skill.description))}</description>\n"
        f"    <path>{escape(_UNFIT.sub('', path), {chr(13): '&#13;'})}</path>\n"
        f"    <scope>{skill.scope}</scope>\n"
        f"{core}"
        "  </skill>\n"
    )


def _render_available(entry: CatalogEntry) -> str:
    skill = entry.skill
    folder = f"{skill.directory}/" if skill.directory else skill.location or skill.path
    path = _UNFIT.sub("", str(folder))
    files = ", ".join(_name_files(skill))
    lines = (_line(skill.description), f"Files: {_line(files)}" if files else "")
    text = "".join(f"    {escape(line)}\n" for line in lines if line)
    head = f"name={quoteattr(_line(entry.name))} path={quoteattr(path)}"
    head += ' always_apply="true"' if skill.always_apply else ""
    return f"  <skill {head}>\n{text}  </skill>\n"


def _line(text: str) -> str:
    """Return a text on one line, without characters that XML or readers cannot take."""
    return " ".join(_UNFIT.sub("", text).split())


def _name_files(skill: Skill) -> list[str]:
    """Name what lies in a skill's folder, a folder with several files as one."""
    main = skill.location.name if skill.location else ""
    groups: dict[str, list[str]] = defaultdict(list)
    for file in sorted(skill.files, key=lambda file: (file != main, "/" in file, file)):
        folder, separator, _ = file.partition("/")
        if PurePosixPath(file).stem.casefold() not in _LEGAL:
            groups[folder + separator].append(file)
    scripts = {script.file for script in skill.scripts}
    named = [_name_group(name, files, scripts) for name, files in groups.items()]
    more = len(named) - _MAX_NAMED_FILES
    rest = [f"{more} more"] if more > 0 else []
    return named[:_MAX_NAMED_FILES] + rest


def _name_group(name: str, files: list[str], scripts: set[str]) -> str:
    """Return `REFERENCE.md`, `scripts/only.py` or `scripts/(8 scripts, 1 file)`."""
    if len(files) == 1:
        return files[0]
    run = len(scripts.intersection(files))
    counts = ((run, "script"), (len(files) - run, "file"))
    shown = (f"{n} {noun}{'s' if n > 1 else ''}" for n, noun in counts if n)
    return f"{name}({', '.join(shown)})"
