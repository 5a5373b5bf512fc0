"""From a task in free text to the words that can find a skill."""

import re
import unicodedata
from functools import lru_cache

from skills_mcp.routing.stop_words import STOP_WORDS
from skills_mcp.text.unicode import normalize

# "don't", "l'auth" and "qu'une" would leave one-letter tokens behind.
_APOSTROPHES = str.maketrans({"\N{RIGHT SINGLE QUOTATION MARK}": "'"})
_NEGATION = re.compile(r"\b\w+n't\b")  # \b: a long word is tried once, not n times
_CONTRACTION = re.compile(r"(?<=\w)'(?:s|re|ve|ll|d|m)\b")
_ELISION = re.compile(r"\b(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu)'(?=\w)")

# The sign is the name: without it these would be one letter, or another word.
_SIGNED = re.compile(r"(?<![\w+#.])(?:[a-z](?:\+\+|#)|\.net)(?![\w+#])")

# Hyphens stay (001 §5.1); the underscore stays because identifiers have it.
_KEPT_MARKS = frozenset("-_")
_KEPT_CATEGORIES = frozenset("LMN")  # letters, the marks they carry, numbers


def tokenize(text: str) -> tuple[str, ...]:
    """Return the words of `text` that carry meaning, each once.

    Letters of every script are kept, and the signs of `C++`, `C#` and
    `.NET`.

    >>> tokenize("Create a React component for the authentication")
    ('create', 'react', 'component', 'authentication')
    >>> tokenize("Créer l'authentification de l'API")
    ('créer', 'authentification', 'api')
    >>> tokenize("Call C++ from .NET")
    ('c++', '.net', 'call')
    """
    folded = fold(text).translate(_APOSTROPHES)
    for pattern, replacement in ((_NEGATION, " "), (_CONTRACTION, ""), (_ELISION, "")):
        folded = pattern.sub(replacement, folded)
    plain = "".join(map(_letter_or_space, _SIGNED.sub(" ", folded)))
    words = [*_SIGNED.findall(folded), *plain.split()]
    distinct = dict.fromkeys(word.strip("-") for word in words)
    return tuple(word for word in distinct if word and word not in STOP_WORDS)


def fold(text: str) -> str:
    """Return the form in which words are compared: NFKC, case-folded."""
    return normalize("NFKC", normalize("NFKC", text).casefold())


@lru_cache(maxsize=4096)
def _letter_or_space(character: str) -> str:
    category = unicodedata.category(character)
    kept = character in _KEPT_MARKS or category[0] in _KEPT_CATEGORIES
    return character if kept else " "
