"""A writer that was killed, or stopped, while its Git still works.

Promise 6, and row 41 of the fault matrix.
"""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event

from skills_mcp.content.store.snapshot_store import SnapshotStore
from skills_mcp.errors import SyncError
from soak.scenario import Figure, Scale, Scenario
from soak.sync.numbered import Numbers
from soak.sync.window import Window, open_branch, sync
from tests.content.git_server import GitServer, Request, serving

_MOST_ROUNDS = 3
"""The most rounds for each orphan."""

_GLANCE_SECONDS = 0.1
"""How long a process waits for a lock that it cannot get."""


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
    """Kill the process while its Git waits for a pack; no other process may write."""
    numbers = Numbers.create(folder)
    times = scale.count(full=20, quick=2)
    orphans = shared = healed = rounds = 0
    with serving(folder) as server:
        cache, url = folder / "cache", f"{server.url}/upstream.git"
        sync(open_branch(cache, url))
        [store] = (SnapshotStore(path) for path in cache.iterdir() if path.is_dir())
        while orphans < times and rounds < _MOST_ROUNDS * times:
            rounds += 1
            numbers.publish()
            gate, window = _Gate(server), Window(cache, url)
            window.tell("sync")
            gate.is_asked.wait()
            window.kill()
            # Git may end by itself, when it writes to a closed pipe.
            orphans += _has_git(store)
            shared += _can_write_beside_git(store)
            gate.open()
            window.close()
            healed += sync(open_branch(cache, url)).revision == numbers.newest
    yield Figure.every(6, "killed processes whose Git lived on", orphans, times)
    yield Figure.none(6, "lock taken while an orphaned Git lives", shared, orphans)
    yield Figure.every(6, "next sync after the orphan has ended", healed, rounds)


def stop_in_mid_fetch(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Stop a process that holds the lock: others serve on, and time out politely."""
    numbers = Numbers.create(folder)
    times = scale.count(full=10, quick=2)
    served = polite = healed = 0
    with serving(folder) as server:
        cache, url = folder / "cache", f"{server.url}/upstream.git"
        impatient = open_branch(cache, url, timeout_seconds=_GLANCE_SECONDS)
        sync(open_branch(cache, url))
        for _ in range(times):
            before = numbers.newest
            numbers.publish()
            gate, window = _Gate(server), Window(cache, url)
            window.tell("sync")
            gate.is_asked.wait()
            window.stop()
            checkout = impatient.open()
            served += checkout is not None and checkout.revision == before
            try:
                sync(impatient)
            except SyncError as error:
                polite += "another sync" in str(error)
            gate.open()
            window.resume()
            window.hear()
            window.close()
            healed += _commit(cache, url) == numbers.newest
    yield Figure.every(3, "served on beside a stopped writer", served, times)
    yield Figure.every(3, "polite time-outs beside it", polite, times)
    yield Figure.every(3, "syncs that it finished once it went on", healed, times)


def _can_write_beside_git(store: SnapshotStore) -> bool:
    with suppress(SyncError), store.exclusive(timeout_seconds=_GLANCE_SECONDS):
        return _has_git(store)
    return False


def _has_git(store: SnapshotStore) -> bool:
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
)
