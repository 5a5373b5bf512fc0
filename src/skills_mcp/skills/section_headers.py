"""What heads each section of a composed text, and what only looks like it.

Rule: the lines of a composed text that look like headers are its headers, and no
others.  So a body cannot pass off its text as the rules of another skill.
"""

import re
from collections.abc import Iterator
from io import StringIO
from unicodedata import category

from skills_mcp.skills.index import INDEX, ROOT
from skills_mcp.skills.model import SkillPath
from skills_mcp.skills.problems import printable
from skills_mcp.text.unicode import BLANK, normalize

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
