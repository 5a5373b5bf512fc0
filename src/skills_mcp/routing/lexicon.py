"""Words of the ranked algorithm: raw tokens, stems, synonyms, common words and technologies.

Its analysis begins with the tokens of the keyword algorithm and splits them further,
because here a word is compared as a whole and never with a part of another.

A thesaurus of our own, for the skills of any organisation. It is never fitted to one
set of tasks: a group belongs here if a reader who has seen no task calls it right.
"""

import re
import threading
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import Stemmer  # type: ignore[import-not-found]  # has no types

from skills_mcp.routing.tokenizer import SILENT_WORDS, fold, tokenize
from skills_mcp.text.unicode import normalize_unicode

# What can stand inside of a word is left to the tokenizer: l'API, C++, .NET, e-mail.
_SEPARATOR_BYTES = b"""!"$%&()*,/:;<=>?@[\\]^`{|}~""" + bytes(range(33)) + b"\x7f"
_TO_SPACES = bytes.maketrans(_SEPARATOR_BYTES, b" " * len(_SEPARATOR_BYTES))

# Kana and Chinese characters that normalisation leaves as they are, and what stands between
# them or in drawings: dashes, quotes, arrows, boxes and full-width punctuation.
_STABLE = "\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fff"
_DRAWN = "\u2010-\u2018\u201a-\u201f\u2022\u2026\u2190-\u21ff\u2500-\u25ff"
_FULL_WIDTH = "\u3000-\u3002\u3008-\u3011\uff01\uff08\uff09\uff0c\uff0f\uff1a\uff1b\uff1f"

# Nearly all pieces are of these, and their words need no tokenizer to be found: that takes
# several times as long.
_PLAIN = re.compile(rf"(?!.*\.[nN][eE][tT])[A-Za-z0-9._{_STABLE}{_DRAWN}{_FULL_WIDTH}-]+")
_PLAIN_WORD = re.compile(f"[a-z0-9]+|[{_STABLE}]+")

# And most of these are one word, which has nothing to be taken apart at.
_SINGLE_WORD = re.compile("[A-Za-z]?[a-z0-9]+")

# Between the small and the capital letter, and before the last capital of a row that
# begins a word: use|Effect, HTTP|Server, but neither HTTP nor APIs.
# The letter behind the place is looked at first, for few are capitals.
_CAMEL_CASE = re.compile(r"(?=[A-Z])(?:(?<=[^\W_A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2}))")

_LETTERS = re.compile(r"[^\W_]+")

# Chinese characters, kana and Hangul, whose words often stand without a space between.
_UNSPACED = "\u3005\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3\U00020000-\U0003ffff"
_PART = re.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}\s_-]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")

# Accents that may be left out. The marks of other scripts are letters of their own.
_ACCENTS = re.compile("[\u0300-\u036f]")

_MIN_INFLECTED = 4  # iOS is no plural, and CSS not many of anything
MAX_TERM = 64  # what is longer is no word but data, and its beginning will do


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
    return tuple([Word(stem(part), part[:MAX_TERM]) for part in split_raw_token(piece)])


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
    piece = piece.strip("'")  # quotes; within a word they are the tokenizer's
    if _SINGLE_WORD.fullmatch(piece):
        word = piece.lower()
        return () if word in SILENT_WORDS else (word,)
    apart = _CAMEL_CASE.sub(" ", piece)
    text = piece if apart == piece else f"{piece} {apart}"
    is_plain = _PLAIN.fullmatch(piece) is not None
    plain = text.lower() if is_plain else " ".join(tokenize(text))
    parts = (_PLAIN_WORD if is_plain else _PART).findall(plain)
    found = parts if piece.isascii() else chain.from_iterable(map(_pair_characters, parts))
    return [part for part in dict.fromkeys(found) if part not in SILENT_WORDS]


def stem(word: str) -> str:
    """Stem a folded word, without accents (Snowball, English).

    Not a word of a dictionary, only the same for most forms of one.

    >>> [stem(word) for word in ("query", "queries", "validated", "validation")]
    ['queri', 'queri', 'valid', 'valid']
    >>> [stem(word) for word in ("créer", "class", "classes", "ios", "css")]
    ['creer', 'class', 'class', 'ios', 'css']
    """
    plain = (word if word.isascii() else _drop_accents(word))[:MAX_TERM]
    if len(plain) < _MIN_INFLECTED:
        return plain
    return _stemmers.english.stemWord(plain) or plain


def stem_all(words: Sequence[str]) -> list[str]:
    """Stem many words in a third of the time.

    >>> stem_all(["queries", "créer", "css"])
    ['queri', 'creer', 'css']
    """
    plain = [(w if w.isascii() else _drop_accents(w))[:MAX_TERM] for w in words]
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


def _pair_characters(part: str) -> Iterable[str]:
    """Take a text without spaces two characters at a time."""
    return map("".join, pairwise(part)) if len(part) > 1 and _IS_UNSPACED.match(part) else (part,)


# Most Chinese and Japanese words are made of them, and none has an accent.
_UNACCENTED = re.compile(f"[{_STABLE}]+")


def _drop_accents(word: str) -> str:
    if _UNACCENTED.fullmatch(word):
        return word
    bare = _ACCENTS.sub("", normalize_unicode("NFD", word))
    return normalize_unicode("NFC", bare) or word


Relation: TypeAlias = Literal["same", "near", "leads"]
StemPhrase: TypeAlias = tuple[str, ...]

# How far a word stands for another: an abbreviation is nearly the word itself, a
# neighbour in meaning only a hint. Measured: 0.3 to 0.5 for the hint are much alike.
SAME_WEIGHT = 0.7
"""Weight of an abbreviation or another spelling."""

_WEIGHTS: Mapping[Relation, float] = MappingProxyType(
    {"same": SAME_WEIGHT, "near": 0.4, "leads": 0.4}
)

# What is left of a word's information, by the section of common_words.txt it is in.
_TIERS: Mapping[str, float] = MappingProxyType({"filler": 0.25, "ordinary": 0.5, "general": 0.75})

_REMARK = re.compile(r"(?:^|\s)#.*")  # but c# is a language


@dataclass(frozen=True, slots=True)
class Synonym:
    """A synonym for query expansion."""

    terms: StemPhrase
    """Stems, most often one. A skill has to contain all."""
    weight: float


class SynonymGroup(NamedTuple):
    """A line of synonyms.txt; symmetric unless directed."""

    relation: Relation
    sources: tuple[str, ...]
    targets: tuple[str, ...]


class Thesaurus:
    """Synonym groups by term and phrase. Immutable."""

    def __init__(self, groups: Iterable[SynonymGroup]) -> None:
        self._groups: dict[StemPhrase, list[SynonymGroup]] = {}
        self._longest: dict[str, int] = {}
        """By the first term of a phrase, how many terms the longest such phrase has."""
        self._ranked: dict[StemPhrase, tuple[Synonym, ...]] = {}
        for group in groups:
            for phrase in filter(None, map(_stems, group.sources)):
                self._groups.setdefault(phrase, []).append(group)
                longest = max(self._longest.get(phrase[0], 0), len(phrase))
                self._longest[phrase[0]] = longest

    def expand(
        self, terms: Sequence[str], requested: Container[str] | None = None
    ) -> dict[str, tuple[Synonym, ...]]:
        """Find the synonyms of a query's terms, the nearest first.

        `terms` are stems in query order: a phrase matches adjacent terms, and each of
        them has the synonyms of the phrase. Terms without synonyms are left out, and
        those not `requested`, if given.
        """
        found: dict[str, tuple[Synonym, ...]] = {}
        for begin, first in enumerate(terms):
            longest = self._longest.get(first, 0)
            if longest == 1 and requested is not None and first not in requested:
                continue
            for length in range(1, longest + 1):
                phrase = tuple(terms[begin : begin + length])
                for term in phrase if phrase in self._groups else ():
                    if requested is None or term in requested:
                        found[term] = _merge_synonyms(found.get(term, ()), self._rank(phrase))
        return found

    def _rank(self, phrase: StemPhrase) -> tuple[Synonym, ...]:
        if phrase not in self._ranked:
            self._ranked[phrase] = _heaviest_first(self._find_synonyms(phrase))
        return self._ranked[phrase]

    def _find_synonyms(self, phrase: StemPhrase) -> dict[StemPhrase, float]:
        """Find the synonyms of a phrase, and those of its equivalents.

        One step only: "optimise" has the synonyms of "optimize".
        """
        found = self._find_neighbours(phrase)
        for other in self._find_neighbours(phrase, only="same"):
            farther = {
                target: SAME_WEIGHT * weight
                for target, weight in self._find_neighbours(other).items()
                if target != phrase
            }
            _keep_heaviest(found, farther)
        return found

    def _find_neighbours(
        self, phrase: StemPhrase, *, only: Relation | None = None
    ) -> dict[StemPhrase, float]:
        found: dict[StemPhrase, float] = {}
        for group in self._groups.get(phrase, ()):
            if only is None or group.relation == only:
                weight = _WEIGHTS[group.relation]
                targets = filter(None, map(_stems, group.targets))
                _keep_heaviest(found, {x: weight for x in targets if x != phrase})
        return found


@lru_cache(maxsize=8)  # those of a few libraries; a test has many
def build_thesaurus(synonyms: tuple[str, ...] = ()) -> Thesaurus:
    """Build our thesaurus with an organisation's lines, in any case."""
    own = (_parse_group(line.strip()) for line in synonyms)
    return Thesaurus(
        chain(
            parse_groups(_load("synonyms.txt")),
            (
                SynonymGroup(
                    g.relation,
                    _normalize_members(g.sources),
                    _normalize_members(g.targets),
                )
                for g in own
            ),
        )
    )


def _normalize_members(members: Iterable[str]) -> tuple[str, ...]:
    return tuple(
        " ".join(
            part
            for piece in split_raw_tokens(fold(member))
            for part in split_raw_token(piece.decode())
        )
        for member in members
    )


def common_word_weight(term: str) -> float:
    """Discount for a common word, even if rare in a small library; 1 for others."""
    return _common_words().get(term, 1.0)


def is_technology_name(word: str) -> bool:
    """Whether a word names a technology or a product: "laravel", "figma".

    A task that names one asks for that one; another of its kind does not serve it. The
    word is folded and has its ending: electronics is not Electron.
    """
    return word in _technologies()


def parse_groups(text: str) -> Iterator[SynonymGroup]:
    """Parse the groups of a thesaurus.

    One group per line; a `#` after nothing or a space begins a remark. A member is a
    word or a phrase, folded, without stop words:

        k8s = kubernetes           the same: an abbreviation, another spelling
        error, exception, failure  near: each may stand for each of the others
        flight, hotel > travel     directed: the left leads to the right, not back
    """
    for line in text.splitlines():
        if content := _drop_remark(line):
            yield _parse_group(content)


def parse_tiers(text: str) -> Iterator[tuple[str, str]]:
    """Parse words and their tiers or languages; `[tier]` begins each."""
    tier = ""
    for line in text.splitlines():
        content = _drop_remark(line)
        if content.startswith("["):
            tier = content.strip("[]")
        else:
            yield from ((word, tier) for word in content.split())


def _drop_remark(line: str) -> str:
    return (_REMARK.sub("", line) if "#" in line else line).strip()


def _parse_group(line: str) -> SynonymGroup:
    left, is_directed, right = line.partition(" > ")
    if is_directed:
        return SynonymGroup("leads", _members(left, ", "), _members(right, ", "))
    is_same = " = " in line
    members = _members(line, " = " if is_same else ", ")
    return SynonymGroup("same" if is_same else "near", members, members)


def _members(text: str, separator: str) -> tuple[str, ...]:
    return tuple(member.strip() for member in text.split(separator))


@cache
def _common_words() -> dict[str, float]:
    return {stem(word): _TIERS[tier] for word, tier in parse_tiers(_load("common_words.txt"))}


@cache
def load_function_words() -> Sequence[frozenset[str]]:
    """Load the function words of languages other than English and French."""
    languages: dict[str, set[str]] = {}
    for word, language in parse_tiers(_load("function_words.txt")):
        languages.setdefault(language, set()).add(word)
    return tuple(map(frozenset, languages.values()))


@cache
def _technologies() -> frozenset[str]:
    lines = _load("technologies.txt").splitlines()
    return frozenset(chain.from_iterable(x.split() for x in lines if not x.startswith("# ")))


def _load(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


@cache
def _stems(member: str) -> StemPhrase:
    return tuple(map(stem, member.split()))


def _keep_heaviest(known: dict[StemPhrase, float], added: Mapping[StemPhrase, float]) -> None:
    for phrase, weight in added.items():
        if weight > known.get(phrase, 0):
            known[phrase] = weight


def _merge_synonyms(known: tuple[Synonym, ...], added: tuple[Synonym, ...]) -> tuple[Synonym, ...]:
    if not known or known == added:
        return added
    nearest: dict[StemPhrase, float] = {}
    for synonym in (*known, *added):
        _keep_heaviest(nearest, {synonym.terms: synonym.weight})
    return _heaviest_first(nearest)


def _heaviest_first(weights: Mapping[StemPhrase, float]) -> tuple[Synonym, ...]:
    ordered = sorted(weights, key=lambda phrase: (-weights[phrase], phrase))
    return tuple(Synonym(phrase, weights[phrase]) for phrase in ordered)
