"""Unsafe text for agents: hidden characters, control characters, secrets."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from io import StringIO
from itertools import islice

from skills_mcp.features.authoring.validation.rules import RuleFinding
from skills_mcp.skills.inheritance import find_header_lookalikes
from skills_mcp.text.hidden_text import (
    PRIVATE,
    SELECTORS,
    TAGS,
    find_hidden_characters,
)
from skills_mcp.text.rendering import abbreviate_value
from skills_mcp.text.secret_detection import FoundSecret, find_secrets

ALLOW_SECRET = "skills-mcp:allow-secret"  # noqa: S105 - marks a line as reviewed
"""Suppression comment for a false positive, on the line of the finding."""

MAX_TEXT_FINDINGS = 20
"""Per rule and text: more are not fixed one by one."""

# A tab, a line end and a form feed, as old licences have it, do no harm.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u2028\u2029]|\r(?!\n)")

_CONTROL_NAMES = {
    "\x00": "NUL",
    "\x07": "BELL",
    "\x08": "BACKSPACE",
    "\r": "CARRIAGE RETURN alone",
    "\x1b": "ESCAPE",
    "\x7f": "DELETE",
}

_LOOKALIKES = "асеорухіѕјһԁԛԝАВЕКМНОРСТХІЅЈοΟ"  # noqa: RUF001 - they look like Latin
_MIXED = re.compile(
    rf"(?<!\w)(?:[A-Za-z]+[{_LOOKALIKES}]|[{_LOOKALIKES}]+[A-Za-z])[A-Za-z{_LOOKALIKES}]*(?!\w)"
)
_OTHER_SCRIPT = re.compile(rf"(?![{_LOOKALIKES}])[\u0370-\u03ff\u0400-\u052f]")


def check_text(text: str) -> Iterator[RuleFinding]:
    yield from islice(report_hidden_characters(text), MAX_TEXT_FINDINGS)
    yield from islice(find_mixed_words(text), MAX_TEXT_FINDINGS)
    yield from report_control_characters(text)
    yield from islice(_find_secrets(text), MAX_TEXT_FINDINGS)


def check_body(body: str, first_line: int) -> Iterator[RuleFinding]:
    """Check for lines similar to the headers of a composed text."""
    for number, _ in islice(find_header_lookalikes(body), MAX_TEXT_FINDINGS):
        reason = "has a line that looks like the header of another skill's rules"
        hint = "write it without ===: it is served with a backslash in front"
        yield RuleFinding("section-header", reason, hint, first_line + number - 1)


def report_control_characters(text: str) -> Iterator[RuleFinding]:
    """Find terminal control characters and hidden line ends."""
    offsets: dict[str, list[int]] = defaultdict(list)
    for found in _CONTROLS.finditer(text):
        offsets[found[0]].append(found.start())
    for character, positions in islice(offsets.items(), MAX_TEXT_FINDINGS):
        count = len(positions)
        noun = "a control character" if count == 1 else f"{count} control characters"
        name = _CONTROL_NAMES.get(character) or unicodedata.name(character, "")
        reason = f"has {noun}: U+{ord(character):04X} {name}".rstrip()
        line = 1 + text.count("\n", 0, positions[0])
        hint = "take it out, or write it as an escape such as \\x1b"
        yield RuleFinding("control-characters", reason, hint, line)


def without_control_characters(text: str) -> str:
    r"""Strip control characters; a carriage return ends a line.

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
                f"{ALLOW_SECRET} on its line"
            )
            yield RuleFinding("secret", reason, hint, line)


def _find_allowed(text: str) -> frozenset[int]:
    if ALLOW_SECRET not in text:
        return frozenset()
    lines = enumerate(StringIO(text, newline="\n"), 1)
    return frozenset(number for number, line in lines if ALLOW_SECRET in line)


def _describe_secret(found: FoundSecret) -> str:
    return f"{found.kind} {found.beginning}…" if found.beginning else found.kind


def report_hidden_characters(text: str) -> Iterator[RuleFinding]:
    """Find hidden characters, with the line of the first one."""
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    for offset in find_hidden_characters(text):
        group = _group_character(text[offset])
        counts[group] += 1
        first.setdefault(group, offset)
    for group, offset in first.items():
        count = counts[group]
        name = _name_character(text[offset])
        noun = "a hidden character" if count == 1 else f"{count} hidden characters"
        line = 1 + text.count("\n", 0, offset)
        hint = "take it out, or write it as an escape such as \\u200b"
        yield RuleFinding("hidden-character", f"has {noun}: {name}", hint, line)


def find_mixed_words(text: str) -> Iterator[RuleFinding]:
    """Find Latin words with look-alike letters of other scripts."""
    if text.isascii():
        return
    for number, line in enumerate(StringIO(text, newline="\n"), 1):
        # In a text of another script, a word may as well be one of that script.
        if line.isascii() or _OTHER_SCRIPT.search(line):
            continue
        for found in _MIXED.finditer(line):
            other = next(c for c in found[0] if c in _LOOKALIKES)
            name = f"U+{ord(other):04X} {unicodedata.name(other)}"
            hint = "write the word with the letters of one script"
            reason = f"has {abbreviate_value(found[0])}, which is spelt with {name}"
            yield RuleFinding("mixed-letters", reason, hint, number)


@lru_cache(1024)
def _group_character(character: str) -> str:
    """One key for all characters of a hidden text."""
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
