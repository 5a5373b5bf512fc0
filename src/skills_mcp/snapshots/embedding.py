"""The embedder that a feature may add: vectors of skills, compared with a task."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from skills_mcp.skills.model import Skill

if TYPE_CHECKING:  # NumPy: the first answer may not wait for it
    from skills_mcp.routing.matcher import Matcher
    from skills_mcp.routing.visible_skills import VisibleSkills


class SkillVectors(Protocol):
    """Vectors of the skills of one snapshot."""

    def fuse(self, matcher: "Matcher", seen: "VisibleSkills | None" = None) -> "Matcher":
        """A matcher that fuses lexical scores with those of the vectors."""
        ...

    def prepare(self) -> bool:
        """Fetch missing vectors; whether all are complete.  Blocking."""
        ...

    def close(self) -> None:
        """Stop fetching."""
        ...


class Embedder(Protocol):
    """Opens the vectors of skills."""

    def vectors_of(self, skills: Sequence[Skill]) -> SkillVectors:
        """Open the vectors of skills in path order; `prepare` fetches them."""
        ...

    def close(self) -> None:
        """Close the connections to the provider."""
        ...
