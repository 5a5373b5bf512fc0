"""A sync is killed at any instant, and the next one heals what it left: promise 4."""

import random
import shutil
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skills_mcp.errors import SyncError
from soak.scenario import Figure, Scale, Scenario
from soak.sync.numbered import Numbers, TornError
from soak.sync.window import open_branch, opened, sync
from tests.content.git_server import serving

_MEASURED = 3
_FIRST_CLONES = 4
"""One round in so many begins without a cache."""

# Files that exist only during a write.
_UNFINISHED = ("*.lock", ".new-*", ".staging-*", ".deleted-*", "tmp_*", "*.keep")
_KEPT = "sync.lock"


@dataclass(slots=True)
class Rounds:
    """The outcomes of the syncs after a kill."""

    kills: int = 0
    wedged: int = 0
    torn: int = 0
    leftovers: int = 0

    def figures(self, how: str) -> Iterator[Figure]:
        """Return the figures."""
        yield Figure.none(4, f"{how}: next sync failed", self.wedged, self.kills)
        said = f"{how}: content is not upstream's"
        yield Figure.none(4, said, self.torn, self.kills)
        said = f"{how}: next sync left unfinished files"
        yield Figure.none(4, said, self.leftovers, self.kills)

    def heal(self, cache: Path, url: str, numbers: Numbers) -> None:
        """Sync as the next process would, and check the whole cache."""
        self.kills += 1
        try:
            checkout = sync(open_branch(cache, url))
            if checkout.revision != numbers.newest:
                self.torn += 1
            numbers.check(checkout.directory, checkout.revision)
        except SyncError:
            self.wedged += 1
        except (TornError, OSError):
            self.torn += 1
        self.leftovers += bool(find_unfinished(cache))


def find_unfinished(cache: Path) -> list[Path]:
    """Return unfinished files of a writer of commits.

    A half index is not among them: it is deleted after an hour.
    """
    stores = [path for path in cache.iterdir() if path.name != "index"]
    found = (f for each in stores for p in _UNFINISHED for f in each.rglob(p))
    return [path for path in found if path.name != _KEPT]


def kill_at_random(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Kill syncs at random instants, over HTTP and from a folder in turn."""
    numbers = Numbers.create(folder)
    with serving(folder) as server:
        urls = (numbers.upstream.url, f"{server.url}/upstream.git")
        for name, url in zip(("folder", "HTTP"), urls, strict=True):
            cache = folder / f"cache-{name}"
            kills = scale.count(full=100, quick=3)
            rounds = _kill_rounds(cache, url, numbers, kills)
            yield from rounds.figures(f"killed at random, {name}")
            sizes = _measure(cache), _measure_new(folder / "new", url)
            share = round(sizes[0] / sizes[1], 1)
            yield Figure.at_most(4, f"disk use against a new cache, {name}", share, 3)


def _kill_rounds(cache: Path, url: str, numbers: Numbers, kills: int) -> Rounds:
    rounds = Rounds()
    chance = random.Random(4)  # noqa: S311 - instants, no secrets
    duration = _time_syncs(cache, url, numbers)
    tries = 0
    while rounds.kills < kills:
        numbers.publish()
        if tries % _FIRST_CLONES == 0:
            shutil.rmtree(cache, ignore_errors=True)
        tries += 1
        with opened(1, cache, url) as [window]:
            window.ask("greet")
            window.tell("sync")
            was_done = window.has_answered(chance.uniform(0, duration))
            window.kill()
        if not was_done:
            rounds.heal(cache, url, numbers)
    return rounds


def _time_syncs(cache: Path, url: str, numbers: Numbers) -> float:
    """Return the seconds that a sync takes on this machine."""
    taken = []
    with opened(1, cache, url) as [window]:
        for _ in range(_MEASURED):
            numbers.publish()
            began = time.perf_counter()
            window.ask("sync")
            taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def _measure(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _measure_new(cache: Path, url: str) -> int:
    """Return the bytes of a cache whose syncs were never killed."""
    shutil.rmtree(cache, ignore_errors=True)
    sync(open_branch(cache, url))
    return _measure(cache)


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("kills", kill_at_random),)
