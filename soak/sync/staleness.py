"""Whether a server says how old its content is while the remote is away."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import Mount
from skills_mcp.library.answers import render_state
from soak.scenario import Figure, Scale, Scenario
from soak.sync.mirror import Mirror, mirrored
from tests.content.git_server import Fault, GitServer, answer, cut, hang
from tests.support import git

_DEADLINE_SECONDS = 3.0  # a first sync on a busy machine takes more than 1 s
_INTERVAL_SECONDS = 900.0
_HOUR_SECONDS = 3600.0
_SPARE_SECONDS = 60.0

_FAULTS: Mapping[str, tuple[Fault, str]] = {
    "it hangs": (hang, "SYNC_FAILED"),
    "it fails": (answer(503), "SYNC_FAILED"),
    "it refuses the token": (answer(401), "AUTH_FAILED"),
    "it is not found": (answer(404), "REMOTE_NOT_FOUND"),
    "it cuts off": (cut(0.5), "SYNC_FAILED"),
}


def tell_the_age(folder: Path, _: Scale) -> Iterator[Figure]:
    """Make a remote unreachable in six ways, for an hour, and restore it."""
    outages = {name: _fail(*fault) for name, fault in _FAULTS.items()}
    outages["its branch is gone"] = _lose_branch
    wrong: dict[str, list[str]] = {"at once": [], "an hour later": [], "back": []}
    for number, (name, outage) in enumerate(outages.items()):
        place = folder / str(number)
        place.mkdir()
        with mirrored(place, timeout_seconds=_DEADLINE_SECONDS) as (mirror, server):
            for when, is_right in _go_through(mirror, server, outage):
                wrong[when] += [] if is_right else [name]
    for when, found in wrong.items():
        said = f"{len(outages)} outages, {when}: commit, age, stale or error wrong"
        names = f" ({', '.join(found)})" if found else ""
        yield Figure.none(50, f"{said}{names}", len(found), len(outages))


_Outage = Callable[[Mirror, GitServer], tuple[str, Callable[[], object]]]
"""Makes the remote unreachable; returns the expected message, and how to restore it."""


def _fail(fault: Fault, code: str) -> _Outage:
    def begin(_: Mirror, server: GitServer) -> tuple[str, Callable[[], object]]:
        server.fault = fault
        return code, lambda: setattr(server, "fault", None)

    return begin


def _lose_branch(mirror: Mirror, _: GitServer) -> tuple[str, Callable[[], object]]:
    bare, newest = mirror.upstream.bare, mirror.newest
    git("update-ref", "-d", "refs/heads/main", cwd=bare)
    back = ("update-ref", "refs/heads/main", newest)
    return "REMOTE_NOT_FOUND", lambda: git(*back, cwd=bare)


def _go_through(mirror: Mirror, server: GitServer, outage: _Outage) -> Iterator[tuple[str, bool]]:
    mirror.sync()
    served = mirror.newest
    mirror.push("unseen")
    code, end = outage(mirror, server)
    mirror.sync()
    yield "at once", _says(mirror, served, code, 0.0, is_stale=False)
    _age(mirror, _HOUR_SECONDS)
    mirror.sync()
    yield "an hour later", _says(mirror, served, code, _HOUR_SECONDS, is_stale=True)
    end()
    mirror.sync()
    yield "back", _says(mirror, mirror.newest, None, 0.0, is_stale=False)


def _says(mirror: Mirror, commit: str, code: str | None, age: float, *, is_stale: bool) -> bool:
    """Whether a new process tells an agent how the source is doing."""
    mounts = Mounts((Mount(source=mirror.open()),))
    [state] = mounts.states(mounts.open(), _INTERVAL_SECONDS)
    said = render_state(state)
    error = said.get("error", {})
    is_explained = bool(error.get("message")) and "failed_at" in said
    return (
        said["commit"] == commit
        and age <= said["age_seconds"] <= age + _SPARE_SECONDS
        and said["stale"] is is_stale
        and error.get("code") == code
        and is_explained is (code is not None)
    )


def _age(mirror: Mirror, seconds: float) -> None:
    """Write that the last success was so long ago."""
    file = mirror.store / "current.json"
    said = json.loads(file.read_text(encoding="utf-8"))
    said["fetched_at"] = time.time() - seconds
    file.write_text(json.dumps(said), encoding="utf-8")


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("staleness", tell_the_age),)
