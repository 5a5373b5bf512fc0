"""A caller's view of an index: the visible skills, as if there were no others.

Rule: results and scores are bit by bit those of an index of these skills alone. Skills
keep their numbers in the index, so that a caller costs a mask and no index.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.decision import tie_break_ranks
from skills_mcp.routing.matcher import Mask
from skills_mcp.skills.model import Skill, SkillPath


@dataclass(frozen=True, eq=False)
class VisibleSkills:
    """The skills visible to one caller; a skill is its number in the index."""

    total: int
    numbers: NDArray[np.integer]
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
    def mask(self) -> NDArray[np.bool_]:
        mask = np.zeros(self.total, np.bool_)
        mask[self.numbers] = True
        return mask

    @cached_property
    def places(self) -> NDArray[np.int64]:
        ranks = np.zeros(self.total, np.int64)
        ranks[self.numbers] = tie_break_ranks(self.paths)
        return ranks

    def expand(self, within: Mask) -> Mask:
        """Convert a mask over the visible skills to one over all numbers."""
        if within is None:
            return None
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
