"""A writer that was killed, or stopped, while its Git still works.

Promise 6, and row 41 of the fault matrix.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

from skills_mcp.content.commit_store import CommitStore
from skills_mcp.errors import SyncError
from skills_mcp.events.spool import LocalEvents
from skills_mcp.files.durable import delete_tree
from soak.scenario import Figure, Scale, Scenario
from soak.stdio import started
from soak.sync.numbered import SKILL, Numbers
from soak.sync.window import Window, open_branch, sync
from tests.content.git_server import GitServer, Request, serving

_PATIENCE_SECONDS = 30.0
"""How long a process waits for a lock that has to become free."""

_HOUR_SECONDS = 60 * 60.0

_LOCKS = ("cache/*/sync.lock", "cache/*/snap/*.lease", "cache/index/*/lock",
          "spool/attempts.lock", "spool/*.jsonl", "archive/*.jsonl")  # fmt: skip
"""The files that a server locks, below its home."""

_NO_RECEIVER = "http://127.0.0.1:9/events"
"""The port of RFC 863, at which no program listens: events stay on the machine."""

_HOLD = """
import fcntl, sys
handle = open(sys.argv[1], "a+b")
fcntl.flock(handle, getattr(fcntl, "LOCK_" + sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


class _Gate:
    """Holds the pack back until it is opened."""

    def __init__(self, server: GitServer) -> None:
        self._server = server
        self._opened = Event()
        self.is_asked = Event()
        server.fault = self._answer

    def open(self) -> None:
        """Let all requests go on."""
        self._opened.set()
        self._server.fault = None

    def _answer(self, request: Request) -> None:
        if request.kind == "fetch":
            self.is_asked.set()
            self._opened.wait()
        request.serve()


def kill_in_mid_fetch(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Kill the process while its Git waits for a pack; its Git ends with it."""
    numbers = Numbers.create(folder)
    times = scale.count(full=20, quick=2)
    ended = healed = 0
    with serving(folder) as server:
        cache, url = folder / "cache", f"{server.url}/upstream.git"
        sync(open_branch(cache, url))
        [store] = (CommitStore(path) for path in cache.iterdir() if path.is_dir())
        for _ in range(times):
            numbers.publish()
            gate, window = _Gate(server), Window(cache, url)
            window.tell("sync")
            gate.is_asked.wait()
            window.kill()
            # The gate stays closed: a Git that lives on would wait for ever.
            ended += _can_write(store) and not _has_git(store)
            gate.open()
            window.close()
            healed += sync(open_branch(cache, url)).revision == numbers.newest
    yield Figure.every(6, "killed processes whose Git ended with them", ended, times)
    yield Figure.every(6, "next sync after such an end", healed, times)


def stop_in_mid_fetch(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Stop a process that syncs: others serve on, say so, and take over in the end."""
    numbers = Numbers.create(folder)
    times = scale.count(full=10, quick=2)
    served = polite = taken = followed = 0
    with serving(folder) as server:
        cache, url = folder / "cache", f"{server.url}/upstream.git"
        other = open_branch(cache, url)
        sync(other)
        for _ in range(times):
            before = numbers.newest
            numbers.publish()
            gate, window = _Gate(server), Window(cache, url)
            window.tell("sync")
            gate.is_asked.wait()
            window.stop()
            checkout = other.open()
            served += checkout is not None and checkout.revision == before
            try:
                sync(other)
            except SyncError as error:
                polite += "shows no life" in str(error)
            gate.open()
            _age(cache)
            taken += sync(other).revision == numbers.newest
            window.resume()
            window.hear()
            window.close()
            followed += _commit(cache, url) == numbers.newest
    yield Figure.every(3, "served on beside a stopped writer", served, times)
    yield Figure.every(3, "told that a writer was stopped", polite, times)
    yield Figure.every(3, "took over from a writer stopped for minutes", taken, times)
    yield Figure.every(3, "newest commit still served once it went on", followed, times)


def stop_at_every_lock(folder: Path, _: Scale) -> Iterator[Figure]:
    """Stop a process at each lock of a home; a new server builds, answers and records.

    A lease is held by many readers, each other lock by one process alone.
    """
    url, home = Numbers.create(folder).upstream.url, folder / "home" / ".skills-mcp"
    _answer(folder, url)
    locks = sorted(path for kind in _LOCKS for path in home.glob(kind))
    answered = {}
    for lock in locks:
        for state in home.glob("cache/index/*/[0-9]*"):
            delete_tree(state)
        before = _count_events(home)
        with _stopped_at(lock):
            is_answered = _answer(folder, url)
        is_recorded = _count_events(home) > before
        answered[lock.relative_to(home).as_posix()] = is_answered and is_recorded
    missed = ", ".join(name for name, is_good in answered.items() if not is_good)
    what = f"answers beside a stopped process, by lock {missed}".strip()
    yield Figure.every(3, what, sum(answered.values()), len(locks))


def _answer(folder: Path, url: str) -> bool:
    """Start a server, and return whether it serves the skill."""
    variables = {"SKILLS_REPO": url, "ANALYTICS_ENDPOINT": _NO_RECEIVER}
    with started(folder, **variables) as server:
        reply = server.call("get_skill", context=f"{SKILL} numbers")
    return reply.get("skill_path") == SKILL


def _count_events(home: Path) -> int:
    return sum(1 for _ in LocalEvents(home).events())


@contextmanager
def _stopped_at(lock: Path) -> Iterator[None]:
    """Hold a lock in another process, which is stopped during the block."""
    how = "SH" if lock.suffix == ".lease" else "EX"
    words = [sys.executable, "-c", _HOLD, os.fspath(lock), how]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as holder:
        try:
            if holder.stdout is None or holder.stdout.readline() != b"held\n":
                raise RuntimeError(f"{lock} cannot be locked")
            holder.send_signal(signal.SIGSTOP)
            yield
        finally:
            holder.kill()


def _can_write(store: CommitStore) -> bool:
    with suppress(SyncError), store.exclusive(timeout_seconds=_PATIENCE_SECONDS):
        return True
    return False


def _age(cache: Path) -> None:
    """Let the lock of a sync look as if its holder had shown no life for an hour."""
    for lock in cache.glob("*/sync.lock"):
        os.utime(lock, (time.time() - _HOUR_SECONDS,) * 2)


def _has_git(store: CommitStore) -> bool:
    """Whether a Git process works in this store."""
    running = subprocess.run(
        ["ps", "-A", "-ww", "-o", "args="], check=True, capture_output=True, text=True
    )
    return str(store.objects) in running.stdout


def _commit(cache: Path, url: str) -> str | None:
    checkout = open_branch(cache, url).open()
    return checkout.revision if checkout else None


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("orphans", kill_in_mid_fetch),
    ("stopped-writers", stop_in_mid_fetch),
    ("stopped-windows", stop_at_every_lock),
)
