"""Readers, writers and kills at once: no reader ever sees a mix of two commits.

Promise 1, and row 40 of the fault matrix.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

from skills_mcp.content.branch import RemoteBranch
from soak.scenario import Figure, Scale, Scenario
from soak.sync.numbered import Numbers, TornError
from soak.sync.window import Window, open_branch, opened, sync

_WRITERS = 4
_WINDOWS = 6
_TIMES_BEFORE_AN_ANSWER = 1_000_000
"""A writer syncs until it is ended."""


@dataclass(slots=True)
class Reader:
    """Reads all files of what is published, again and again."""

    branch: RemoteBranch
    numbers: Numbers
    commits: int
    """The commits that a reader has to see: with few, there is little to mix."""
    reads: int = 0
    torn: int = 0
    failed: int = 0
    seen: set[str] = field(default_factory=set)

    def read(self) -> None:
        """Read the published commit once, as a server that indexes it does."""
        self.reads += 1
        checkout = self.branch.open()
        if checkout is None or checkout.revision is None:
            self.failed += 1
            return
        self.seen.add(checkout.revision)
        try:
            self.numbers.check(checkout.directory, checkout.revision)
        except TornError:
            self.torn += 1
        except OSError:
            self.failed += 1

    def figures(self, promise: int, of: str) -> Iterator[Figure]:
        """Say what was read, and in how many commits."""
        yield Figure.none(promise, f"torn reads, {of}", self.torn, self.reads)
        said = f"reads with a file or a commit missing, {of}"
        yield Figure.none(promise, said, self.failed, self.reads)
        met = len(self.seen) >= self.commits
        said, target = f"commits seen, {of}", f"at least {self.commits}"
        yield Figure(promise, said, str(len(self.seen)), target, is_met=met)


def read_beside_writers(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Read while four processes sync in a loop, and the branch moves on."""
    numbers = Numbers.create(folder)
    cache, url = folder / "cache", numbers.upstream.url
    commits = scale.count(full=10, quick=4)
    reader = Reader(open_branch(cache, url), numbers, commits)
    sync(reader.branch)
    with opened(_WRITERS, cache, url) as writers, publishing(numbers):
        for writer in writers:
            writer.tell("sync", times=_TIMES_BEFORE_AN_ANSWER)
        _read_until_enough(reader, scale.count(full=10_000, quick=300))
        alive = [writer.exit_status is None for writer in writers]
    yield from reader.figures(1, "4 writers")
    yield Figure.every(1, "writers that survived", sum(alive), _WRITERS)


def read_beside_killers(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Read while six processes sync, and one after the other is killed."""
    numbers = Numbers.create(folder)
    cache, url = folder / "cache", numbers.upstream.url
    commits = scale.count(full=10, quick=4)
    reader = Reader(open_branch(cache, url), numbers, commits)
    sync(reader.branch)
    killer = _Killer(cache, url)
    with publishing(numbers), _repeating(killer.kill):
        _read_until_enough(reader, scale.count(full=10_000, quick=300))
    killer.close()
    yield from reader.figures(1, f"6 windows, {killer.kills} kills")
    yield Figure.none(4, "windows that ended unasked", killer.ended, killer.kills)
    newest = sync(reader.branch).revision
    is_same = newest == numbers.newest
    yield Figure.every(4, "upstream's commit after the kills", int(is_same), 1)


@contextmanager
def publishing(numbers: Numbers) -> Iterator[None]:
    """Push one commit after the other until the block ends."""
    with _repeating(numbers.publish):
        yield


class _Killer:
    """Kills processes at random, and starts new ones in their places."""

    def __init__(self, cache: Path, url: str) -> None:
        self._arguments = (cache, url)
        self._random = random.Random(1)  # noqa: S311 - which one is killed
        self._windows = [self._open() for _ in range(_WINDOWS)]
        self.kills = 0
        self.ended = 0

    def kill(self) -> None:
        """Kill one process, which has synced before, at a random moment."""
        Event().wait(self._random.uniform(0, 0.2))
        busy = [each for each in self._windows if each.has_answered()]
        if not busy:
            return
        window = self._random.choice(busy)
        self.ended += window.exit_status is not None
        window.close()
        self._windows[self._windows.index(window)] = self._open()
        self.kills += 1

    def close(self) -> None:
        for window in self._windows:
            window.close()

    def _open(self) -> Window:
        window = Window(*self._arguments)
        window.tell("sync")
        window.tell("sync", times=_TIMES_BEFORE_AN_ANSWER)
        return window


@contextmanager
def _repeating(action: Callable[[], object]) -> Iterator[None]:
    """Do something again and again on a thread until the block ends."""
    ending = Event()

    def repeat() -> None:
        while not ending.is_set():
            action()

    thread = Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def _read_until_enough(reader: Reader, reads: int) -> None:
    """Read that often, and on until there were enough commits to mix."""
    most = 20 * reads
    while reader.reads < reads or (
        len(reader.seen) < reader.commits and reader.reads < most
    ):
        reader.read()


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("torn-reads", read_beside_writers),
    ("kills-beside-readers", read_beside_killers),
)
