"""The keyword algorithm, literally (001 §5.2)."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction

from skills_mcp.routing.decision import Candidate
from skills_mcp.routing.tokens import fold, tokenize
from skills_mcp.skills.model import Skill, SkillPath

# Two letters of an alphabet are inside half of all words; two characters of a
# script that writes syllables or ideas are a word of their own.
_SHORT = 3
_SHORT_WITHOUT_ALPHABET = 2
_NO_ALPHABET = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL")

_PRIORITY_UNIT = Fraction(1, 1000)


class KeywordMatcher:
    """Scores tasks against the keywords of one set of skills; never changes.

    Skills share most of their keywords, so each distinct keyword is compared
    once, and the skills that declare it are looked up.
    """

    def __init__(self, skills: Iterable[Skill]) -> None:
        self._skills = {skill.path: skill for skill in skills}
        self._declared_by: dict[str, list[tuple[Skill, str]]] = defaultdict(list)
        for skill in self._skills.values():
            for keyword in skill.keywords:
                self._declared_by[fold(keyword)].append((skill, keyword))
        self._long = [word for word in self._declared_by if not _is_short(word)]

    def score(self, context: str) -> tuple[Candidate, ...]:
        """Return every skill of which at least one keyword matches, unordered.

        The score is the share of the skill's keywords that match, plus a
        thousandth of its priority.
        """
        matched: dict[SkillPath, set[str]] = defaultdict(set)
        for keyword in self._matching(tokenize(context)):
            for skill, declared in self._declared_by[keyword]:
                matched[skill.path].add(declared)
        return tuple(
            _candidate(self._skills[path], words) for path, words in matched.items()
        )

    def _matching(self, tokens: tuple[str, ...]) -> set[str]:
        """Return the keywords that equal, contain or are contained in a token.

        If either is short, only equality counts (DESIGN §3.3): `go` is not
        `golang`, and `golang` is not `go`.
        """
        long = [token for token in tokens if not _is_short(token)]
        equal = {token for token in tokens if token in self._declared_by}
        overlapping = {
            keyword
            for keyword in self._long
            if any(token in keyword or keyword in token for token in long)
        }
        return equal | overlapping


def _candidate(skill: Skill, matched: set[str]) -> Candidate:
    words = tuple(word for word in skill.keywords if word in matched)
    share = Fraction(len(words), len(skill.keywords))
    return Candidate(skill, share + skill.priority * _PRIORITY_UNIT, words)


def _is_short(word: str) -> bool:
    if len(word) >= _SHORT:
        return False
    if len(word) < _SHORT_WITHOUT_ALPHABET:
        return True
    return not all(
        unicodedata.name(character, "").startswith(_NO_ALPHABET) for character in word
    )
