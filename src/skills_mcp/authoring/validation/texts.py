"""What nobody should find in a text that agents read, whatever file it is in."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from io import StringIO
from itertools import islice

from skills_mcp.authoring.validation.hidden_text import find_hidden, find_mixed_words
from skills_mcp.authoring.validation.rules import Finding
from skills_mcp.skills.model import Skill
from skills_mcp.skills.section_headers import find_lookalikes
from skills_mcp.text.redaction.finding import FoundSecret, find_secrets

ALLOWED = "skills-mcp:allow-secret"
"""On the line of a finding it says that somebody has looked at it."""

MAX_FINDINGS = 20
"""Of one rule in one text: whoever has more of them does not repair them one by one."""

# A tab, an end of a line and a form feed, as old licences have it, steer nothing.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u2028\u2029]|\r(?!\n)")

_NAMES = {
    "\x00": "NUL",
    "\x07": "BELL",
    "\x08": "BACKSPACE",
    "\r": "CARRIAGE RETURN alone",
    "\x1b": "ESCAPE",
    "\x7f": "DELETE",
}


def check_text(text: str) -> Iterator[Finding]:
    """Look for what is hidden, steers a terminal, or is a secret."""
    yield from islice(find_hidden(text), MAX_FINDINGS)
    yield from islice(find_mixed_words(text), MAX_FINDINGS)
    yield from find_controls(text)
    yield from islice(_find_secrets(text), MAX_FINDINGS)


def check_body(body: str, first_line: int) -> Iterator[Finding]:
    """Look for lines that look like the headers of a composed text (001 §6.2)."""
    for number, _ in islice(find_lookalikes(body), MAX_FINDINGS):
        reason = "has a line that looks like the header of another skill's rules"
        hint = "write it without ===: it is served with a backslash in front"
        yield Finding("section-header", reason, hint, first_line + number - 1)


def check_fields(skill: Skill, text: str, line: int) -> Iterator[Finding]:
    """Look for hidden characters that the frontmatter spells as escapes of YAML.

    Args:
        skill: What became of the frontmatter.
        text: The whole file, which has been looked at.
        line: Where the frontmatter says it.
    """
    said = {finding.reason for finding in find_hidden(text)}
    values = (skill.name, skill.description, *skill.keywords, *skill.examples)
    for finding in find_hidden("\n".join(values)):
        if finding.reason not in said:
            hint = "take the escape out of the frontmatter"
            yield finding._replace(hint=hint, line=line)


def find_controls(text: str) -> Iterator[Finding]:
    """Iterate over characters that steer a terminal or end a line unseen."""
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
        yield Finding("control-characters", reason, hint, line)


def _find_secrets(text: str) -> Iterator[Finding]:
    allowed = _find_allowed(text)
    line, counted = 1, 0
    for found in find_secrets(text):
        line += text.count("\n", counted, found.start)
        counted = found.start
        if line not in allowed:
            reason = f"has what looks like a secret: {_describe(found)}"
            hint = (
                "revoke it and take it out, write <token> in an example, or put "
                f"{ALLOWED} on its line"
            )
            yield Finding("secret", reason, hint, line)


def _find_allowed(text: str) -> frozenset[int]:
    """Return the lines that somebody has looked at, from 1."""
    if ALLOWED not in text:
        return frozenset()
    lines = enumerate(StringIO(text, newline="\n"), 1)
    return frozenset(number for number, line in lines if ALLOWED in line)


def _describe(found: FoundSecret) -> str:
    """Say which one, without saying it."""
    return f"{found.kind} {found.beginning}…" if found.beginning else found.kind
