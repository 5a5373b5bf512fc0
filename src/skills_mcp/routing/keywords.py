"""The keyword algorithm, literally (001 §5.2)."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from fractions import Fraction
from functools import lru_cache
from itertools import chain

from skills_mcp.routing.decision import Candidate
from skills_mcp.routing.tokens import fold, tokenize
from skills_mcp.skills.model import Skill

# Two letters of an alphabet are inside half of all words; two characters of a
# script that writes syllables or ideas are a word of their own.
_SHORT = 3
_SHORT_WITHOUT_ALPHABET = 2
_NO_ALPHABET = ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "HANGUL")

_PRIORITY_UNIT = Fraction(1, 1000)
_REMEMBERED_TOKENS = 4096


class KeywordMatcher:
    """Scores tasks against the keywords of one set of skills; never changes.

    Skills share most of their keywords, so each distinct keyword is compared
    once, and the skills that declare it are looked up.
    """

    def __init__(self, skills: Iterable[Skill]) -> None:
        self._skills = tuple(skills)
        self._declared_by: dict[str, list[int]] = defaultdict(list)
        for number, skill in enumerate(self._skills):
            for keyword in skill.keywords:
                self._declared_by[fold(keyword)].append(number)
        self._long = [word for word in self._declared_by if not _is_short(word)]
        # Tasks share their words, so most tokens have been compared before.
        self._keywords_of = lru_cache(maxsize=_REMEMBERED_TOKENS)(self._compare)
        self._needed = lru_cache(maxsize=1)(self._count_needed)

    def score(
        self, context: str, least: Fraction | None = None
    ) -> tuple[Candidate, ...]:
        """Return the skills of which at least one keyword matches, unordered.

        The score is the share of the skill's keywords that match, plus a
        thousandth of its priority. Skills that score below `least` are left out.
        """
        needed = None if least is None else self._needed(least)
        matched = frozenset().union(*map(self._keywords_of, tokenize(context)))
        counts = Counter(
            chain.from_iterable(self._declared_by[word] for word in matched)
        )
        return tuple(
            _candidate(self._skills[number], matched)
            for number, count in counts.items()
            if needed is None or count >= needed[number]
        )

    def find_unmatchable(self) -> Iterator[tuple[Skill, str]]:
        """Iterate over keywords that not even a task of the same words can match."""
        for keyword, numbers in self._declared_by.items():
            alone = () if _is_short(keyword) else (keyword,)
            if not any(_select(t, {keyword}, alone) for t in tokenize(keyword)):
                for number in numbers:
                    yield self._skills[number], keyword

    def _count_needed(self, least: Fraction) -> list[int]:
        """Return for each skill how many keywords have to match for this score.

        Exact, and in whole numbers: the smallest n with
        n / total + priority / 1000 >= least.
        """
        unit = 1000 * least.denominator
        return [
            -(
                -(1000 * least.numerator - s.priority * least.denominator)
                * total
                // unit
            )
            for s in self._skills
            for total in [len(s.keywords)]
        ]

    def _compare(self, token: str) -> frozenset[str]:
        return _select(token, self._declared_by.keys(), self._long)


def _select(
    token: str, keywords: AbstractSet[str], long_keywords: Iterable[str]
) -> frozenset[str]:
    """Return the keywords that equal, contain or are contained in a token.

    If either is short, only equality counts (DESIGN §3.3): `go` is not `golang`,
    and `golang` is not `go`.
    """
    equal = {token} & keywords
    if _is_short(token):
        return frozenset(equal)
    overlapping = (word for word in long_keywords if token in word or word in token)
    return frozenset(equal.union(overlapping))


def _candidate(skill: Skill, matched: frozenset[str]) -> Candidate:
    words = tuple(word for word in skill.keywords if fold(word) in matched)
    score = Fraction(len(words), len(skill.keywords))
    if skill.priority:
        score += skill.priority * _PRIORITY_UNIT
    return Candidate(skill, score, words)


def _is_short(word: str) -> bool:
    if len(word) >= _SHORT:
        return False
    if len(word) < _SHORT_WITHOUT_ALPHABET:
        return True
    return not all(
        unicodedata.name(character, "").startswith(_NO_ALPHABET) for character in word
    )
