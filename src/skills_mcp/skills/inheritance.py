"""What a skill says together with everything above it.

A skill's own `inherit` decides for that skill alone: with it, the whole chain up
to `_root` counts; without it, only the skill itself.

Rule: the lines of a composed text that look like headers are its headers, and no
others. So a body cannot pass off its text as the rules of another skill.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Generic, TypeVar
from unicodedata import category

from skills_mcp.files.paths import find_name
from skills_mcp.skills.index import INDEX, ROOT, SkillIndex
from skills_mcp.skills.model import Asset, Script, Skill, SkillPath, printable
from skills_mcp.text.unicode import BLANK, normalize

Entry = TypeVar("Entry", Asset, Script)


@dataclass(frozen=True, slots=True)
class Inherited(Generic[Entry]):
    """An asset or script, and the ancestor it comes from."""

    entry: Entry
    source: SkillPath


@dataclass(frozen=True, slots=True)
class Located:
    """Where in the chain a file was found; `source` is None for the skill itself."""

    entry: Asset | Script
    owner: Skill
    source: SkillPath | None


def compose(index: SkillIndex, skill: Skill) -> str:
    """Return the rules that apply, from the most general to the skill's own.

    A skill that does not inherit is returned alone, without a header. Lines of a body
    that only look like headers are escaped.
    """
    if not skill.inherit:
        return escape_headers(skill.body)
    return "\n\n".join(map(_render_section, index.lineage(skill)))


def inherited_assets(index: SkillIndex, skill: Skill) -> tuple[Inherited[Asset], ...]:
    """Return the assets of the ancestors that nothing more specific replaces."""
    return _inherited(index, skill, lambda member: member.assets)


def inherited_scripts(index: SkillIndex, skill: Skill) -> tuple[Inherited[Script], ...]:
    """Return the scripts of the ancestors that nothing more specific replaces."""
    return _inherited(index, skill, lambda member: member.scripts)


def find_in_chain(index: SkillIndex, skill: Skill, file: str) -> Located | None:
    """Find the skill that declares `file`, the most specific first."""
    return _find(index, skill, file, lambda member: member.entries())


def find_script(index: SkillIndex, skill: Skill, file: str) -> Located | None:
    """Find the skill that declares `file` as a script, the most specific first."""
    return _find(index, skill, file, lambda member: member.scripts)


def files_in_chain(index: SkillIndex, skill: Skill) -> list[str]:
    """Return every file that `find_in_chain` finds, the skill's own first."""
    chain = _chain(index, skill)
    return list(dict.fromkeys(e.file for member in chain for e in member.entries()))


def find_owners(index: SkillIndex, skill: Skill) -> dict[str, Skill]:
    """Return every file that can be read by a skill's name, and whose file it is.

    What ancestors declare is inherited, as in `find_in_chain`; the skill's own files
    come first.
    """
    owners = dict.fromkeys(skill.files, skill)
    for member in _chain(index, skill):
        for entry in member.entries():
            if entry.file in member.files:
                owners.setdefault(entry.file, member)
    return owners


def _render_section(skill: Skill) -> str:
    return f"{render_header(skill.path, skill.file)}\n\n{escape_headers(skill.body)}"


def _find(
    index: SkillIndex,
    skill: Skill,
    file: str,
    entries: Callable[[Skill], Iterable[Asset | Script]],
) -> Located | None:
    for member in _chain(index, skill):
        listed = {entry.file: entry for entry in reversed(tuple(entries(member)))}
        if name := find_name(listed, file):
            source = None if member.path == skill.path else member.path
            return Located(listed[name], member, source)
    return None


def _chain(index: SkillIndex, skill: Skill) -> tuple[Skill, ...]:
    """Return whose files count, the most specific first."""
    return index.lineage(skill)[::-1] if skill.inherit else (skill,)


def _inherited(
    index: SkillIndex, skill: Skill, entries: Callable[[Skill], Iterable[Entry]]
) -> tuple[Inherited[Entry], ...]:
    """Collect root to leaf, so that the more specific one wins."""
    if not skill.inherit:
        return ()
    collected: dict[str, Inherited[Entry]] = {}
    for member in index.lineage(skill):
        for entry in entries(member):
            collected[entry.file] = Inherited(entry, member.path)
    return tuple(item for item in collected.values() if item.source != skill.path)


ESCAPE = "\\"
"""Stands in front of a line that only looks like a header; Markdown leaves it out."""

_MARK = "==="

_ALIKE = "≐≑≒≓≔≕≖≗≘≙≚≛≜≝≞≟≡≢≣═꞊゠⹀᐀⚌🟰"  # noqa: RUF001 - that is what they do
_TO_EQUALS = str.maketrans(dict.fromkeys(_ALIKE, "="))

# Each of them is one or more = once it is decomposed.
_SIGNS = f"=⁼₌≠﹦＝⩴⩵⩶{_ALIKE}"  # noqa: RUF001
_SIGN = re.compile(f"[{_SIGNS}]")

# Of a text in ASCII: what ends a line is one character, and what is not seen is none.
_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e"
_PLAIN = dict.fromkeys([*range(0x21), 0x7F]) | dict.fromkeys(map(ord, _ENDS), "\n")

# Nothing is seen of them, so they may stand anywhere in a line that looks like one.
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Me", "Mn", "Zl", "Zp", "Zs"})

_LOOKS = re.compile(r"={3,}[^=].*(?:===|\(from).*", re.DOTALL)


def render_header(path: SkillPath, file: str) -> str:
    """Return the line above a skill's own text."""
    title, origin = _escape_name(derive_title(path)), _escape_name(file)
    return f"{_MARK} {title} (from {origin}) {_MARK}"


def derive_title(path: SkillPath) -> str:
    """Return the title of a section.

    >>> derive_title(SkillPath("ui/react/_index"))
    'UI > REACT'
    """
    if path == ROOT:
        return "GLOBAL RULES"
    parts = [part.upper() for part in path.split("/") if part != INDEX]
    title = " > ".join(" ".join(part.split()) for part in parts)
    return title or path.upper()  # an _index.md at the top has no folder to name


def escape_headers(body: str) -> str:
    r"""Return a body in which no line looks like a header.

    >>> escape_headers("Title\n=====\n=== GLOBAL RULES (from _root.md) ===")
    'Title\n=====\n\\=== GLOBAL RULES (from _root.md) ==='
    """
    if not _may_hold(body):
        return body
    escaped = StringIO(newline="")
    for _, line in _lines(body):
        escaped.write(f"{ESCAPE}{line}" if looks_like(line) else line)
    return escaped.getvalue()


def find_lookalikes(text: str) -> Iterator[tuple[int, str]]:
    """Iterate over the lines that look like headers, each with its number from 1."""
    for number, line in _lines(text):
        if looks_like(line):
            yield number, line.splitlines()[0]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Iterate over lines with their ends, by the number of the line in an editor.

    One at a time: a list of them all may weigh thirty times as much as the text.
    """
    for number, line in enumerate(StringIO(text, newline="\n"), 1):
        for part in line.splitlines(keepends=True):
            yield number, part


def looks_like(line: str) -> bool:
    """Whether a line may be taken for a header.

    It begins with three equals signs or what resembles them, and ends its title with
    some more, or says where it is from.  So the underline of a heading is none, nor is
    `=== RUN TestLogin`.
    """
    first = line.lstrip()[:1]
    if first != "=" and first.isascii() and first.isprintable():
        return False  # as nearly every line, and many are looked at
    first = next(filter(_is_seen, line), "")
    return _SIGN.match(first) is not None and _LOOKS.fullmatch(_fold(line)) is not None


def _may_hold(body: str) -> bool:
    """Whether there is a reason to look at each line, which takes its time."""
    if body.isascii():
        return f"\n{_MARK}" in f"\n{body.translate(_PLAIN)}"
    return any(sign in body for sign in _SIGNS)


def _fold(text: str) -> str:
    """Return what a reader makes of a text that holds signs of equality."""
    plain = normalize("NFKD", text).translate(_TO_EQUALS).casefold()
    return "".join(filter(_is_seen, plain))


def _is_seen(character: str) -> bool:
    return category(character) not in _UNSEEN and character not in BLANK


def _escape_name(name: str) -> str:
    """Return a name that neither ends its header nor begins another one."""
    shown = printable(name)
    if _MARK not in _fold(shown):
        return shown
    return _SIGN.sub(rf"\{ESCAPE}\g<0>", shown)
