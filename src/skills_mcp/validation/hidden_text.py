"""Characters that nobody sees, but a model reads: a way to smuggle instructions in."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator

from skills_mcp.validation.rules import Finding

_SUSPECTS = re.compile(
    "["
    "\u061c\u200e\u200f"  # marks of direction
    "\u202a-\u202e\u2066-\u2069"  # and what turns whole texts around
    "\u200b-\u200d\u2060-\u2064\ufeff\u180e\u3164\uffa0"  # without any width
    "\ufe00-\ufe0f\U000e0100-\U000e01ef"  # variants of the character before
    "\U000e0000-\U000e007f"  # tags, which spell text
    "]"
)
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
_FIRST_EMOJI = 0x1F000
_SUPPLEMENT = 0xE0100
_TAGS = range(0xE0000, 0xE0080)


def find_hidden(text: str) -> Iterator[Finding]:
    """Iterate over hidden characters, each with the line of the first one."""
    places: dict[str, list[int]] = defaultdict(list)
    for found in _SUSPECTS.finditer(text):
        if not _belongs(text, found.start()):
            places[_group(found[0])].append(found.start())
    for character, positions in places.items():
        count = len(positions)
        name = _describe(character)
        noun = "a hidden character" if count == 1 else f"{count} hidden characters"
        line = 1 + text.count("\n", 0, positions[0])
        hint = "take it out, or write it as an escape such as \\u200b"
        yield Finding("hidden-character", f"has {noun}: {name}", hint, line)


def _group(character: str) -> str:
    """Return one character for all that spell a hidden text together."""
    return chr(_TAGS.start) if ord(character) in _TAGS else character


def _describe(character: str) -> str:
    if character == chr(_TAGS.start):
        return "U+E0000 to U+E007F, tags that spell a text"
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()


def _belongs(text: str, place: int) -> bool:
    """Whether the character is a part of an emoji, or of how a language is written."""
    character = text[place]
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    if character in _JOINERS:
        is_emoji = _is_emoji(before) and _is_emoji(after)
        return is_emoji or _is_script(before, _JOINING)
    if character in _DIRECTIONS:
        return _is_right_to_left(text, place)
    if character == _SPACE:
        return _is_script(before, _UNSPACED) or _is_script(after, _UNSPACED)
    if ord(character) in _TAGS:
        return _is_in_flag(text, place)
    if unicodedata.name(character, "").startswith("VARIATION SELECTOR"):
        return _is_variant(character, before)
    return False


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
    if ord(selector) >= _SUPPLEMENT:
        return _is_script(before, ("CJK",))
    is_letter = before.isascii() and before.isalpha()
    return not is_letter and before.strip() != "" and not _SUSPECTS.match(before)


def _is_in_flag(text: str, place: int) -> bool:
    while place and ord(text[place]) in _TAGS:
        place -= 1
    return text[place] == _FLAG


def _is_right_to_left(text: str, place: int) -> bool:
    """Whether the line has letters that are written from right to left."""
    begin = text.rfind("\n", 0, place) + 1
    end = text.find("\n", place)
    line = text[begin : end if end >= 0 else len(text)]
    return any(
        unicodedata.bidirectional(c) in {"R", "AL"} and c.isalpha() for c in line
    )
