"""What every routing algorithm can do: score skills for a task, and explain it."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from skills_mcp.skills.model import Skill

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    import numpy as np
    from numpy.typing import NDArray

Mask: TypeAlias = "NDArray[np.bool_] | None"
"""Some of the skills: whether each of them, by its number, is one. None for all."""

Algorithm = Literal["keyword", "ranked"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A skill that something in a task speaks for, and its score."""

    skill: Skill
    score: Fraction
    """Exact, 0 to 1 and a little for the priority; `float(score)` for a number."""
    matched_keywords: tuple[str, ...]
    """The keywords of the skill that the task has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WordEvidence:
    """A word of the task, as an algorithm sees it."""

    typed: str
    """As it stands in the task, folded."""
    term: str
    """What is compared: a token of the keyword algorithm, or a stem."""
    weight: float
    """Its share of the task; those of all words add up to 1."""
    skills: int
    """How many skills it speaks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One reason for a skill's score."""

    word: str
    """The word of the task, or words; empty for what no word decides."""
    where: str
    """What holds it: `keyword`, `name`, `description`, `body`, `priority` …"""
    found: str
    """What stands there, such as the keyword."""
    worth: float
    """What it adds to the score; all evidence together is the score."""


class Matcher(Protocol):
    """Scores one set of skills for tasks; never changes."""

    @property
    def algorithm(self) -> Algorithm:
        """Which of the two it is."""
        ...

    def score(
        self,
        context: str,
        *,
        least: Fraction | None = None,
        most: int | None = None,
        within: Mask = None,
    ) -> tuple[Candidate, ...]:
        """Return the skills that the task speaks for, best first.

        Args:
            context: The task, in free text.
            least: Skills that score below it are left out; None keeps them all.
            most: How many, if there are more; None for all that there are.
            within: The skills that may be found; None for all.
        """
        ...

    def rate(self, context: str, *, within: Mask = None) -> float:
        """Return how well the words of a text fit some skill, from 0 to 1.

        It takes less time than to score, and asks no network.

        Args:
            context: The text.
            within: The skills that may be found; None for all.
        """
        ...

    def weigh(self, context: str) -> tuple[WordEvidence, ...]:
        """Return the words of the task that count, and what each is worth."""
        ...

    def explain(
        self, context: str, skill: Skill, *, within: Mask = None
    ) -> tuple[Evidence, ...]:
        """Return what speaks for a skill; it adds up to what it scores within them."""
        ...
