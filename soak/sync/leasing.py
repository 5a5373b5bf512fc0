"""Old commits are deleted, but never one with a lease: promise 15."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from skills_mcp.content.branch import RemoteBranch
from soak.scenario import Figure, Scale, Scenario
from soak.sync.numbered import Numbers
from soak.sync.window import Window, open_branch, opened, sync

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


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("leases", hold_leases),)
