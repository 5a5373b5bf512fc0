"""Progress of long-running work, for display."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

_Item = TypeVar("_Item")


@dataclass(slots=True)
class Progress:
    """Current step of one thread; readable from any thread.

    >>> str(Progress("Reading skills", done=12_400, total=20_000))
    'Reading skills 12,400 of 20,000'
    """

    step: str = ""
    """Empty if idle."""
    done: int = 0
    total: int = 0
    """0 if unknown."""

    def begin(self, step: str, total: int = 0) -> None:
        self.done, self.total, self.step = 0, total, step

    def end(self) -> None:
        self.begin("")

    def track(self, step: str, items: Iterable[_Item], total: int = 0) -> Iterator[_Item]:
        self.begin(step, total)
        for item in items:
            yield item
            self.done += 1

    def __str__(self) -> str:
        if not self.step or not (self.done or self.total):
            return self.step
        of = f" of {self.total:,}" if self.total else ""
        return f"{self.step} {self.done:,}{of}"
