"""How far a long piece of work has got, for the people who wait for it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

_Item = TypeVar("_Item")


@dataclass(slots=True)
class Progress:
    """The step of one thread's work; any other thread may read it.

    >>> str(Progress("Reading skills", done=12_400, total=20_000))
    'Reading skills 12,400 of 20,000'
    """

    step: str = ""
    """What is being done; empty if nothing is."""
    done: int = 0
    total: int = 0
    """How many there are to do; 0 if that is not known."""

    def begin(self, step: str, total: int = 0) -> None:
        """Begin a step of so many items."""
        self.done, self.total, self.step = 0, total, step

    def end(self) -> None:
        """Say that nothing is being done any more."""
        self.begin("")

    def track(
        self, step: str, items: Iterable[_Item], total: int = 0
    ) -> Iterator[_Item]:
        """Iterate over the items of a step, and count them."""
        self.begin(step, total)
        for item in items:
            yield item
            self.done += 1

    def __str__(self) -> str:
        if not self.step or not (self.done or self.total):
            return self.step
        of = f" of {self.total:,}" if self.total else ""
        return f"{self.step} {self.done:,}{of}"
