"""What words mean: which stand for each other, and which say little.

A thesaurus of our own, for the skills of any organisation. It is never fitted to one
set of tasks: a group belongs here if a reader who has seen no task calls it right.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from itertools import chain
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from skills_mcp.routing.tokens import fold
from skills_mcp.routing.words import derive_parts, split_text, stem

Relation: TypeAlias = Literal["same", "near", "leads"]
Phrase: TypeAlias = tuple[str, ...]

# How far a word stands for another: an abbreviation is nearly the word itself, a
# neighbour in meaning only a hint. Measured: 0.3 to 0.5 for the hint are much alike.
SAME = 0.7
"""How far an abbreviation stands for its word."""

_WEIGHTS: Mapping[Relation, float] = MappingProxyType(
    {"same": SAME, "near": 0.4, "leads": 0.4}
)

# What is left of a word's information, by the section of common_words.txt it is in.
_TIERS: Mapping[str, float] = MappingProxyType(
    {"filler": 0.25, "ordinary": 0.5, "general": 0.75}
)

_REMARK = re.compile(r"(?:^|\s)#.*")  # but c# is a language


@dataclass(frozen=True, slots=True)
class Related:
    """What may stand in a skill in the place of a word of the task."""

    terms: Phrase
    """Stems; most often one. A skill has to hold all of them."""
    weight: float
    """How far it means the same, above 0, at most 1."""


class Group(NamedTuple):
    """A line of synonyms.txt: what leads where; the same both ways unless directed."""

    relation: Relation
    sources: tuple[str, ...]
    targets: tuple[str, ...]


class Thesaurus:
    """Groups of words and phrases, ready to be looked up; never changes.

    Args:
        groups: What leads where.
    """

    def __init__(self, groups: Iterable[Group]) -> None:
        self._groups: dict[Phrase, list[Group]] = {}
        self._longest: dict[str, int] = {}
        """By the first term of a phrase, how many terms the longest such phrase has."""
        self._ranked: dict[Phrase, tuple[Related, ...]] = {}
        for group in groups:
            for phrase in filter(None, map(_stems, group.sources)):
                self._groups.setdefault(phrase, []).append(group)
                longest = max(self._longest.get(phrase[0], 0), len(phrase))
                self._longest[phrase[0]] = longest

    def expand(
        self, terms: Sequence[str], wanted: Container[str] | None = None
    ) -> dict[str, tuple[Related, ...]]:
        """Return what may stand for the terms of a task, the nearest first.

        `terms` are stems in the order of the task: a phrase is found if its terms are
        neighbours, and then each of them has what stands for the phrase. Terms without
        any relatives are left out, and those that are not `wanted`, if that is given.
        """
        found: dict[str, tuple[Related, ...]] = {}
        for begin, first in enumerate(terms):
            longest = self._longest.get(first, 0)
            if longest == 1 and wanted is not None and first not in wanted:
                continue
            for length in range(1, longest + 1):
                phrase = tuple(terms[begin : begin + length])
                for term in phrase if phrase in self._groups else ():
                    if wanted is None or term in wanted:
                        found[term] = _merge(found.get(term, ()), self._rank(phrase))
        return found

    def _rank(self, phrase: Phrase) -> tuple[Related, ...]:
        """Return what stands for a phrase of the thesaurus, the nearest first."""
        if phrase not in self._ranked:
            self._ranked[phrase] = _nearest_first(self._find_relatives(phrase))
        return self._ranked[phrase]

    def _find_relatives(self, phrase: Phrase) -> dict[Phrase, float]:
        """Return the relatives of a phrase, and those of what is the same.

        One step only: "optimise" has what "optimize" has, in its place.
        """
        found = self._find_neighbours(phrase)
        for other in self._find_neighbours(phrase, only="same"):
            farther = {
                target: SAME * weight
                for target, weight in self._find_neighbours(other).items()
                if target != phrase
            }
            _keep_nearest(found, farther)
        return found

    def _find_neighbours(
        self, phrase: Phrase, *, only: Relation | None = None
    ) -> dict[Phrase, float]:
        """Return what the groups of a phrase lead to, or those of one relation only."""
        found: dict[Phrase, float] = {}
        for group in self._groups.get(phrase, ()):
            if only is None or group.relation == only:
                weight = _WEIGHTS[group.relation]
                targets = filter(None, map(_stems, group.targets))
                _keep_nearest(found, {x: weight for x in targets if x != phrase})
        return found


@lru_cache(maxsize=8)  # those of a few libraries; a test has many
def find_thesaurus(synonyms: tuple[str, ...] = ()) -> Thesaurus:
    """Return our thesaurus, with the groups of an organisation.

    Args:
        synonyms: Lines as `parse_groups` reads them, as a person writes them: in any
            case, with hyphens and stop words.
    """
    own = (_parse_group(line.strip()) for line in synonyms)
    return Thesaurus(
        chain(
            parse_groups(_load("synonyms.txt")),
            (Group(g.relation, _spell(g.sources), _spell(g.targets)) for g in own),
        )
    )


def _spell(members: Iterable[str]) -> tuple[str, ...]:
    """Return members as those of synonyms.txt are written: the words of a task."""
    return tuple(
        " ".join(
            part
            for piece in split_text(fold(member))
            for part in derive_parts(piece.decode())
        )
        for member in members
    )


def weight_of(term: str) -> float:
    """Return what is left of a term's information, above 0, at most 1.

    A rare word of a small library may still be an ordinary one: "weekend", "good".
    """
    return _common_words().get(term, 1.0)


def names_technology(word: str) -> bool:
    """Return whether a word names a technology or a product: "laravel", "figma".

    A task that names one asks for that one; another of its kind does not serve it. The
    word is folded and has its ending: electronics is not Electron.
    """
    return word in _technologies()


def parse_groups(text: str) -> Iterator[Group]:
    """Iterate over the groups of a thesaurus.

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
    """Iterate over the common words and their tiers; `[tier]` begins each."""
    tier = ""
    for line in text.splitlines():
        content = _drop_remark(line)
        if content.startswith("["):
            tier = content.strip("[]")
        else:
            yield from ((word, tier) for word in content.split())


def _drop_remark(line: str) -> str:
    return (_REMARK.sub("", line) if "#" in line else line).strip()


def _parse_group(line: str) -> Group:
    left, is_directed, right = line.partition(" > ")
    if is_directed:
        return Group("leads", _members(left, ", "), _members(right, ", "))
    is_same = " = " in line
    members = _members(line, " = " if is_same else ", ")
    return Group("same" if is_same else "near", members, members)


def _members(text: str, separator: str) -> tuple[str, ...]:
    return tuple(member.strip() for member in text.split(separator))


@cache
def _common_words() -> dict[str, float]:
    """Return the weights of the common words; read once, when first needed."""
    return {
        stem(word): _TIERS[tier]
        for word, tier in parse_tiers(_load("common_words.txt"))
    }


@cache
def _technologies() -> frozenset[str]:
    """Return the names of technologies; read once, when first needed."""
    lines = _load("technologies.txt").splitlines()
    return frozenset(
        chain.from_iterable(x.split() for x in lines if not x.startswith("# "))
    )


def _load(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


@cache
def _stems(member: str) -> Phrase:
    return tuple(map(stem, member.split()))


def _keep_nearest(known: dict[Phrase, float], added: Mapping[Phrase, float]) -> None:
    for phrase, weight in added.items():
        if weight > known.get(phrase, 0):
            known[phrase] = weight


def _merge(
    known: tuple[Related, ...], added: tuple[Related, ...]
) -> tuple[Related, ...]:
    """Return what stands for a term that is also part of a phrase."""
    if not known or known == added:
        return added
    nearest: dict[Phrase, float] = {}
    for each in (*known, *added):
        _keep_nearest(nearest, {each.terms: each.weight})
    return _nearest_first(nearest)


def _nearest_first(weights: Mapping[Phrase, float]) -> tuple[Related, ...]:
    ordered = sorted(weights, key=lambda phrase: (-weights[phrase], phrase))
    return tuple(Related(phrase, weights[phrase]) for phrase in ordered)
