"""What scores skills for a task: the keyword algorithm or the ranked one."""

from fractions import Fraction
from typing import Protocol

from skills_mcp.routing.decision import Candidate


class Matcher(Protocol):
    """Knows one set of skills, and never changes (DESIGN §3.16)."""

    def score(
        self, context: str, least: Fraction | None = None
    ) -> tuple[Candidate, ...]:
        """Return the skills that the task speaks for, unordered.

        Args:
            context: The task, in free text.
            least: Skills that score below it are left out; None keeps them all.
        """
        ...
