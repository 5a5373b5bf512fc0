"""A sync is killed at every single call that changes the disk: promise 4.

strace counts the calls of one sync; then each of them, in turn, is the last one.
"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from soak.scenario import Figure, Scale, Scenario, Unavailable
from soak.sync.killing import Rounds
from soak.sync.numbered import SKILLS, Numbers
from soak.sync.window import PATIENCE_SECONDS, open_branch, sync
from tests.support import PROJECT

_CALLS = (
    *("rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir"),
    *("mkdir", "mkdirat", "link", "linkat", "symlink", "chmod", "fchmodat"),
    *("utimensat", "write", "ftruncate", "fsync", "fdatasync", "syncfs", "openat"),
)
_NAMES = ",".join(f"?{call}" for call in _CALLS)  # not every processor has all
_CREATES = "O_CREAT"

# With its children, the call of this number is the last one of each process: none of
# Git's commands has many more.
_IN_ALL = {"link": 2, "rename": 3, "unlink": 6, "write": 8, "openat": 30, "fsync": 3}
_KILLED = "+++ killed by SIGKILL +++"


class Point(NamedTuple):
    """A call, and which one of its kind."""

    call: str
    number: int


def kill_at_each_call(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Kill Python, and then Git, before each call that changes the disk."""
    check_strace()
    numbers = Numbers.create(folder)
    kinds = (False, True) if scale.is_full else (False,)
    for is_first in kinds:
        what = "first clone" if is_first else "next commit"
        trial = _Trial(folder, numbers, is_first=is_first)
        points = trial.record()
        chosen = _spread(points, scale.count(full=len(points), quick=3))
        yield from trial.kill(chosen, ()).figures(f"killed at each call, {what}")
    trial = _Trial(folder, numbers, is_first=False)
    points = [Point(call, n + 1) for call, most in _IN_ALL.items() for n in range(most)]
    chosen = _spread(points, scale.count(full=len(points), quick=1))
    rounds = trial.kill(chosen, ("-f",))
    yield from rounds.figures("every process killed at a call")


def kill_while_indexing(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Kill `skills-mcp sync` before calls that change the index it keeps."""
    check_strace()
    numbers = Numbers.create(folder)
    trial = _Trial(folder, numbers, is_first=False, is_program=True)
    points = trial.record()
    chosen = _spread(points, scale.count(full=30, quick=1))
    yield from trial.kill(chosen, ()).figures("killed at a call, index")


def check_strace() -> None:
    """See that strace is here, and may do what we need.

    Raises:
        Unavailable: It is not, or may not.
    """
    if shutil.which("strace") is None:
        raise Unavailable("strace is not installed")
    done = subprocess.run(
        ["strace", "-o", "/dev/null", "-e", "inject=uname:signal=KILL", "uname"],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode == 0 or "strace:" in done.stderr:
        raise Unavailable(f"strace may not trace here: {done.stderr.strip()}")


class _Trial:
    """Syncs of one kind, each from the same beginning."""

    def __init__(
        self,
        folder: Path,
        numbers: Numbers,
        *,
        is_first: bool,
        is_program: bool = False,
    ) -> None:
        self._folder = folder
        self._numbers = numbers
        self._url = numbers.upstream.url
        self._cache = folder / "cache"
        self._is_first = is_first
        self._is_program = is_program
        self._watched = self._cache / "index" if is_program else self._cache

    def record(self) -> list[Point]:
        """Return every call of one sync that changes the cache."""
        self._begin()
        self._begin()  # or there is nothing to delete yet
        log = self._run("-y", "-e", f"trace={_NAMES}")
        counts: Counter[str] = Counter()
        points = []
        for line in log.splitlines():
            call = line.partition("(")[0]
            counts[call] += 1
            is_change = call != "openat" or _CREATES in line
            if str(self._watched) in line and is_change:
                points.append(Point(call, counts[call]))
        return points

    def kill(self, points: Sequence[Point], more: tuple[str, ...]) -> Rounds:
        """Kill one sync at each of the points, and heal what it leaves."""
        rounds = Rounds()
        for call, number in points:
            self._begin()
            inject = f"inject={call}:signal=KILL:when={number}"
            log = self._run(*more, "-e", f"trace={call}", "-e", inject)
            if _KILLED in log:
                rounds.wedged += self._is_program and not self._is_served()
                rounds.heal(self._cache, self._url, self._numbers)
        return rounds

    def _begin(self) -> None:
        if self._is_first:
            shutil.rmtree(self._cache, ignore_errors=True)
        elif self._is_program:
            self._start()
        else:
            sync(open_branch(self._cache, self._url))
        self._numbers.publish()

    def _run(self, *strace: str) -> str:
        """Sync once below strace, to an early end or not; return what it has seen."""
        log = self._folder / "calls.log"
        self._start("strace", "-o", str(log), *strace)
        return log.read_text(errors="replace")

    def _is_served(self) -> bool:
        """Whether the next process syncs, and has every skill of the commit."""
        done = self._start()
        return done.returncode == 0 and json.loads(done.stdout)["skills"] == SKILLS

    def _start(self, *prefix: str) -> "subprocess.CompletedProcess[str]":
        module: tuple[str, ...] = ("soak.sync.window", str(self._cache), self._url)
        if self._is_program:
            module = ("skills_mcp", "sync", "--json", "--repo", self._url)
        return subprocess.run(
            [*prefix, sys.executable, "-m", *module],
            cwd=PROJECT,
            env=os.environ | {"SKILLS_MCP_HOME": str(self._cache.parent)},
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )


def _spread(points: Sequence[Point], count: int) -> list[Point]:
    """Return so many of them, from the first to the last."""
    if count >= len(points):
        return list(points)
    step = (len(points) - 1) / max(1, count - 1)
    return [points[round(place * step)] for place in range(count)]


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("calls", kill_at_each_call),
    ("index-calls", kill_while_indexing),
)
