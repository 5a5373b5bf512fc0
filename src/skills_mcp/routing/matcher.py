"""The interface of the routing algorithms: the skills that a caller sees, and their scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.skill_index import INDEX, ROOT
from skills_mcp.skills.skill_parser import is_package_file

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    import numpy as np
    from numpy.typing import NDArray

Mask: TypeAlias = "NDArray[np.bool_] | None"
"""Eligible skills: a flag per skill number. None for all."""

Algorithm = Literal["keyword", "ranked", "mixed"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A skill with evidence in a task, and its score."""

    skill: Skill
    exact_score: Fraction = field(repr=False)
    """Compared with the thresholds."""
    matched_keywords: tuple[str, ...]
    """The keywords of the skill that the task has."""
    near_copies: tuple[SkillPath, ...] = ()
    """Skills of the same name with nearly the same text, for which it stands."""
    replaces: SkillPath | None = None
    """The deprecated skill that the task was about, in whose place it is served."""
    also: "Candidate | None" = None
    """The skill for the second intent of a task with two."""
    applies: str = ""
    """How the project at hand differs from what the skill is written for."""

    @property
    def score(self) -> float:
        """0 to 1, plus a small bonus for the priority."""
        return float(self.exact_score)


@dataclass(frozen=True, slots=True, kw_only=True)
class TermWeight:
    """A term of a task, weighted by an algorithm."""

    typed: str
    """As in the task, folded."""
    term: str
    """A token of the keyword algorithm, or a stem."""
    weight: float
    """Its share of the task; all weights sum to 1."""
    skills: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One part of a skill's score."""

    word: str
    """The matching words of the task; empty for evidence without a word."""
    where: str
    """The field: `keyword`, `name`, `description`, `body`, `priority` …"""
    found: str
    """The match in the field, such as the keyword."""
    worth: float
    """Its part of the score; all evidence sums to the score."""


class NegatedScope(NamedTuple):
    """The negated part of a task."""

    words: tuple[str, ...] = ()
    """Left out of what is scored."""
    paths: frozenset[SkillPath] = frozenset()
    """Skills that these words name or fit better than the rest; not served for the task."""


class Matcher(Protocol):
    """Scores one set of skills for tasks. Immutable."""

    @property
    def algorithm(self) -> Algorithm: ...

    def score(
        self,
        context: str,
        *,
        min_score: Fraction | None = None,
        limit: int | None = None,
        within: Mask = None,
    ) -> tuple[Candidate, ...]:
        """Score the skills for a task, best first.

        Args:
            context: The task.
            min_score: The threshold; None for none.
            limit: At most so many; None for all.
            within: Eligible skills; None for all.
        """
        ...

    def quick_score(self, context: str, *, within: Mask = None) -> float:
        """Score the best skill by words alone, 0 to 1; faster, without a request."""
        ...

    def weigh_terms(self, context: str) -> tuple[TermWeight, ...]:
        """List the terms of the task with their weights."""
        ...

    def find_negated(self, context: str) -> NegatedScope:
        """Find the negated part of a task; the keyword algorithm has none."""
        ...

    def explain(self, context: str, skill: Skill, *, within: Mask = None) -> tuple[Evidence, ...]:
        """List the evidence for a skill; it sums to the score of `score`."""
        ...


def declares_keywords(keywords: Sequence[str], file: str, path: str) -> bool:
    """Whether `auto` matches a skill by its keywords: a rule file with some.

    A package's tags are not chosen by its author as all that is compared.
    """
    return bool(keywords) and not is_package_file(file, path)


class MatchingPart(NamedTuple):
    """The skills of one algorithm, and its matcher."""

    matcher: Matcher
    numbers: "NDArray[np.bool_]"
    """A flag per skill number."""

    def narrow(self, within: Mask) -> "NDArray[np.bool_]":
        return self.numbers if within is None else self.numbers & within


@dataclass(frozen=True, slots=True, eq=False)
class MixedMatcher:
    """Matches rule files that declare keywords by these, and ranks all other skills.

    Scores of different algorithms cannot be compared: `score_and_decide` decides on each
    part, and joins the two decisions.
    """

    declared: MatchingPart
    """Rule files with keywords."""
    others: MatchingPart

    @property
    def algorithm(self) -> Algorithm:
        return "mixed"

    def find_part(self, skill: Skill) -> MatchingPart:
        is_declared = declares_keywords(skill.keywords, skill.file, skill.path)
        return self.declared if is_declared else self.others

    def score(
        self,
        context: str,
        *,
        min_score: Fraction | None = None,
        limit: int | None = None,
        within: Mask = None,
    ) -> tuple[Candidate, ...]:
        found = chain.from_iterable(
            part.matcher.score(
                context, min_score=min_score, limit=limit, within=part.narrow(within)
            )
            for part in (self.declared, self.others)
        )
        return tuple(sorted(found, key=candidate_sort_key)[:limit])

    def quick_score(self, context: str, *, within: Mask = None) -> float:
        return self.others.matcher.quick_score(context, within=within)

    def weigh_terms(self, context: str) -> tuple[TermWeight, ...]:
        return self.others.matcher.weigh_terms(context)

    def find_negated(self, context: str) -> NegatedScope:
        return self.others.matcher.find_negated(context)

    def explain(self, context: str, skill: Skill, *, within: Mask = None) -> tuple[Evidence, ...]:
        part = self.find_part(skill)
        return part.matcher.explain(context, skill, within=part.narrow(within))


class SkillText(NamedTuple):
    """The indexed text of a skill; the rest need not be decoded."""

    path: SkillPath
    name: str
    description: str
    keywords: Sequence[str]
    body: str
    priority: int
    category: str


def find_matcher(matcher: Matcher, skill: Skill) -> Matcher:
    """Find the matcher that scores a skill: of a `MixedMatcher`, that of its part."""
    return matcher.find_part(skill).matcher if isinstance(matcher, MixedMatcher) else matcher


_LAST_IN_ORDER = "\U0010ffff"
_RULES_OF_FOLDER = f"/{INDEX}"


def candidate_sort_key(candidate: Candidate) -> tuple[float, str]:
    # Fractions compare slowly; the nearest floats are in the same order.
    return -candidate.score, _tie_break_key(candidate.skill.path)


def tie_break_ranks(paths: Sequence[str]) -> "NDArray[np.int64]":
    """Rank paths for tie-breaks, by path.

    The rules of a folder rank behind everything that inherits them: a skill that ties
    with its own ancestor is more specific.

    >>> tie_break_ranks(["_root", "ui/_index", "ui/react", "vue"]).tolist()
    [3, 1, 0, 2]
    """
    import numpy as np

    order = sorted(range(len(paths)), key=list(map(_tie_break_key, paths)).__getitem__)
    ranks = np.empty(len(paths), np.int64)
    ranks[order] = np.arange(len(paths))
    return ranks


def _tie_break_key(path: str) -> str:
    # At the top `_root` has this part; an `_index` there is the parent of no skill.
    if path != ROOT and not path.endswith(_RULES_OF_FOLDER):
        return path
    return path[: path.rfind("/") + 1] + _LAST_IN_ORDER


@dataclass(frozen=True, eq=False)
class VisibleSkills:
    """The skills visible to one caller; a skill is its number in the index.

    Rule: results and scores are bit by bit those of an index of these skills alone. The
    numbers stay, so that a caller costs a mask and no index.
    """

    total: int
    numbers: "NDArray[np.integer]"
    """The visible skills, in path order."""
    skills: Sequence[Skill] = field(repr=False)
    """All skills by number; a copy replaces an invisible first one."""
    paths: Sequence[SkillPath] = field(repr=False)
    """The paths of the visible skills, in the order of `numbers`."""
    moved: Mapping[int, SkillPath] = field(default_factory=dict, repr=False)
    """Paths of copies that stand in for others, by number."""

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def mask(self) -> "NDArray[np.bool_]":
        import numpy as np

        mask = np.zeros(self.total, np.bool_)
        mask[self.numbers] = True
        return mask

    @cached_property
    def places(self) -> "NDArray[np.int64]":
        import numpy as np

        ranks = np.zeros(self.total, np.int64)
        ranks[self.numbers] = tie_break_ranks(self.paths)
        return ranks

    def expand(self, within: Mask) -> Mask:
        """Convert a mask over the visible skills to one over all numbers."""
        if within is None:
            return None
        import numpy as np

        mask = np.zeros(self.total, np.bool_)
        mask[self.numbers[within]] = True
        return mask

    def sort(self, numbers: Sequence[int]) -> list[int]:
        if not self.moved:
            return sorted(numbers)
        return sorted(numbers, key=self._ranks.__getitem__)

    @cached_property
    def _ranks(self) -> dict[int, int]:
        """Path order by number: a copy may be far from the first."""
        return {number: rank for rank, number in enumerate(self.numbers.tolist())}
