"""Three replicas behind a proxy, each restarted in turn: promise 55."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from soak.http.replicas import Replica, Traffic, haproxy, nginx, replicas
from soak.scenario import Figure, Scale, Scenario
from tests.support import SKILLS_CONTENT, wait_for

_CALLERS = 4
_TASK = "add auth to a react component"

# haproxy asks once a second, and notices within two.
_DRAIN_SECONDS = 3

_SHOWN = 5

_Proxy = Callable[[Path, Sequence[Replica]], AbstractContextManager[int]]


def restart_with_one_cache(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Restart replicas that share a cache behind haproxy."""
    yield from _restart(folder, scale, haproxy, is_shared=True)


def restart_with_caches(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Restart replicas with a cache of their own behind haproxy."""
    yield from _restart(folder, scale, haproxy, is_shared=False)


def restart_behind_nginx(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Restart replicas behind nginx, which does not ask whether they are ready."""
    yield from _restart(folder, scale, nginx, is_shared=True)


def _restart(folder: Path, scale: Scale, proxy: _Proxy, *, is_shared: bool) -> Iterator[Figure]:
    settings = {"http": {"stateless": True, "drain_seconds": _DRAIN_SECONDS}}
    wanted, count = scale.count(full=10_000, quick=200), scale.count(full=3, quick=2)
    options = ("--skills-dir", str(SKILLS_CONTENT))
    with (
        replicas(folder, count, is_shared=is_shared, settings=settings, options=options) as each,
        proxy(folder, each) as port,
        Traffic(port, _CALLERS, _TASK) as traffic,
    ):
        restarts, slowest = 0, 0.0
        while restarts < len(each) or (scale.is_full and traffic.asked < wanted):
            replica = each[restarts % len(each)]
            slowest = max(slowest, replica.stop())
            replica.start()
            replica.wait_until_asked()
            restarts += 1
        wait_for(lambda: traffic.asked >= wanted, seconds=600)
    what = f"requests lost in {restarts} restarts, {proxy.__name__}"
    what += ", one cache" if is_shared else ", a cache each"
    for fault in traffic.lost[:_SHOWN]:
        print(f"lost: {fault}")
    yield Figure.none(55, what, len(traffic.lost), traffic.asked)
    allowed = scale.bound(_DRAIN_SECONDS + 10)
    yield Figure.at_most(55, "seconds to end", round(slowest, 1), allowed)


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("rolling-restart", restart_with_one_cache),
    ("rolling-restart-caches", restart_with_caches),
    ("rolling-restart-nginx", restart_behind_nginx),
)
