"""Text analysis of the ranked algorithm: raw tokens, words, stems.

It begins with the tokens of the keyword algorithm and splits them further, because here
a word is compared as a whole and never with a part of another.
"""

import re
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import Stemmer  # type: ignore[import-not-found]  # has no types

from skills_mcp.routing.tokenizer import SILENT_WORDS, tokenize
from skills_mcp.text.unicode import normalize_unicode

STEMMER_VERSION: str = Stemmer.version()
"""Part of an index's identity: another stemmer makes other stems."""

# What can stand inside of a word is left to the tokenizer: l'API, C++, .NET, e-mail.
_SEPARATOR_BYTES = b"""!"$%&()*,/:;<=>?@[\\]^`{|}~""" + bytes(range(33)) + b"\x7f"
_TO_SPACES = bytes.maketrans(_SEPARATOR_BYTES, b" " * len(_SEPARATOR_BYTES))

# Nearly all pieces are of these, and their words need no tokenizer to be found.
_PLAIN = re.compile(r"(?!.*\.net)[a-z0-9._-]+", re.ASCII | re.IGNORECASE)
_PLAIN_WORD = re.compile("[a-z0-9]+")

# And most of these are one word, which has nothing to be taken apart at.
_SINGLE_WORD = re.compile("[A-Za-z]?[a-z0-9]+")

# Between the small and the capital letter, and before the last capital of a row that
# begins a word: use|Effect, HTTP|Server, but neither HTTP nor APIs.
# The letter behind the place is looked at first, for few are capitals.
_CAMEL_CASE = re.compile(r"(?=[A-Z])(?:(?<=[^\W_A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2}))")

_LETTERS = re.compile(r"[^\W_]+")

# Chinese characters, kana and Hangul, whose words often stand without a space between.
_UNSPACED = "\u3005\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3\U00020000-\U0003ffff"
_PART = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}_-]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")

# Accents that may be left out. The marks of other scripts are letters of their own.
_ACCENTS = re.compile("[\u0300-\u036f]")

_MIN_INFLECTED = 4  # iOS is no plural, and CSS not many of anything
_MAX_TERM = 64  # what is longer is no word but data, and its beginning will do


class Word(NamedTuple):
    """A word of a text."""

    term: str
    """For comparison: without accents and endings."""
    typed: str
    """For display: folded, otherwise as in the text."""


def split_raw_tokens(text: str) -> list[bytes]:
    """Split a text into raw tokens, in order: words, or a few with marks between."""
    # Bytes are taken apart five times as fast as text, and no sign that separates is
    # a part of another in UTF-8. Lone surrogates are no text.
    return text.encode(errors="replace").translate(_TO_SPACES).split()


def analyze_token(piece: str) -> tuple[Word, ...]:
    """Split a raw token into distinct words.

    >>> [word.term for word in analyze_token("useEffects")]
    ['useeffect', 'effect']
    >>> [word.typed for word in analyze_token("Server-Side")]
    ['server', 'side']
    >>> [word.term for word in analyze_token("認証画面")]
    ['認証', '証画', '画面']
    """
    return tuple([Word(stem(part), part[:_MAX_TERM]) for part in split_raw_token(piece)])


def lower_known_words(piece: str, is_known: Callable[[str], bool]) -> str:
    """Lower-case known words in camel case: GitHub is neither `git` nor `hub`."""
    # The first of these is a tenth of the second, and holds for nearly all words.
    if piece[1:].islower() or not _CAMEL_CASE.search(piece):
        return piece
    return _LETTERS.sub(
        lambda found: found[0].lower() if is_known(found[0].lower()) else found[0],
        piece,
    )


def is_unsegmented(word: str) -> bool:
    return not word.isascii() and _IS_UNSPACED.match(word) is not None


def split_raw_token(piece: str) -> Collection[str]:
    """Split a raw token into distinct surface forms, without stop words.

    >>> [*split_raw_token("useEffects")]
    ['useeffects', 'effects']
    """
    if _SINGLE_WORD.fullmatch(piece):
        word = piece.lower()
        return () if word in SILENT_WORDS else (word,)
    apart = _CAMEL_CASE.sub(" ", piece)
    text = piece if apart == piece else f"{piece} {apart}"
    is_plain = _PLAIN.fullmatch(piece) is not None
    found = _PLAIN_WORD.findall(text.lower()) if is_plain else _tokenize_piece(text)
    return [part for part in dict.fromkeys(found) if part not in SILENT_WORDS]


def stem(word: str) -> str:
    """Stem a folded word, without accents (Snowball, English).

    Not a word of a dictionary, only the same for most forms of one.

    >>> [stem(word) for word in ("query", "queries", "validated", "validation")]
    ['queri', 'queri', 'valid', 'valid']
    >>> [stem(word) for word in ("créer", "class", "classes", "ios", "css")]
    ['creer', 'class', 'class', 'ios', 'css']
    """
    plain = word if word.isascii() else _drop_accents(word)
    plain = plain[:_MAX_TERM]
    if len(plain) < _MIN_INFLECTED:
        return plain
    return _stemmers.english.stemWord(plain) or plain


def stem_all(words: Sequence[str]) -> list[str]:
    """Stem many words in a third of the time.

    >>> stem_all(["queries", "créer", "css"])
    ['queri', 'creer', 'css']
    """
    plain = list(words)
    if not "".join(words).isascii() or max(map(len, words), default=0) > _MAX_TERM:
        plain = [_drop_accents(word)[:_MAX_TERM] for word in words]
    stems = _stemmers.english.stemWords(plain)
    return [
        (found or own) if len(own) >= _MIN_INFLECTED else own
        for own, found in zip(plain, stems, strict=True)
    ]


class _Stemmers(threading.local):
    """A stemmer per thread: it writes to memory of its own."""

    def __init__(self) -> None:
        self.english = Stemmer.Stemmer("english", 0)


_stemmers = _Stemmers()


def _tokenize_piece(text: str) -> Iterator[str]:
    """Tokenise; bigrams in scripts without spaces."""
    for token in tokenize(text):
        for part in _PART.findall(token):
            if len(part) > 1 and _IS_UNSPACED.match(part):
                yield from map("".join, pairwise(part))
            else:
                yield part


def _drop_accents(word: str) -> str:
    bare = _ACCENTS.sub("", normalize_unicode("NFD", word))
    return normalize_unicode("NFC", bare) or word
