"""How texts look: what shows nothing, and one form for what looks the same.

Rule: a text that may be long is normalised here.  Python sorts the marks on a letter
by insertion, and of a million of them that takes an hour.
"""

import re
import unicodedata
from typing import Literal

BLANK = "\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U0001d159"
"""Letters and signs without a shape, of which the kind of character says nothing."""

HIDING = "\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f"
"""What hides or reorders text: overrides and tags, for a class in a pattern."""

# Longer than all marks on a letter, and short enough to be sorted at once.
_LONGEST = 500

# Nothing joins what stands before ASCII with what begins with it.
_PIECE = re.compile(
    rf".{{1,{_LONGEST}}}(?=[\x00-\x7f]|\Z)|.{{1,{_LONGEST}}}", re.DOTALL
)


def normalize(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    r"""Return the normal form of a text; a row of 500 marks may stay in its order.

    >>> normalize("NFC", "e\u0301") == "\xe9"
    True
    """
    if text.isascii():
        return text
    if len(text) <= _LONGEST:
        return unicodedata.normalize(form, text)
    pieces = _PIECE.findall(text)
    return "".join(unicodedata.normalize(form, piece) for piece in pieces)
