"""A network that hangs, cuts off, garbles or is away, and a clock that is wrong."""

import json
import os
import random
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import (
    Freshness,
    Mount,
    SyncAttempt,
    accept_any_commit,
    derive_failure,
)
from skills_mcp.errors import LimitExceededError, SyncError
from skills_mcp.processes.retry import is_backing_off
from soak.scenario import Figure, Scale, Scenario
from soak.sync.mirror import Mirror, mirrored
from tests.content.git_server import (
    Fault,
    answer,
    cut,
    flip,
    flood,
    hang,
    hang_after_headers,
    only,
    stall,
)
from tests.support import running_python

_DEADLINE_SECONDS = 1.0
_SPARE_SECONDS = 2.0

# So much that nearly every byte of the answer is one of the pack.
_PACK_BYTES = 60_000

_WINDOWS = 10
_OUTAGE_SECONDS = 5 * 60.0
_LOOK_SECONDS = 5.0
_INTERVAL_SECONDS = 15 * 60.0
_MOST_REQUESTS = 12

_YEAR_SECONDS = 365 * 86_400.0

_HANGING: Mapping[str, Fault] = {
    "at the first byte": hang,
    "after the headers": hang_after_headers,
    "in the second request": only("ls-refs", hang),
    "before the pack": only("fetch", hang),
    "after the headers of the pack": only("fetch", hang_after_headers),
    "in the middle of the pack": stall(0.5),
}

# What many windows do while their remote is away: they ask as soon as they may.
_IMPATIENT = """
import sys, time
from pathlib import Path
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.source import SyncPolicy
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import Freshness, accept_any_commit
from skills_mcp.errors import SyncError
source = RemoteBranch(Remote(sys.argv[1], "main"), Path(sys.argv[2]), SyncPolicy())
failed = 0
for _ in range(int(sys.argv[3])):
    try:
        source.sync(Freshness(time.time()), accept_any_commit)
    except SyncError:
        failed += 1
print(failed)
"""


def end_by_deadline(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Let a remote hang in six places, all of them at the same time."""
    with ThreadPoolExecutor(len(_HANGING)) as pool:
        jobs = [
            pool.submit(_try_hanging, folder / str(number), fault)
            for number, fault in enumerate(_HANGING.values())
        ]
        found = [job.result() for job in jobs]
    ended = sum(typed and kept for typed, kept, _, _ in found)
    excess = max(excess for _, _, _, excess in found)
    yield Figure.every(12, "hanging remotes: ended, old kept", ended, len(found))
    left = sum(left for _, _, left, _ in found)
    yield Figure.none(12, "hanging remotes: processes left", left, len(found))
    limit = scale.bound(_SPARE_SECONDS)
    yield Figure.at_most(12, "longest after the deadline (s)", round(excess, 1), limit)


def survive_floods(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Advertise too many refs, and send more than may be fetched."""
    refs = scale.count(full=1_000_000, quick=20_000)
    with mirrored(folder, max_total_bytes=100_000) as (mirror, server):
        mirror.sync()
        server.fault = flood(refs)
        flooded = mirror.sync()
        kept = [mirror.serves()]
        server.fault = None
        before = mirror.newest
        mirror.push("too much", {"skills/a/large.bin": os.urandom(2_000_000)})
        exceeded = mirror.sync()
        kept.append(mirror.serves(before))
    yield Figure.every(12, f"{refs:,} refs: ended, typed", flooded is not None, 1)
    is_typed = isinstance(exceeded, LimitExceededError)
    yield Figure.every(12, "a pack that is too large: typed", is_typed, 1)
    yield Figure.every(12, "both: old content served", sum(kept), len(kept))


def refuse_broken_packs(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Cut packs off at many bytes, and change one byte at many places."""
    times = scale.count(full=50, quick=2)
    with mirrored(folder) as (mirror, server):
        mirror.sync()
        for name, spoil in (("cut off", cut), ("changed by a byte", flip)):
            published, harmless = 0, 0
            for number in range(times):
                old, new = mirror.newest, _push_much(mirror, f"{name} {number}")
                server.fault = spoil((number + 0.5) / times)
                mirror.sync()
                served = mirror.served()
                # The changed byte may lie in a progress message, which has no effect.
                harmless += served == new
                published += served not in (old, new)
                server.fault = None
                mirror.sync()
            said = f"packs {name}: published ({harmless} hit no byte that counts)"
            yield Figure.none(13, said, published, times)
            yield Figure.at_most(13, f"packs {name}: no harm", harmless, times // 10)
        yield Figure.every(13, "whole again afterwards", mirror.serves(), 1)


def spare_remote(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Let processes ask a remote that is away: by a fake clock and in real time."""
    seeds = 200
    found = [_simulate_outage(random.Random(seed)) for seed in range(seeds)]  # noqa: S311
    requests = [count for count, _ in found]
    said = f"{_WINDOWS} windows, 5 minutes, {seeds} seeds: "
    yield Figure.at_most(16, f"{said}most requests", max(requests), _MOST_REQUESTS)
    mean = round(statistics.mean(requests), 1)
    yield Figure.at_most(16, f"{said}requests on average", mean, _MOST_REQUESTS)
    latest = max(late for _, late in found) / _INTERVAL_SECONDS
    yield Figure.at_most(16, f"{said}recovered after intervals", round(latest, 2), 1)
    yield from _ask_for_real(folder, scale)


def survive_clock(folder: Path, _: Scale) -> Iterator[Figure]:
    """Find times in the files that a wrong clock has written."""
    mirror = Mirror.create(folder)
    mirror.sync()
    passed, ages = [], []
    for years in (10, -10, 10_000, -60, 1):
        for name in ("current.json", "state.json"):
            _shift(mirror.store / name, years, has_failed=years != 1)
        mounts = Mounts((Mount(source=mirror.open()),))
        [state] = mounts.states(mounts.open(), _INTERVAL_SECONDS)
        ages.append(state.age_seconds is None or state.age_seconds >= 0)
        mirror.push(f"{years} years")
        passed.append(_syncs_by_timer(mirror))
    yield Figure.every(
        16, "clock was wrong by years: synced by the timer", sum(passed), len(passed)
    )
    yield Figure.every(16, "clock was wrong: no negative age", sum(ages), len(ages))


def _try_hanging(folder: Path, fault: Fault) -> tuple[bool, bool, int, float]:
    """Return whether it is reported and the old commit stays, the rest, the delay."""
    folder.mkdir()
    with mirrored(folder) as (mirror, server):
        mirror.sync()
        old = mirror.newest
        _push_much(mirror, "new")
        mirror.policy = replace(mirror.policy, timeout_seconds=_DEADLINE_SECONDS)
        mirror.source = mirror.open()
        server.fault = fault
        began = time.monotonic()
        error = mirror.sync()
        seconds = time.monotonic() - began
        left = _count_processes(server.url, str(mirror.cache))
        return error is not None, mirror.serves(old), left, seconds - _DEADLINE_SECONDS


def _push_much(mirror: Mirror, said: str) -> str:
    return mirror.push(said, {"skills/a/data.bin": os.urandom(_PACK_BYTES)})


def _count_processes(*names: str) -> int:
    """Return how many processes have one of the names among their arguments."""
    done = subprocess.run(
        ["ps", "-A", "-ww", "-o", "stat=,args="],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = (line for line in done.stdout.splitlines() if not line.startswith("Z"))
    return sum(any(name in line for name in names) for line in lines)


def _simulate_outage(randomness: random.Random) -> tuple[int, float]:
    """Return the number of requests, and the seconds until its return was noticed."""
    phases = [randomness.uniform(0, _LOOK_SECONDS) for _ in range(_WINDOWS)]
    attempt, requests, turn = SyncAttempt(), 0, 0
    looks = sorted(phases)
    while True:
        number, window = divmod(turn, _WINDOWS)
        now = number * _LOOK_SECONDS + looks[window]
        turn += 1
        if is_backing_off(attempt.next_attempt_at, now):
            continue
        if now > _OUTAGE_SECONDS:
            return requests, now - _OUTAGE_SECONDS
        requests += 1
        attempt = derive_failure(
            attempt,
            SyncError("503"),
            now,
            longest_seconds=_INTERVAL_SECONDS,
            randomness=randomness,
        )


def _ask_for_real(folder: Path, scale: Scale) -> Iterator[Figure]:
    windows = scale.count(full=_WINDOWS, quick=3)
    times = scale.count(full=100, quick=10)
    with mirrored(folder) as (mirror, server), ExitStack() as stack:
        server.fault = answer(503)
        words = (_IMPATIENT, mirror.remote.url, mirror.cache, times)
        asking = [stack.enter_context(running_python(*words)) for _ in range(windows)]
        failed = sum(int(process.communicate()[0]) for process in asking)
        requests = server.counts["info/refs"]
        server.fault = None
        mirror.sync()
        is_back = mirror.serves()
    asked = windows * times
    said = f"{windows} processes that ask {asked} times"
    yield Figure.every(16, f"{said}: told that it is away", failed, asked)
    yield Figure.at_most(16, f"{said}: requests", requests, _MOST_REQUESTS)
    yield Figure.every(16, f"{said}: refresh recovers at once", is_back, 1)


def _shift(file: Path, years: int, *, has_failed: bool) -> None:
    """Move every time in a file, also those of a failure that did not happen."""
    moment = time.time() + years * _YEAR_SECONDS
    said = json.loads(file.read_text(encoding="utf-8"))
    for name in ("fetched_at", "attempted_at", "next_attempt_at"):
        if name in said:
            said[name] = moment
    if "failures" in said and has_failed:
        said |= {"failures": 3, "error_code": "SYNC_FAILED", "error_message": "x"}
    file.write_text(json.dumps(said), encoding="utf-8")


def _syncs_by_timer(mirror: Mirror) -> bool:
    source = mirror.open()
    if source.next_sync_at(_INTERVAL_SECONDS) > time.time():
        return False
    try:
        source.sync(Freshness(time.time() - _LOOK_SECONDS), accept_any_commit)
    except SyncError:
        return False
    return mirror.serves()


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("deadlines", end_by_deadline),
    ("floods", survive_floods),
    ("broken-packs", refuse_broken_packs),
    ("back-off", spare_remote),
    ("clock", survive_clock),
)
