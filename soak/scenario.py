"""A scenario: it uses the real product, and yields figures about a promise.

A scenario gets an empty folder of its own.  It may start processes and servers, and
ends all of them.  What cannot be tried on this machine raises `Unavailable`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.support import PATIENCE_SECONDS


class Unavailable(Exception):  # noqa: N818 - nothing is wrong
    """This machine does not permit what a scenario needs; the message says what."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The measured value of a promise, and its target."""

    promise: int
    """The number in `promises`; figures of the fault matrix have a name."""
    what: str
    """What is counted, in a few words."""
    reached: str
    target: str
    is_met: bool

    @classmethod
    def none(cls, promise: int, what: str, count: int, of: int) -> "Figure":
        """Return a figure that is met if none of `of` cases went wrong."""
        met = count == 0 < of
        return cls(promise, what, f"{count:,} of {of:,}", "0", is_met=met)

    @classmethod
    def every(cls, promise: int, what: str, count: int, of: int) -> "Figure":
        """Return a figure that is met if all of `of` cases went well."""
        met = count == of > 0
        return cls(promise, what, f"{count:,}/{of:,}", f"{of:,}/{of:,}", is_met=met)

    @classmethod
    def at_most(cls, promise: int, what: str, count: float, limit: float) -> "Figure":
        """Return a figure that is met if a value is within a limit."""
        met = count <= limit
        return cls(promise, what, f"{count:,g}", f"at most {limit:,g}", is_met=met)


@dataclass(frozen=True, slots=True)
class Scale:
    """The number of repetitions: of `make check`, or of `make soak`."""

    is_full: bool
    attack_seconds: float
    """How long hostile requests are sent over HTTP."""
    seed: int = 1
    """Of what is drawn at random."""

    @classmethod
    def quick(cls) -> "Scale":
        """Return the scale of `make check`, which takes seconds."""
        return cls(is_full=False, attack_seconds=2 * 60)

    @classmethod
    def full(cls) -> "Scale":
        """Return the scale of `make soak`, which takes minutes."""
        return cls(is_full=True, attack_seconds=30 * 60)

    def count(self, *, full: int, quick: int) -> int:
        """Return one of the two numbers that a scenario gives."""
        return full if self.is_full else quick

    def bound(self, seconds: float) -> float:
        """Return a bound of wall time; in a test it only ends what hangs.

        Other tests run beside it, on a machine that may be slow.
        """
        return seconds if self.is_full else seconds + PATIENCE_SECONDS


Scenario = Callable[[Path, Scale], Iterable[Figure]]
"""Tries promises in an empty folder.

Raises:
    Unavailable: This machine does not permit it.
"""
