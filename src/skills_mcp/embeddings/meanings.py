"""How near the meaning of a task is to that of each skill.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skills_mcp.embeddings.reply import EmbeddingError, Matrix, Vector
from skills_mcp.routing.decision import derive_places
from skills_mcp.skills.model import SkillPath

MILLION = 1_000_000
"""Likeness is counted in millionths, so that equal ones are equal."""

# As many skills as the library's own closeness counts for: below some ten skills a
# task's few cosines are mostly those of the skills that it means.
_PRIOR_SKILLS = 4

# A model that finds everything alike says nothing; the scale must not divide by it.
_LARGEST_FLOOR = 0.99


@dataclass(frozen=True, slots=True, eq=False)
class Meanings:
    """The vectors of one set of skills.  Never changes."""

    vectors: Matrix
    numbers: Mapping[SkillPath, int]
    """The number of each skill, which is the row of its vector."""
    places: NDArray[np.int64]
    """Which of them is first where nothing else decides."""
    total: Vector
    """The sum of the vectors."""
    closeness: float
    """The mean cosine of two different skills."""

    @classmethod
    def of(cls, paths: Sequence[SkillPath], vectors: Matrix) -> "Meanings":
        """Return the meanings of skills in path order."""
        count = len(paths)
        total: Vector = vectors.sum(axis=0, dtype=np.float32)
        pairs = count * (count - 1)
        closeness = (float(total @ total) - count) / pairs if pairs else 0.0
        numbers = {path: number for number, path in enumerate(paths)}
        return cls(vectors, numbers, derive_places(paths), total, closeness)

    def compare(self, vector: Vector) -> NDArray[np.int64]:
        """Return how like each skill a task is, in millionths.

        Cosines mean something else in every model: 0.5 is far apart for one and the
        same thing for another. What the task has in common with the average skill is
        therefore 0 here, and the same direction is a million.

        Raises:
            EmbeddingError: The vector is of another model.
        """
        if vector.shape != self.total.shape:
            raise EmbeddingError(
                f"the vector of the task has {len(vector)} dimensions, those of the "
                f"skills have {len(self.total)}: delete cache/embeddings"
            )
        cosines = self.vectors @ vector
        floor = self._floor(float(self.total @ vector))
        likeness = np.clip((cosines - floor) / (1 - floor), 0, 1)
        millionths: NDArray[np.int64] = np.rint(likeness * MILLION).astype(np.int64)
        return millionths

    def _floor(self, summed: float) -> float:
        """Return the cosine of what has nothing in common but the model."""
        count = len(self.numbers)
        average = (summed + _PRIOR_SKILLS * self.closeness) / (count + _PRIOR_SKILLS)
        return min(max(average, 0.0), _LARGEST_FLOOR)


def find_nearest(
    likeness: NDArray[np.int64], most: int, least: int, within: NDArray[np.bool_] | None
) -> list[int]:
    """Return the numbers of the skills that are most alike, best first.

    Args:
        likeness: Of each skill.
        most: How many; among equals the lower number is first.
        least: Skills that are less alike are left out.
        within: The skills that may be found; None for all.
    """
    eligible = likeness >= least
    if within is not None:
        eligible &= within
    numbers = np.flatnonzero(eligible)
    if len(numbers) > most:
        chosen = likeness[numbers]
        last = np.partition(chosen, len(chosen) - most)[len(chosen) - most]
        numbers = numbers[chosen >= last]  # equals of the last one, too
    order = np.argsort(-likeness[numbers], kind="stable")
    found: list[int] = numbers[order][:most].tolist()
    return found
