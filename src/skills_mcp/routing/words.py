"""From any text to the terms that the ranked algorithm compares.

It begins with the words of the keyword algorithm (001 §5.1) and takes them further
apart, because here a word is compared as a whole and never with a part of another.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from skills_mcp.routing.stop_words import STOP_WORDS
from skills_mcp.routing.tokens import tokenize

# What can stand inside of a word is left to the tokenizer: l'API, C++, .NET, e-mail.
_PIECE = re.compile(r"""[^\s!"$%&()*,/:;<=>?@\[\\\]^`{|}~]+""")

# Between the small and the capital letter, and before the last capital of a row that
# begins a word: use|Effect, HTTP|Server, but neither HTTP nor APIs.
_CAMEL_CASE = re.compile(r"(?<=[^\W_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")

# Chinese characters, kana and Hangul, whose words often stand without a space between.
_UNSPACED = "\u3005\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3\U00020000-\U0003ffff"
_PART = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}_-]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")

# Accents that may be left out. The marks of other scripts are letters of their own.
_ACCENTS = re.compile("[\u0300-\u036f]")

_SHORTEST_STEM = 3
_KEPT_DOUBLE = "lsz"  # call, pass and buzz are written so, drop and run are not
_BEFORE_LY = tuple("cdeghklmnrt")  # quick|ly, but neither apply nor family
_VOWELS = frozenset("aeiouy")


class Word(NamedTuple):
    """A word of a text."""

    term: str
    """What is compared: without accents and endings."""
    typed: str
    """What a person recognises: folded, and otherwise as it stands in the text."""


def split_text(text: str) -> list[str]:
    """Return the pieces of a text in its order, each as often as it occurs.

    A piece is a word, or a few with marks between them. Texts share most of theirs:
    what `derive_words` makes of a piece is worth remembering.
    """
    return _PIECE.findall(text)


def derive_words(piece: str) -> tuple[Word, ...]:
    """Return the words of a piece, each once.

    >>> [word.term for word in derive_words("useEffects")]
    ['useeffect', 'use', 'effect']
    >>> [word.typed for word in derive_words("Server-Side")]
    ['server', 'side']
    >>> [word.term for word in derive_words("認証画面")]
    ['認証', '証画', '画面']
    """
    apart = _CAMEL_CASE.sub(" ", piece)
    tokens = tokenize(piece if apart == piece else f"{piece} {apart}")
    parts = dict.fromkeys(part for token in tokens for part in _take_apart(token))
    return tuple(Word(stem(part), part) for part in parts if part not in STOP_WORDS)


def stem(word: str) -> str:
    """Return a folded word without accents and the commonest English endings.

    Not a word of a dictionary, only the same for most forms of one.

    >>> [stem(word) for word in ("query", "queries", "validated", "validation")]
    ['queri', 'queri', 'validat', 'validat']
    >>> [stem(word) for word in ("créer", "class", "classes", "string", "strings")]
    ['creer', 'class', 'class', 'string', 'string']
    """
    plain = _drop_accents(word)
    if len(plain) <= _SHORTEST_STEM:
        return plain
    is_plural = plain.endswith("s") and not plain.endswith("ss")
    return _drop_last_vowel(_drop_ending(plain[:-1] if is_plural else plain))


def _take_apart(token: str) -> Iterator[str]:
    """Iterate over what a token consists of; unspaced scripts two by two."""
    for part in _PART.findall(token):
        if len(part) > 1 and _IS_UNSPACED.match(part):
            yield from map("".join, pairwise(part))
        else:
            yield part


def _drop_accents(word: str) -> str:
    if word.isascii():
        return word
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", word))
    return unicodedata.normalize("NFC", bare) or word


def _drop_ending(word: str) -> str:
    if rest := _before(word, "ing") or _before(word, "ed"):
        is_double = rest[-1] == rest[-2] and rest[-1] not in _KEPT_DOUBLE
        return rest[:-1] if is_double else rest
    if rest := _before(word, "ation"):
        return f"{rest}ate"
    rest = _before(word, "ly")
    return rest if rest.endswith(_BEFORE_LY) else word


def _before(word: str, ending: str) -> str:
    """Return what stands before an ending if it can be a word: `test`, not `str`."""
    if not word.endswith(ending):
        return ""
    rest = word.removesuffix(ending)
    is_word = len(rest) >= _SHORTEST_STEM and not _VOWELS.isdisjoint(rest)
    return rest if is_word else ""


def _drop_last_vowel(word: str) -> str:
    if len(word) <= _SHORTEST_STEM:
        return word
    if word.endswith("e"):
        return word[:-1]
    return f"{word[:-1]}i" if word.endswith("y") else word  # as in queries
