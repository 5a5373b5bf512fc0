"""Some of the skills of an index, as if there were no others.

Rule: what is found among them, and what it scores, is bit by bit what an index of
these skills alone would answer. They keep their numbers in the index, so that a caller
costs a mask and no index.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.decision import derive_places
from skills_mcp.routing.matcher import Mask
from skills_mcp.skills.model import Skill, SkillPath


@dataclass(frozen=True, eq=False)
class SeenSkills:
    """The skills that one caller sees; a skill is its number in the index."""

    total: int
    """How many skills the index has."""
    numbers: NDArray[np.integer]
    """The number of each skill that is seen, in path order."""
    skills: Sequence[Skill] = field(repr=False)
    """All skills by number; a copy stands where the caller does not see the first."""
    paths: Sequence[SkillPath] = field(repr=False)
    """The path of each skill that is seen, in the order of `numbers`."""
    moved: Mapping[int, SkillPath] = field(default_factory=dict, repr=False)
    """The paths of the skills that stand for others, by number."""

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def mask(self) -> NDArray[np.bool_]:
        """For each number whether that skill is seen."""
        mask = np.zeros(self.total, np.bool_)
        mask[self.numbers] = True
        return mask

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """For each number its place where nothing else decides (`derive_places`)."""
        places = np.zeros(self.total, np.int64)
        places[self.numbers] = derive_places(self.paths)
        return places

    def expand(self, within: Mask) -> Mask:
        """Return the mask by number of one that has a row for each that is seen."""
        if within is None:
            return None
        mask = np.zeros(self.total, np.bool_)
        mask[self.numbers[within]] = True
        return mask

    def sort(self, numbers: Sequence[int]) -> list[int]:
        """Return some of the numbers in path order."""
        if not self.moved:
            return sorted(numbers)
        return sorted(numbers, key=self._ranks.__getitem__)

    @cached_property
    def _ranks(self) -> dict[int, int]:
        """Where each number is in path order: a copy may stand far from the first."""
        return {number: rank for rank, number in enumerate(self.numbers.tolist())}
