"""Unicode: characters that hide text, and one normal form for equal texts.

Rule: a text that may be long is normalised here.  Python sorts the marks on a letter
by insertion, which takes an hour for a million of them.
"""

import re
import unicodedata
from typing import Literal

BLANK = "\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U0001d159"
"""Letters and signs that are invisible, although their category does not say so."""

HIDING = "\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f"
"""Characters that hide or reorder text (overrides, tags), for a class in a pattern."""

# Longer than all marks on a letter, and short enough to be sorted at once.
_LONGEST = 500

# No character combines with an ASCII character after it.
_PIECE = re.compile(
    rf".{{1,{_LONGEST}}}(?=[\x00-\x7f]|\Z)|.{{1,{_LONGEST}}}", re.DOTALL
)


def normalize(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    r"""Return the normal form of a text; over 500 marks in a row may keep their order.

    >>> normalize("NFC", "e\u0301") == "\xe9"
    True
    """
    if text.isascii():
        return text
    if len(text) <= _LONGEST:
        return unicodedata.normalize(form, text)
    pieces = _PIECE.findall(text)
    return "".join(unicodedata.normalize(form, piece) for piece in pieces)
