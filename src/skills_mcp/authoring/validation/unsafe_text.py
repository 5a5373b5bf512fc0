"""Text that is unsafe to give to agents: hidden or control characters, and secrets."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from io import StringIO
from itertools import islice

from skills_mcp.authoring.validation.rules import RuleFinding
from skills_mcp.skills.inheritance import find_lookalikes
from skills_mcp.skills.model import Skill
from skills_mcp.text.rendering import shorten
from skills_mcp.text.secret_detection import FoundSecret, find_secrets
from skills_mcp.text.unicode import BLANK

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

_SUSPECTS = re.compile(
    "["
    "\u061c\u200e\u200f"  # marks of direction
    "\u202a-\u202e\u2066-\u2069"  # and of overridden direction
    "\u206a-\u206f"  # deprecated by Unicode
    "\u00ad\u034f\u200b-\u200d\u2060-\u2065\ufeff\u180e"  # without any width
    f"{BLANK}"
    "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"  # variation selectors
    "\ufff0-\ufffb"  # interlinear annotations, and reserved code points beside them
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # controls of shorthand and music
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"  # tags, which spell text
    "\ue000-\uf8ff\U000f0000-\U0010ffff"  # private use: each font shows another one
    "\ufdd0-\ufdef\ufffe\uffff"  # noncharacters
    "]"
)
_ALIKE = "асеорухіѕјһԁԛԝАВЕКМНОРСТХІЅЈοΟ"  # noqa: RUF001 - they look like Latin
_MIXED = re.compile(
    rf"(?<!\w)(?:[A-Za-z]+[{_ALIKE}]|[{_ALIKE}]+[A-Za-z])[A-Za-z{_ALIKE}]*(?!\w)"
)
_ELSEWHERE = re.compile(rf"(?![{_ALIKE}])[\u0370-\u03ff\u0400-\u052f]")
_JOINERS = "\u200c\u200d"
_DIRECTIONS = "\u061c\u200e\u200f"
_SPACE = "\u200b"
_JOINING = (
    *("ARABIC", "BENGALI", "DEVANAGARI", "GUJARATI", "GURMUKHI", "KANNADA", "KHMER"),
    *("MALAYALAM", "MONGOLIAN", "MYANMAR", "ORIYA", "SINHALA", "SYRIAC", "TAMIL"),
    *("TELUGU", "TIBETAN"),
)
"""Scripts whose spelling needs joiners."""

_UNSPACED = ("KHMER", "LAO", "MYANMAR", "THAI", "TIBETAN")
_FLAG = "\U0001f3f4"  # the flags of England, Scotland and Wales are spelt in tags
_LONGEST_FLAG = 8  # the flag, a country, a region and the end
_FIRST_EMOJI = 0x1F000
_SUPPLEMENT = 0xE0100
_TAGS = range(0xE0000, 0xE0080)
_TAG_LETTERS = "".join(map(chr, _TAGS))
_RIGHT_TO_LEFT = re.compile(
    "[\u05d0-\u05f2\u0620-\u064a\u066e-\u06d3\u06ee-\u08c7\ufb1d-\ufdfb\ufe70-\ufefc"
    "\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_NEAR = 200
"""Characters around a mark of direction in which it can have an effect."""

_BLANK_BRAILLE = "\u2800"
_MONGOLIAN = "\u180b\u180c\u180d\u180f"
_PRIVATE = (range(0xE000, 0xF900), range(0xF0000, 0x110000))
_SELECTORS = (range(0xFE00, 0xFE10), range(_SUPPLEMENT, 0xE01F0))
_EMOJI_SELECTORS = "\ufe0e\ufe0f"
_KEYCAPS = "0123456789#*"
_VARIED = ("CJK", "DIGIT ZERO", "MANICHAEAN", "MYANMAR", "PHAGS-PA")
"""Scripts whose characters have variants, beside emoji and signs of mathematics."""


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


def check_fields(skill: Skill, text: str, line: int) -> Iterator[RuleFinding]:
    """Look for hidden characters that the frontmatter spells as escapes of YAML.

    Args:
        skill: Its fields are the unescaped values.
        text: The whole file, whose own hidden characters are not reported again.
        line: The line to report.
    """
    reported = {finding.reason for finding in find_hidden(text)}
    values = (skill.name, skill.description, *skill.keywords, *skill.examples)
    for finding in find_hidden("\n".join(values)):
        if finding.reason not in reported:
            hint = "take the escape out of the frontmatter"
            yield finding._replace(hint=hint, line=line)


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
    places: dict[str, list[int]] = defaultdict(list)
    for found in _SUSPECTS.finditer(text):
        if not _belongs(text, found.start()):
            places[_group(found[0])].append(found.start())
    for positions in places.values():
        count = len(positions)
        name = _name_character(text[positions[0]])
        noun = "a hidden character" if count == 1 else f"{count} hidden characters"
        line = 1 + text.count("\n", 0, positions[0])
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


def _group(character: str) -> str:
    """Return one name for all characters that spell a hidden text together."""
    code = ord(character)
    if code in _TAGS:
        return "tags"
    if any(code in part for part in _PRIVATE):
        return "private use"
    return "selectors" if any(code in part for part in _SELECTORS) else character


def _name_character(character: str) -> str:
    if ord(character) in _TAGS:
        return "U+E0000 to U+E007F, tags that spell a text"
    is_private = unicodedata.category(character) == "Co"
    name = "of private use" if is_private else unicodedata.name(character, "")
    return f"U+{ord(character):04X} {name}".rstrip()


def _belongs(text: str, place: int) -> bool:
    """Whether the character is a part of an emoji, or of how a language is written."""
    character = text[place]
    if character in _DIRECTIONS:
        return _is_right_to_left(text, place)
    if ord(character) in _TAGS:
        return _is_in_flag(text, place)
    return _fits(character, text[place - 1 : place], text[place + 1 : place + 2])


def _fits(character: str, before: str, after: str) -> bool:
    """Whether a character does something for its neighbours; they may be empty."""
    if character in _JOINERS:
        is_emoji = _is_emoji(before) and _is_emoji(after)
        return is_emoji or _is_script(before, _JOINING)
    if character == _SPACE:
        return _is_script(before, _UNSPACED) or _is_script(after, _UNSPACED)
    if character == _BLANK_BRAILLE:
        return _is_script(before, ("BRAILLE",)) or _is_script(after, ("BRAILLE",))
    if character in _MONGOLIAN:
        return _is_script(before, ("MONGOLIAN",))
    return _group(character) == "selectors" and _is_variant(character, before)


def _is_emoji(character: str) -> bool:
    if not character:
        return False
    is_selector = character == "\ufe0f"
    is_symbol = unicodedata.category(character) == "So"
    return is_selector or is_symbol or ord(character) >= _FIRST_EMOJI


def _is_script(character: str, scripts: tuple[str, ...]) -> bool:
    return bool(character) and unicodedata.name(character, "").startswith(scripts)


def _is_variant(selector: str, before: str) -> bool:
    """Whether the character before comes in variants: emoji, digits, ideographs."""
    if not before or _SUSPECTS.match(before):
        return False
    if ord(selector) >= _SUPPLEMENT:
        return _is_script(before, ("CJK",))
    if selector in _EMOJI_SELECTORS:
        is_sign = not before.isascii() and not before.isspace()
        return is_sign or before in _KEYCAPS
    is_sign = unicodedata.category(before) in {"Sm", "So"}
    return is_sign or _is_script(before, _VARIED)


def _is_in_flag(text: str, place: int) -> bool:
    before = text[max(0, place - _LONGEST_FLAG) : place]
    return before.rstrip(_TAG_LETTERS).endswith(_FLAG)


def _is_right_to_left(text: str, place: int) -> bool:
    """Whether the line has letters nearby that are written from right to left."""
    begin = text.rfind("\n", max(0, place - _NEAR), place) + 1 or place - _NEAR
    end = text.find("\n", place, place + _NEAR)
    stop = end if end >= 0 else place + _NEAR
    return _RIGHT_TO_LEFT.search(text, max(0, begin), stop) is not None
