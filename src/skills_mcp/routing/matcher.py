"""What scores skills for a task: the keyword algorithm or the ranked one."""

from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from skills_mcp.routing.decision import Candidate
from skills_mcp.routing.evidence import Evidence, WordEvidence
from skills_mcp.skills.model import Skill

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    import numpy as np
    from numpy.typing import NDArray

Mask: TypeAlias = "NDArray[np.bool_] | None"
"""Some of the skills: whether each of them, by its number, is one. None for all."""

Algorithm = Literal["keyword", "ranked"]


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

    def weigh(self, context: str) -> tuple[WordEvidence, ...]:
        """Return the words of the task that count, and what each is worth."""
        ...

    def explain(
        self, context: str, skill: Skill, *, within: Mask = None
    ) -> tuple[Evidence, ...]:
        """Return what speaks for a skill; it adds up to what it scores within them."""
        ...
