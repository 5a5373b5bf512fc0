"""Readers, writers and kills at once: no reader ever sees a mix of two commits.

Promise 1, and row 40 of the fault matrix; promise 19, for a server that answers while
its commit is replaced; and promise 15, for commits with a lease, which stay.
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from threading import Event, Thread
from typing import Any

from skills_mcp.content.branch import RemoteBranch
from soak.scenario import Figure, Scale, Scenario
from soak.sync.numbered import ASSET, SKILL, Numbers, TornError, read_numbers
from soak.sync.window import PATIENCE_SECONDS, Window, open_branch, opened, sync
from tests.clients import ServerProcess

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
        _read_until_enough(reader, scale.count(full=10_000, quick=120))
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
        _read_until_enough(reader, scale.count(full=10_000, quick=120))
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
    # A busy machine has time for many reads, and for few syncs that nobody kills.
    deadline = time.monotonic() + PATIENCE_SECONDS
    while reader.reads < reads or (
        len(reader.seen) < reader.commits and time.monotonic() < deadline
    ):
        reader.read()


_TOOLS = (
    ("get_skill", {"context": SKILL}),
    ("get_asset", {"skill_path": SKILL, "file": ASSET}),
)
_AT_ONCE = 10
"""Requests that wait for their answers at the same time."""


@dataclass(slots=True)
class _Tally:
    """The counts of answers."""

    replies: int = 0
    wrong: int = 0
    swaps: int = 0
    failed: int = 0

    def add(self, numbers: Numbers, reply: dict[str, Any]) -> None:
        """Compare a reply with the commit that it names."""
        self.replies += 1
        commit, content = reply.get("commit"), reply.get("content", "")
        if commit not in numbers.commits:
            self.wrong += 1
            return
        number = numbers.commits.index(commit)
        self.wrong += read_numbers(content) != (number, number)


def answer_during_swaps(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Ask a real server without a pause, while 50 commits are pushed and refreshed."""
    numbers = Numbers.create(folder)
    swaps = scale.count(full=50, quick=3)
    each = scale.count(full=10_000, quick=120) // swaps
    server = ServerProcess(
        environment={
            "SKILLS_REPO": numbers.upstream.url,
            "SKILLS_MCP_HOME": str(folder / "home"),
        },
        log=folder / "server.log",
    )
    tally = _Tally()
    try:
        server.call("get_skill", context=SKILL)
        for _ in range(swaps):
            numbers.publish()
            _ask_during_refresh(server, numbers, tally, each)
    finally:
        server.close()
    yield Figure.none(19, "replies not of the commit that they name", tally.wrong, tally.replies)
    yield Figure.every(19, "refreshes that brought the pushed commit", tally.swaps, swaps)


def _ask_during_refresh(server: ServerProcess, numbers: Numbers, tally: _Tally, least: int) -> None:
    """Refresh, and ask on until that is done, and often enough."""
    refresh = server.send("tools/call", name="refresh_skills", arguments={})
    open_requests, asked, is_refreshed = {refresh}, 0, False
    while open_requests:
        while len(open_requests) < _AT_ONCE and (asked < least or not is_refreshed):
            tool, arguments = _TOOLS[asked % len(_TOOLS)]
            open_requests.add(server.send("tools/call", name=tool, arguments=arguments))
            asked += 1
        message = server.receive()
        if message.get("id") not in open_requests:
            continue
        open_requests.remove(message["id"])
        reply = json.loads(message["result"]["content"][0]["text"])
        if message["id"] == refresh:
            is_refreshed = True
            tally.swaps += reply.get("commit_hash") == numbers.newest
        else:
            tally.add(numbers, reply)


_NEEDED = 2
"""The published commit, and the one before."""


def hold_leases(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Hold ten old commits in as many processes, while others publish and collect."""
    numbers = Numbers.create(folder)
    cache, url = folder / "cache", numbers.upstream.url
    branch = open_branch(cache, url)
    holders, later = scale.count(full=10, quick=3), scale.count(full=60, quick=4)
    with opened(holders, cache, url) as windows:
        for number, window in enumerate(windows):
            sync(branch)
            held = window.ask("hold", number=number)
            assert held == numbers.newest  # noqa: S101 - of the scenario
            numbers.publish()
        errors = [*chain.from_iterable(_move_on(windows, numbers, branch, later))]
        yield Figure.none(15, "reads of held commits that failed", *_count(errors))
        yield _at_most(cache, f"snapshots with {holders} leases", holders)
        half = holders // 2
        for window in windows[:half]:
            window.ask("release")
        numbers.publish()
        sync(branch)
        yield _at_most(cache, f"snapshots with {holders - half} leases", holders - half)
        for window in windows:
            window.kill()
    numbers.publish()
    sync(branch)
    yield _at_most(cache, "snapshots after every reader was killed", 0)


def _move_on(
    windows: list[Window], numbers: Numbers, branch: RemoteBranch, times: int
) -> Iterator[list[str]]:
    """Publish and collect, and let all read what they hold at the same time."""
    for _ in range(times):
        for window in windows:
            window.tell("read")
        numbers.publish()
        sync(branch)
        yield [window.hear() for window in windows]


def _count(errors: list[str]) -> tuple[int, int]:
    return sum(map(bool, errors)), len(errors)


def _at_most(cache: Path, what: str, leases: int) -> Figure:
    [snapshots] = cache.glob("*/snap")
    commits = sum(path.is_dir() for path in snapshots.iterdir())
    return Figure.at_most(15, what, commits, _NEEDED + leases)


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("torn-reads", read_beside_writers),
    ("kills-beside-readers", read_beside_killers),
    ("leases", hold_leases),
    ("swaps", answer_during_swaps),
)
