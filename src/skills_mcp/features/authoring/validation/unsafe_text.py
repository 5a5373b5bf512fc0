"""Text that is unsafe to give to agents: hidden or control characters, and secrets."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from io import StringIO
from itertools import islice

from skills_mcp.features.authoring.validation.rules import RuleFinding
from skills_mcp.skills.inheritance import find_lookalikes
from skills_mcp.text.hidden_text import (
    PRIVATE,
    SELECTORS,
    TAGS,
    find_hidden_places,
)
from skills_mcp.text.rendering import shorten
from skills_mcp.text.secret_detection import FoundSecret, find_secrets

ALLOWED = "skills-mcp:allow-secret"
"""On the line of a finding it says that a person has looked and it is no secret."""

MAX_FINDINGS = 20
"""Of one rule in one text: more of them are not repaired one by one."""

# A tab, a line end and a form feed, as old licences have it, do no harm.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u2028\u2029]|\r(?!\n)")

_NAMES = {
    "\x00": "NUL",
    "\x07": "BELL",
    "\x08": "BACKSPACE",
    "\r": "CARRIAGE RETURN alone",
    "\x1b": "ESCAPE",
    "\x7f": "DELETE",
}

_ALIKE = "асеорухіѕјһԁԛԝАВЕКМНОРСТХІЅЈοΟ"  # noqa: RUF001 - they look like Latin
_MIXED = re.compile(
    rf"(?<!\w)(?:[A-Za-z]+[{_ALIKE}]|[{_ALIKE}]+[A-Za-z])[A-Za-z{_ALIKE}]*(?!\w)"
)
_ELSEWHERE = re.compile(rf"(?![{_ALIKE}])[\u0370-\u03ff\u0400-\u052f]")


def check_text(text: str) -> Iterator[RuleFinding]:
    """Look for hidden characters, control characters and secrets."""
    yield from islice(find_hidden(text), MAX_FINDINGS)
    yield from islice(find_mixed_words(text), MAX_FINDINGS)
    yield from find_controls(text)
    yield from islice(_find_secrets(text), MAX_FINDINGS)


def check_body(body: str, first_line: int) -> Iterator[RuleFinding]:
    """Look for lines that look like the headers of a composed text."""
    for number, _ in islice(find_lookalikes(body), MAX_FINDINGS):
        reason = "has a line that looks like the header of another skill's rules"
        hint = "write it without ===: it is served with a backslash in front"
        yield RuleFinding("section-header", reason, hint, first_line + number - 1)


def find_controls(text: str) -> Iterator[RuleFinding]:
    """Iterate over characters that control a terminal or end a line unseen."""
    places: dict[str, list[int]] = defaultdict(list)
    for found in _CONTROLS.finditer(text):
        places[found[0]].append(found.start())
    for character, positions in islice(places.items(), MAX_FINDINGS):
        count = len(positions)
        noun = "a control character" if count == 1 else f"{count} control characters"
        name = _NAMES.get(character) or unicodedata.name(character, "")
        reason = f"has {noun}: U+{ord(character):04X} {name}".rstrip()
        line = 1 + text.count("\n", 0, positions[0])
        hint = "take it out, or write it as an escape such as \\x1b"
        yield RuleFinding("control-characters", reason, hint, line)


def without_control_characters(text: str) -> str:
    r"""Return a text without control characters; a carriage return ends a line.

    >>> without_control_characters("one\rtwo\x1b[0m")
    'one\ntwo[0m'
    """
    return _CONTROLS.sub(lambda found: "\n" if found[0] == "\r" else "", text)


def _find_secrets(text: str) -> Iterator[RuleFinding]:
    allowed = _find_allowed(text)
    line, counted = 1, 0
    for found in find_secrets(text):
        line += text.count("\n", counted, found.start)
        counted = found.start
        if line not in allowed:
            reason = f"has what looks like a secret: {_describe_secret(found)}"
            hint = (
                "revoke it and take it out, write <token> in an example, or put "
                f"{ALLOWED} on its line"
            )
            yield RuleFinding("secret", reason, hint, line)


def _find_allowed(text: str) -> frozenset[int]:
    """Return the lines that `ALLOWED` marks, from 1."""
    if ALLOWED not in text:
        return frozenset()
    lines = enumerate(StringIO(text, newline="\n"), 1)
    return frozenset(number for number, line in lines if ALLOWED in line)


def _describe_secret(found: FoundSecret) -> str:
    """Return the kind of a secret and a few of its characters."""
    return f"{found.kind} {found.beginning}…" if found.beginning else found.kind


def find_hidden(text: str) -> Iterator[RuleFinding]:
    """Iterate over hidden characters, each with the line of the first one."""
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    for place in find_hidden_places(text):
        group = _group(text[place])
        counts[group] += 1
        first.setdefault(group, place)
    for group, place in first.items():
        count = counts[group]
        name = _name_character(text[place])
        noun = "a hidden character" if count == 1 else f"{count} hidden characters"
        line = 1 + text.count("\n", 0, place)
        hint = "take it out, or write it as an escape such as \\u200b"
        yield RuleFinding("hidden-character", f"has {noun}: {name}", hint, line)


def find_mixed_words(text: str) -> Iterator[RuleFinding]:
    """Iterate over words of Latin letters that are not spelt as they look."""
    if text.isascii():
        return
    for number, line in enumerate(StringIO(text, newline="\n"), 1):
        # In a text of another script, a word may as well be one of that script.
        if line.isascii() or _ELSEWHERE.search(line):
            continue
        for found in _MIXED.finditer(line):
            other = next(c for c in found[0] if c in _ALIKE)
            name = f"U+{ord(other):04X} {unicodedata.name(other)}"
            hint = "write the word with the letters of one script"
            reason = f"has {shorten(found[0])}, which is spelt with {name}"
            yield RuleFinding("mixed-letters", reason, hint, number)


@lru_cache(1024)
def _group(character: str) -> str:
    """Return one name for all characters that spell a hidden text together."""
    code = ord(character)
    if code in TAGS:
        return "tags"
    if any(code in part for part in PRIVATE):
        return "private use"
    return "selectors" if any(code in part for part in SELECTORS) else character


def _name_character(character: str) -> str:
    if ord(character) in TAGS:
        return "U+E0000 to U+E007F, tags that spell a text"
    is_private = unicodedata.category(character) == "Co"
    name = "of private use" if is_private else unicodedata.name(character, "")
    return f"U+{ord(character):04X} {name}".rstrip()
