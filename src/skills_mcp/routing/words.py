"""From any text to the terms that the ranked algorithm compares.

It begins with the words of the keyword algorithm and takes them further
apart, because here a word is compared as a whole and never with a part of another.
"""

import re
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import Stemmer  # type: ignore[import-not-found]  # has no types

from skills_mcp.routing.tokens import SILENT_WORDS, tokenize
from skills_mcp.text.unicode import normalize

STEMMER_VERSION: str = Stemmer.version()
"""An index belongs to one: another one makes other stems of the same words."""

# What can stand inside of a word is left to the tokenizer: l'API, C++, .NET, e-mail.
_BETWEEN = b"""!"$%&()*,/:;<=>?@[\\]^`{|}~""" + bytes(range(33)) + b"\x7f"
_TO_SPACES = bytes.maketrans(_BETWEEN, b" " * len(_BETWEEN))

# Nearly all pieces are of these, and their words need no tokenizer to be found.
_PLAIN = re.compile(r"(?!.*\.net)[a-z0-9._-]+", re.ASCII | re.IGNORECASE)
_PLAIN_WORD = re.compile("[a-z0-9]+")

# And most of these are one word, which has nothing to be taken apart at.
_ONE_WORD = re.compile("[A-Za-z]?[a-z0-9]+")

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

_SHORTEST_INFLECTED = 4  # iOS is no plural, and CSS not many of anything
_LONGEST_TERM = 64  # what is longer is no word but data, and its beginning will do


class Word(NamedTuple):
    """A word of a text."""

    term: str
    """What is compared: without accents and endings."""
    typed: str
    """What a person recognises: folded, and otherwise as it stands in the text."""


def split_text(text: str) -> list[bytes]:
    """Return the pieces of a text in its order, each as often as it occurs.

    A piece is a word, or a few with marks between them, in UTF-8. Texts share most of
    theirs: what `derive_words` makes of a piece is worth remembering.
    """
    # Bytes are taken apart five times as fast as text, and no sign that separates is
    # a part of another in UTF-8. Lone surrogates are no text.
    return text.encode(errors="replace").translate(_TO_SPACES).split()


def derive_words(piece: str) -> tuple[Word, ...]:
    """Return the words of a piece, each once.

    >>> [word.term for word in derive_words("useEffects")]
    ['useeffect', 'effect']
    >>> [word.typed for word in derive_words("Server-Side")]
    ['server', 'side']
    >>> [word.term for word in derive_words("認証画面")]
    ['認証', '証画', '画面']
    """
    return tuple(
        [Word(stem(part), part[:_LONGEST_TERM]) for part in derive_parts(piece)]
    )


def keep_known(piece: str, is_known: Callable[[str], bool]) -> str:
    """Return a piece whose words in mixed case are no longer split where known.

    A task that says GitHub means GitHub, and neither `git` nor `hub`. A word that no
    skill has as a whole is left for `derive_words` to take apart.

    Args:
        piece: As `split_text` returns it, decoded.
        is_known: Whether a word, in small letters, is one as a whole.
    """
    # The first of these is a tenth of the second, and holds for nearly all words.
    if piece[1:].islower() or not _CAMEL_CASE.search(piece):
        return piece
    return _LETTERS.sub(
        lambda found: found[0].lower() if is_known(found[0].lower()) else found[0],
        piece,
    )


def is_unspaced(word: str) -> bool:
    """Return whether a word is of a script whose words stand without spaces."""
    return not word.isascii() and _IS_UNSPACED.match(word) is not None


def derive_parts(piece: str) -> Collection[str]:
    """Return what the words of a piece are typed as, each once.

    >>> [*derive_parts("useEffects")]
    ['useeffects', 'effects']
    """
    if _ONE_WORD.fullmatch(piece):
        word = piece.lower()
        return () if word in SILENT_WORDS else (word,)
    apart = _CAMEL_CASE.sub(" ", piece)
    text = piece if apart == piece else f"{piece} {apart}"
    is_plain = _PLAIN.fullmatch(piece) is not None
    found = _PLAIN_WORD.findall(text.lower()) if is_plain else _take_apart(text)
    return [part for part in dict.fromkeys(found) if part not in SILENT_WORDS]


def stem(word: str) -> str:
    """Return a folded word without accents and English endings (Snowball).

    Not a word of a dictionary, only the same for most forms of one.

    >>> [stem(word) for word in ("query", "queries", "validated", "validation")]
    ['queri', 'queri', 'valid', 'valid']
    >>> [stem(word) for word in ("créer", "class", "classes", "ios", "css")]
    ['creer', 'class', 'class', 'ios', 'css']
    """
    plain = word if word.isascii() else _drop_accents(word)
    plain = plain[:_LONGEST_TERM]
    if len(plain) < _SHORTEST_INFLECTED:
        return plain
    return _stemmers.english.stemWord(plain) or plain


def stem_all(words: Sequence[str]) -> list[str]:
    """Return the stems of many words, which takes a third of the time.

    >>> stem_all(["queries", "créer", "css"])
    ['queri', 'creer', 'css']
    """
    plain = list(words)
    if not "".join(words).isascii() or max(map(len, words), default=0) > _LONGEST_TERM:
        plain = [_drop_accents(word)[:_LONGEST_TERM] for word in words]
    stems = _stemmers.english.stemWords(plain)
    return [
        (found or own) if len(own) >= _SHORTEST_INFLECTED else own
        for own, found in zip(plain, stems, strict=True)
    ]


class _Stemmers(threading.local):
    """A stemmer for each thread: it writes to memory of its own."""

    def __init__(self) -> None:
        self.english = Stemmer.Stemmer("english", 0)


_stemmers = _Stemmers()


def _take_apart(text: str) -> Iterator[str]:
    """Iterate over the words of a text; in unspaced scripts every two characters."""
    for token in tokenize(text):
        for part in _PART.findall(token):
            if len(part) > 1 and _IS_UNSPACED.match(part):
                yield from map("".join, pairwise(part))
            else:
                yield part


def _drop_accents(word: str) -> str:
    bare = _ACCENTS.sub("", normalize("NFD", word))
    return normalize("NFC", bare) or word
