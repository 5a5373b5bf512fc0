"""Short list of skills for a system prompt.  Pure.

Rule: the XML is well-formed for any skill, the list is within its limit, and no skill
is truncated. The same skills give the same bytes, so a prompt cache holds.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from itertools import islice, takewhile
from pathlib import PurePosixPath
from typing import Literal

from skills_mcp.config import Catalog as Limits
from skills_mcp.errors import SkillsError
from skills_mcp.files.paths import iterate_folders
from skills_mcp.skills.model import Scope, Skill
from skills_mcp.skills.skill_index import INDEX, ROOT, SCOPES, SkillIndex
from skills_mcp.text.unicode import HIDING_CHARACTERS

CatalogStyle = Literal["skills_context", "available_skills", "lines"]
"""Format of the list: file paths, folders with contents, or neither."""

_CORE = "The skills with always_apply hold for every task: load them before you begin."

_LIMITS = Limits()

_escape = partial(escape, quote=False)

# For the areas that are left out: a long sentence. A shorter list is better without it.
_AREAS_BYTES = 300
_MIN_BYTES_FOR_AREAS = 4096

_MAX_NAMED_FILES = 10  # of one skill; it is a hint at what there is, not the list

_LICENCE_FILES = frozenset({"license", "licence"})  # 004 §5.1 leaves it out, too

# Control characters, what XML cannot hold, and marks that hide text from a reviewer.
_INVALID_IN_XML = re.compile(
    f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff{HIDING_CHARACTERS}]"
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
    """A skill and its unambiguous name for tools."""

    skill: Skill
    name: str
    """Its own name; its path if several skills share the name."""


@dataclass(frozen=True, slots=True)
class SkillCatalog:
    """Skills selected for a prompt."""

    entries: tuple[CatalogEntry, ...]
    total: int
    """Number of skills without limits."""
    left_out: tuple[tuple[str, int], ...] = ()
    text: str = ""
    """Rendered list for the prompt."""

    @property
    def truncated(self) -> bool:
        return len(self.entries) < self.total


def select_for_prompt(
    index: SkillIndex,
    *,
    render: Callable[[SkillCatalog], str] | None = None,
    scope: Scope | None = None,
    max_entries: int = _LIMITS.max_entries,
    max_bytes: int = _LIMITS.max_bytes,
) -> SkillCatalog:
    """Choose the skills for a prompt: the organisation's, the project's, the user's.

    Core skills come first. Within a scope the order is by path. `_root` and `_index`
    are left out if a listed skill inherits from them.

    Whole skills are dropped from the end until the text fits. A skill too long even
    alone is dropped first, so that it does not cost all others. If not even the
    sentences around the list fit, some 700 bytes, the list is empty.
    """
    renderer = render or render_skills_context
    entries = tuple(_named_entries(index, scope))

    reserved = _AREAS_BYTES if max_bytes >= _MIN_BYTES_FOR_AREAS else 0

    def fits(chosen: Sequence[CatalogEntry]) -> bool:
        text = renderer(SkillCatalog(tuple(chosen), len(entries)))
        budget = max_bytes - (reserved if len(chosen) < len(entries) else 0)
        return len(text.encode("utf-8")) <= budget

    chosen = entries[:max_entries]
    if not fits(chosen):
        chosen = tuple(islice((e for e in entries if fits([e])), max_entries))
        counts = range(1, len(chosen) + 1)
        chosen = chosen[: bisect_right(counts, 0, key=lambda n: not fits(chosen[:n]))]
    listed = {entry.skill.path for entry in chosen}
    missing = [e.skill.path for e in entries if e.skill.path not in listed]
    areas = tuple(_count_areas(missing)) if reserved else ()
    catalog = SkillCatalog(chosen, len(entries), areas)
    return replace(catalog, text=renderer(catalog))


def render_skills_context(catalog: SkillCatalog) -> str:
    rules = "".join(f"  <rule>{_escape(rule)}</rule>\n" for rule in _usage_rules(catalog))
    skills = "".join(map(_render_skill, catalog.entries))
    return (
        f"<skills_context>\n<skills_usage>\n{rules}</skills_usage>\n"
        f'<skills_catalog scope="initial" truncated="{str(catalog.truncated).lower()}">\n'
        f"{skills}</skills_catalog>\n</skills_context>\n"
    )


def render_available_skills(catalog: SkillCatalog) -> str:
    skills = "".join(map(_render_available, catalog.entries))
    listed = f"<available_skills>\n{skills}</available_skills>\n"
    core = f"{_CORE}\n" if _has_core(catalog) else ""
    more = f"{_render_truncation(catalog)}\n" if catalog.truncated else ""
    return f"{listed}\n{_USAGE}{core}{more}"


def render_plain_list(catalog: SkillCatalog) -> str:
    lines = "".join(f"{render_catalog_line(entry)}\n" for entry in catalog.entries)
    return f"{lines}\n{_render_truncation(catalog)}\n" if catalog.truncated else lines


def render_catalog_line(entry: CatalogEntry) -> str:
    return f"- {_to_one_line(entry.name)}: {_to_one_line(entry.skill.description)}"


RENDERERS: dict[CatalogStyle, Callable[[SkillCatalog], str]] = {
    "skills_context": render_skills_context,
    "available_skills": render_available_skills,
    "lines": render_plain_list,
}


def _named_entries(index: SkillIndex, scope: Scope | None) -> Iterator[CatalogEntry]:
    for skill in sorted(_select_skills(index, scope), key=_sort_key):
        yield CatalogEntry(skill, skill.name if _resolves_to(index, skill) else skill.path)


def _resolves_to(index: SkillIndex, skill: Skill) -> bool:
    try:
        return index.resolve(skill.name).path == skill.path
    except SkillsError:
        return False


def _select_skills(index: SkillIndex, scope: Scope | None) -> Iterator[Skill]:
    skills = [s for s in index if scope in {None, s.scope} and not s.user_only]
    inherited = {
        folder
        for skill in skills
        if skill.inherit and not _is_index(skill)
        for folder in iterate_folders(skill.path)
    }
    for skill in skills:
        if not _is_index(skill) or skill.path.rpartition("/")[0] not in inherited:
            yield skill


def _is_index(skill: Skill) -> bool:
    return skill.path == ROOT or skill.path.rpartition("/")[2] == INDEX


def _sort_key(skill: Skill) -> tuple[bool, int, str]:
    return not skill.always_apply, SCOPES.index(skill.scope), skill.path


def _count_areas(paths: Sequence[str]) -> Iterator[tuple[str, int]]:
    folders = [path.split("/")[:-1] for path in paths]
    levels = zip(*folders, strict=False)
    same = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, levels))
    areas = Counter("/".join(names[: same + 1]) for names in folders)
    yield from sorted(areas.items(), key=lambda area: (-area[1], area[0]))


def _usage_rules(catalog: SkillCatalog) -> Iterator[str]:
    yield from _RULES.splitlines()
    if _has_core(catalog):
        yield _CORE
    if catalog.truncated:
        yield _render_truncation(catalog)


def _render_truncation(catalog: SkillCatalog) -> str:
    return (
        f"The list is not complete: it has {len(catalog.entries)} of {catalog.total} "
        f"skills. Find the others with search_skills.{_render_areas(catalog.left_out)}"
    )


def _render_areas(areas: Sequence[tuple[str, int]]) -> str:
    if len(areas) < 2:  # noqa: PLR2004 - a single one tells nothing
        return ""
    rendered = [f"{_to_one_line(path) or 'the top'} ({count})" for path, count in areas]
    for number in range(len(rendered), 0, -1):
        rest = len(rendered) - number
        others = f" and {rest} more areas" if rest else ""
        text = f" Left out are skills of: {', '.join(rendered[:number])}{others}."
        if len(_escape(text).encode()) <= _AREAS_BYTES:
            return text
    return ""


def _has_core(catalog: SkillCatalog) -> bool:
    return any(entry.skill.always_apply for entry in catalog.entries)


def _render_skill(entry: CatalogEntry) -> str:
    skill = entry.skill
    path = str(skill.location or skill.path)
    core = "    <always_apply>true</always_apply>\n" if skill.always_apply else ""
    return (
        "  <skill>\n"
        f"    <name>{_escape(_to_one_line(entry.name))}</name>\n"
        f"    <description>{_escape(_to_one_line(skill.description))}</description>\n"
        f"    <path>{_escape(_INVALID_IN_XML.sub('', path)).replace(chr(13), '&#13;')}</path>\n"
        f"    <scope>{skill.scope}</scope>\n"
        f"{core}"
        "  </skill>\n"
    )


def _render_available(entry: CatalogEntry) -> str:
    from xml.sax.saxutils import quoteattr  # late: the first answer needs no XML

    skill = entry.skill
    folder = f"{skill.directory}/" if skill.directory else skill.location or skill.path
    path = _INVALID_IN_XML.sub("", str(folder))
    files = ", ".join(_summarise_files(skill))
    lines = (
        _to_one_line(skill.description),
        f"Files: {_to_one_line(files)}" if files else "",
    )
    text = "".join(f"    {_escape(line)}\n" for line in lines if line)
    head = f"name={quoteattr(_to_one_line(entry.name))} path={quoteattr(path)}"
    head += ' always_apply="true"' if skill.always_apply else ""
    return f"  <skill {head}>\n{text}  </skill>\n"


def _to_one_line(text: str) -> str:
    return " ".join(_INVALID_IN_XML.sub("", text).split())


def _summarise_files(skill: Skill) -> list[str]:
    """Top-level files and folders of a skill, for a hint."""
    main = skill.location.name if skill.location else ""
    groups: dict[str, list[str]] = defaultdict(list)
    for file in sorted(skill.files, key=lambda file: (file != main, "/" in file, file)):
        folder, separator, _ = file.partition("/")
        if PurePosixPath(file).stem.casefold() not in _LICENCE_FILES:
            groups[folder + separator].append(file)
    scripts = {script.file for script in skill.scripts}
    named = [_summarise_group(name, files, scripts) for name, files in groups.items()]
    more = len(named) - _MAX_NAMED_FILES
    rest = [f"{more} more"] if more > 0 else []
    return named[:_MAX_NAMED_FILES] + rest


def _summarise_group(name: str, files: list[str], scripts: set[str]) -> str:
    if len(files) == 1:
        return files[0]
    run = len(scripts.intersection(files))
    counts = ((run, "script"), (len(files) - run, "file"))
    rendered = (f"{n} {noun}{'s' if n > 1 else ''}" for n, noun in counts if n)
    return f"{name}({', '.join(rendered)})"
