"""Unicode: invisible characters and normalisation.

Rule: possibly long texts are normalised here.  Python sorts combining marks by
insertion, taking an hour for a million.

A model reads invisible characters, a reviewer does not see them: they are removed from
served text unless a language or an emoji needs them.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from io import StringIO
from typing import Literal

BLANK_CHARACTERS = "\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U0001d159"
"""Invisible letters and signs, despite their category."""

HIDING_CHARACTERS = "\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f"
"""Character class of overrides and tags, hiding or reordering text."""

# Longer than all marks on a letter, and short enough to be sorted at once.
_MAX_MARKS = 500

# No character combines with an ASCII character after it.
_PIECE = re.compile(rf".{{1,{_MAX_MARKS}}}(?=[\x00-\x7f]|\Z)|.{{1,{_MAX_MARKS}}}", re.DOTALL)


def normalize_unicode(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    r"""Normalise a text; more than 500 consecutive marks may keep their order.

    >>> normalize_unicode("NFC", "e\u0301") == "\xe9"
    True
    """
    if text.isascii():
        return text
    if len(text) <= _MAX_MARKS:
        return unicodedata.normalize(form, text)
    pieces = _PIECE.findall(text)
    return "".join(unicodedata.normalize(form, piece) for piece in pieces)


def lower_in_place(text: str) -> str:
    """Lower the case and keep all offsets: one capital has a small letter of two characters."""
    return text.replace("\u0130", "i").lower()


_SUSPECTS = re.compile(
    "["
    "\u061c\u200e\u200f"  # marks of direction
    "\u202a-\u202e\u2066-\u2069"  # and of overridden direction
    "\u206a-\u206f"  # deprecated by Unicode
    "\u00ad\u034f\u200b-\u200d\u2060-\u2065\ufeff\u180e"  # without any width
    f"{BLANK_CHARACTERS}"
    "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"  # variation selectors
    "\ufff0-\ufffb"  # interlinear annotations, and reserved code points beside them
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # controls of shorthand and music
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"  # tags, which spell text
    "\ue000-\uf8ff\U000f0000-\U0010ffff"  # private use: each font shows another one
    "\ufdd0-\ufdef\ufffe\uffff"  # noncharacters
    "]"
)

_ASCII = bytes(range(128))
_PART = 65_536  # characters
_JOINERS = "\u200c\u200d"
_DIRECTIONS = "\u061c\u200e\u200f"
_SPACE = "\u200b"
_JOINING = (
    *("ARABIC", "BENGALI", "DEVANAGARI", "GUJARATI", "GURMUKHI", "KANNADA", "KHMER"),
    *("MALAYALAM", "MONGOLIAN", "MYANMAR", "ORIYA", "SINHALA", "SYRIAC", "TAMIL"),
    *("TELUGU", "TIBETAN"),
)

_UNSPACED = ("KHMER", "LAO", "MYANMAR", "THAI", "TIBETAN")
_FLAG = "\U0001f3f4"  # the flags of England, Scotland and Wales are spelt in tags
_LONGEST_FLAG = 8  # the flag, a country, a region and the end
_FIRST_EMOJI = 0x1F000
_SUPPLEMENTARY_SELECTORS = 0xE0100
TAGS = range(0xE0000, 0xE0080)
_TAG_LETTERS = "".join(map(chr, TAGS))
_RIGHT_TO_LEFT = re.compile(
    "[\u05d0-\u05f2\u0620-\u064a\u066e-\u06d3\u06ee-\u08c7\ufb1d-\ufdfb\ufe70-\ufefc"
    "\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_DIRECTION_RANGE = 200
"""Characters around a direction mark within its effect."""

_BLANK_BRAILLE = "\u2800"
_MONGOLIAN = "\u180b\u180c\u180d\u180f"
PRIVATE = (range(0xE000, 0xF900), range(0xF0000, 0x110000))
SELECTORS = (range(0xFE00, 0xFE10), range(_SUPPLEMENTARY_SELECTORS, 0xE01F0))
_EMOJI_SELECTORS = "\ufe0e\ufe0f"
_KEYCAPS = "0123456789#*"
_VARIED = ("CJK", "DIGIT ZERO", "MANICHAEAN", "MYANMAR", "PHAGS-PA")
"""Scripts with variants, in addition to emoji and mathematical signs."""


def find_hidden_characters(text: str) -> Iterator[int]:
    r"""Positions of hidden characters.

    >>> list(find_hidden_characters("fo\u200brms"))
    [2]
    """
    if not _has_suspects(text):
        return  # as nearly every text, and all of them are looked at
    for found in _SUSPECTS.finditer(text):
        if not _is_legitimate(text, found.start()):
            yield found.start()


def _has_suspects(text: str) -> bool:
    """Fast check: in parts (UTF-8 may be larger), without ASCII (ten times faster)."""
    parts = (text[begin : begin + _PART] for begin in range(0, len(text), _PART))
    return not text.isascii() and any(map(_has_suspect, parts))


def _has_suspect(text: str) -> bool:
    raw = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    return _SUSPECTS.search(raw.decode("utf-8", "surrogatepass")) is not None


def strip_hidden(text: str) -> str:
    r"""Remove hidden characters, except private use: fonts have icons there.

    >>> strip_hidden("fo\u200brms")
    'forms'
    """
    visible, begin = StringIO(), 0  # no list, which takes ten times the text
    for position in find_hidden_characters(text):
        if not _is_private(text[position]):
            visible.write(text[begin:position])
            begin = position + 1
    return visible.getvalue() + text[begin:] if begin else text


def _is_legitimate(text: str, position: int) -> bool:
    character = text[position]
    if character in _DIRECTIONS:
        return _is_right_to_left(text, position)
    if ord(character) in TAGS:
        return _is_in_flag(text, position)
    return _affects_neighbours(
        character, text[position - 1 : position], text[position + 1 : position + 2]
    )


@lru_cache(1024)  # a text that is full of suspects has few kinds of them
def _affects_neighbours(character: str, before: str, after: str) -> bool:
    if character in _JOINERS:
        is_emoji = _is_emoji(before) and _is_emoji(after)
        return is_emoji or _is_script(before, _JOINING)
    if character == _SPACE:
        return _is_script(before, _UNSPACED) or _is_script(after, _UNSPACED)
    if character == _BLANK_BRAILLE:
        return _is_script(before, ("BRAILLE",)) or _is_script(after, ("BRAILLE",))
    if character in _MONGOLIAN:
        return _is_script(before, ("MONGOLIAN",))
    is_selector = any(ord(character) in part for part in SELECTORS)
    return is_selector and _is_variant(character, before)


def _is_emoji(character: str) -> bool:
    if not character:
        return False
    is_selector = character == "\ufe0f"
    is_symbol = unicodedata.category(character) == "So"
    return is_selector or is_symbol or ord(character) >= _FIRST_EMOJI


def _is_script(character: str, scripts: tuple[str, ...]) -> bool:
    return bool(character) and unicodedata.name(character, "").startswith(scripts)


def _is_variant(selector: str, before: str) -> bool:
    if not before or _SUSPECTS.match(before):
        return False
    if ord(selector) >= _SUPPLEMENTARY_SELECTORS:
        return _is_script(before, ("CJK",))
    if selector in _EMOJI_SELECTORS:
        is_sign = not before.isascii() and not before.isspace()
        return is_sign or before in _KEYCAPS
    is_sign = unicodedata.category(before) in {"Sm", "So"}
    return is_sign or _is_script(before, _VARIED)


def _is_in_flag(text: str, position: int) -> bool:
    before = text[max(0, position - _LONGEST_FLAG) : position]
    return before.rstrip(_TAG_LETTERS).endswith(_FLAG)


def _is_right_to_left(text: str, position: int) -> bool:
    begin = (
        text.rfind("\n", max(0, position - _DIRECTION_RANGE), position) + 1
        or position - _DIRECTION_RANGE
    )
    end = text.find("\n", position, position + _DIRECTION_RANGE)
    stop = end if end >= 0 else position + _DIRECTION_RANGE
    return _RIGHT_TO_LEFT.search(text, max(0, begin), stop) is not None


@lru_cache(1024)
def _is_private(character: str) -> bool:
    return any(ord(character) in part for part in PRIVATE)
