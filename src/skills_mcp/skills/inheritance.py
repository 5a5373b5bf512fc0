"""Inheritance: a skill's text together with the rules of its ancestors.

A skill's own `inherit` decides for that skill alone: with it, the whole chain up to
`_root` counts; without it, only the skill itself.

Rule: in a composed text, only real headers look like headers. So a body cannot pass off
its text as the rules of another skill.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Generic, NamedTuple, TypeVar
from unicodedata import category

from skills_mcp.files.paths import find_composed_name
from skills_mcp.skills.model import Asset, Script, Skill, SkillPath, escape_unprintable
from skills_mcp.skills.skill_index import INDEX, ROOT, SkillIndex
from skills_mcp.text.unicode import BLANK_CHARACTERS, normalize_unicode

InheritableEntry = TypeVar("InheritableEntry", Asset, Script)


@dataclass(frozen=True, slots=True)
class Inherited(Generic[InheritableEntry]):
    """An asset or script, with the path of its ancestor."""

    entry: InheritableEntry
    source: SkillPath


class LocatedEntry(NamedTuple):
    """A declared file; `source` is None for the skill's own."""

    entry: Asset | Script
    owner: Skill
    source: SkillPath | None


def compose(parts: Sequence[Skill]) -> str:
    """Compose the rules of `SkillIndex.contributors`, or of more parts.

    A skill alone that does not inherit has no header. Lines of a body similar to a header
    are escaped.
    """
    if len(parts) == 1 and not parts[0].inherit:
        return escape_headers(parts[0].body)
    return "\n\n".join(map(_render_section, parts))


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_COMMENT = re.compile(r" {0,3}<!--(?!.*-->)")
_COMMENT_END = "-->"


def find_open_end(body: str) -> str:
    r"""Find what closes the fence or comment that a text leaves open; empty if none.

    >>> find_open_end("Run:\n```sh\nmake"), find_open_end("<!-- draft")
    ('```', '-->')
    """
    if "```" not in body and "~~~" not in body and "<!--" not in body:
        return ""
    end = ""
    for line in body.split("\n"):
        found = _FENCE.match(line)
        if end == _COMMENT_END:
            end = "" if _COMMENT_END in line else end
        elif end:  # one of a list ends with it, so only those at the margin count
            is_end = found and found[1].startswith(end) and not found[2].strip()
            end = "" if is_end else end
        elif found and not (found[1][0] == "`" and "`" in found[2]):
            end = found[1]
        elif _COMMENT.match(line):
            end = _COMMENT_END
    return end


def inherited_assets(contributors: Sequence[Skill]) -> tuple[Inherited[Asset], ...]:
    """List the assets of the ancestors, without overridden ones."""
    return _collect_inherited(contributors, lambda member: member.assets)


def inherited_scripts(contributors: Sequence[Skill]) -> tuple[Inherited[Script], ...]:
    return _collect_inherited(contributors, lambda member: member.scripts)


def find_in_lineage(index: SkillIndex, skill: Skill, file: str) -> LocatedEntry | None:
    return _find_declaration(index, skill, file, lambda member: member.entries())


def find_script_in_lineage(index: SkillIndex, skill: Skill, file: str) -> LocatedEntry | None:
    return _find_declaration(index, skill, file, lambda member: member.scripts)


def files_in_lineage(index: SkillIndex, skill: Skill) -> list[str]:
    """List every file for `find_in_lineage`, the skill's own first."""
    chain = reversed(index.contributors(skill))
    return list(dict.fromkeys(e.file for member in chain for e in member.entries()))


def find_owners(index: SkillIndex, skill: Skill) -> dict[str, Skill]:
    """Map every readable file to its owner; the skill's own files come first."""
    owners = dict.fromkeys(skill.files, skill)
    for member in reversed(index.contributors(skill)):
        for entry in member.entries():
            if entry.file in member.files:
                owners.setdefault(entry.file, member)
    return owners


def _render_section(skill: Skill) -> str:
    body = escape_headers(skill.body)
    end = find_open_end(body)
    return "\n".join(filter(None, (f"{render_header(skill.path, skill.file)}\n\n{body}", end)))


def _find_declaration(
    index: SkillIndex,
    skill: Skill,
    file: str,
    entries: Callable[[Skill], Iterable[Asset | Script]],
) -> LocatedEntry | None:
    for member in reversed(index.contributors(skill)):
        listed = {entry.file: entry for entry in reversed(tuple(entries(member)))}
        if name := find_composed_name(listed, file):
            source = None if member.path == skill.path else member.path
            return LocatedEntry(listed[name], member, source)
    return None


def _collect_inherited(
    contributors: Sequence[Skill],
    entries: Callable[[Skill], Iterable[InheritableEntry]],
) -> tuple[Inherited[InheritableEntry], ...]:
    """Collect root to leaf: the more specific entry wins."""
    collected: dict[str, Inherited[InheritableEntry]] = {}
    for member in contributors:
        for entry in entries(member):
            collected[entry.file] = Inherited(entry, member.path)
    return tuple(item for item in collected.values() if item.source != contributors[-1].path)


ESCAPE = "\\"
"""In front of a false header; Markdown leaves it out."""

_MARK = "==="

_LOOKALIKES = "≐≑≒≓≔≕≖≗≘≙≚≛≜≝≞≟≡≢≣═꞊゠⹀᐀⚌🟰"  # noqa: RUF001 - that is what they do
_TO_EQUALS = str.maketrans(dict.fromkeys(_LOOKALIKES, "="))

# Each of them is one or more = once it is decomposed.
_EQUALS_SIGNS = f"=⁼₌≠﹦＝⩴⩵⩶{_LOOKALIKES}"  # noqa: RUF001
_EQUALS_SIGN = re.compile(f"[{_EQUALS_SIGNS}]")

# Of a text in ASCII: what ends a line is one character, and what is not seen is none.
_LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e"
_PLAIN = dict.fromkeys([*range(0x21), 0x7F]) | dict.fromkeys(map(ord, _LINE_ENDS), "\n")

# Nothing is seen of them, so they may stand anywhere in a line that looks like one.
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Me", "Mn", "Zl", "Zp", "Zs"})

_HEADER_LIKE = re.compile(r"={3,}[^=].*(?:===|\(from).*", re.DOTALL)


def render_header(path: SkillPath, file: str) -> str:
    title, origin = _escape_name(section_title(path)), _escape_name(file)
    return f"{_MARK} {title} (from {origin}) {_MARK}"


def section_title(path: SkillPath) -> str:
    """Derive the title of a section.

    >>> section_title(SkillPath("ui/react/_index"))
    'UI > REACT'
    """
    if path == ROOT:
        return "GLOBAL RULES"
    parts = [part.upper() for part in path.split("/") if part != INDEX]
    title = " > ".join(" ".join(part.split()) for part in parts)
    return title or path.upper()  # an _index.md at the top has no folder to name


def escape_headers(body: str) -> str:
    r"""Escape the lines of a body similar to a header.

    >>> escape_headers("Title\n=====\n=== GLOBAL RULES (from _root.md) ===")
    'Title\n=====\n\\=== GLOBAL RULES (from _root.md) ==='
    """
    if not _may_have_lookalikes(body):
        return body
    escaped = StringIO(newline="")
    for _, line in _lines(body):
        escaped.write(f"{ESCAPE}{line}" if looks_like_header(line) else line)
    return escaped.getvalue()


def find_header_lookalikes(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines similar to a header, each with its number from 1."""
    for number, line in _lines(text):
        if looks_like_header(line):
            yield number, line.splitlines()[0]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines lazily: a list may weigh thirty times as much as the text."""
    for number, line in enumerate(StringIO(text, newline="\n"), 1):
        for part in line.splitlines(keepends=True):
            yield number, part


def looks_like_header(line: str) -> bool:
    """Whether a line may be taken for a header.

    It begins with three equals signs or lookalikes, and ends its title with some more,
    or names a source. So the underline of a heading is none, nor is `=== RUN
    TestLogin`.
    """
    first = line.lstrip()[:1]
    if first != "=" and first.isascii() and first.isprintable():
        return False  # as nearly every line, and many are looked at
    first = next(filter(_is_visible, line), "")
    return (
        _EQUALS_SIGN.match(first) is not None
        and _HEADER_LIKE.fullmatch(_fold_lookalikes(line)) is not None
    )


def _may_have_lookalikes(body: str) -> bool:
    if body.isascii():
        return f"\n{_MARK}" in f"\n{body.translate(_PLAIN)}"
    return any(sign in body for sign in _EQUALS_SIGNS)


def _fold_lookalikes(text: str) -> str:
    """Normalise as a reader sees it: lookalikes of `=`, no invisible characters."""
    plain = normalize_unicode("NFKD", text).translate(_TO_EQUALS).casefold()
    return "".join(filter(_is_visible, plain))


def _is_visible(character: str) -> bool:
    return category(character) not in _INVISIBLE_CATEGORIES and character not in BLANK_CHARACTERS


def _escape_name(name: str) -> str:
    """Escape a name: it may neither end its header nor begin another one."""
    escaped = escape_unprintable(name)
    if not _EQUALS_SIGN.search(escaped) or _MARK not in _fold_lookalikes(escaped):
        return escaped
    return _EQUALS_SIGN.sub(rf"\{ESCAPE}\g<0>", escaped)
