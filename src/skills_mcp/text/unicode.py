"""Unicode: invisible characters and normalisation.

Rule: possibly long texts are normalised here.  Python sorts combining marks by
insertion, taking an hour for a million.

A model reads invisible characters, a reviewer does not see them: they are removed from
served text unless a language or an emoji needs them.
"""

import re
import unicodedata
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
