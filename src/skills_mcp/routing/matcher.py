"""The interface of the routing algorithms: score skills for a task, and explain."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from skills_mcp.skills.model import Skill

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    import numpy as np
    from numpy.typing import NDArray

Mask: TypeAlias = "NDArray[np.bool_] | None"
"""Eligible skills: a flag per skill number. None for all."""

Algorithm = Literal["keyword", "ranked"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A skill with evidence in a task, and its score."""

    skill: Skill
    score: Fraction
    """Exact, 0 to 1 and a little for the priority; `float(score)` for a number."""
    matched_keywords: tuple[str, ...]
    """The keywords of the skill that the task has."""


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

    def explain(self, context: str, skill: Skill, *, within: Mask = None) -> tuple[Evidence, ...]:
        """List the evidence for a skill; it sums to the score of `score`."""
        ...
