"""Disks that are full, read-only or lose the cache, and how much of them we take."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from soak.scenario import Figure, Scale, Scenario
from soak.stdio import started
from soak.sync.mirror import measure, mirrored
from soak.sync.small_disk import run_on_small_disks
from tests.content.git_server import cut
from tests.support import Upstream, skill_text

_FILES = 20
_FILE_BYTES = 20_000
_MOST_COPIES = 3.0


def fill_disk(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Sync on disks of many sizes, from nothing up to what is needed."""
    sizes = scale.count(full=20, quick=3)
    found = run_on_small_disks(folder, sizes)
    for kind, what in (("old", "with an old commit"), ("empty", "at the first sync")):
        too_small = sum(found[f"{kind}: full"])
        for fact, words in (
            ("typed", "ends with a typed error, or well"),
            ("kept", "serves exactly one whole commit, or none"),
            ("healed", "heals when there is room"),
        ):
            holds = found[f"{kind}: {fact}"]
            said = f"full disk {what} ({too_small} were too small): {words}"
            yield Figure.every(11, said, sum(holds), len(holds))
        yield Figure.at_most(11, f"sizes that sufficed {what}", sizes - too_small, sizes // 2)
    facts = [found[f"read-only: {fact}"] for fact in ("typed", "kept", "healed")]
    holds = [held for fact in facts for held in fact]
    yield Figure.every(11, "read-only: typed, kept, healed", sum(holds), len(holds))


def grow(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Cut off the fetch of much that is new, then fetch a little; again and again."""
    rounds = scale.count(full=50, quick=3)
    with mirrored(folder) as (mirror, server):
        served = mirror.push("much", dict(_invent(_FILES)))
        mirror.sync()
        errors, largest = 0, 0
        for number in range(rounds):
            mirror.push(f"too much {number}", dict(_invent(_FILES)))
            server.fault = cut(0.9)
            errors += mirror.sync() is not None
            largest = max(largest, measure(mirror.store))
            server.fault = None
            mirror.upstream.reset(served)
            file = f"skills/a/{number % _FILES}.bin"
            served = mirror.push(f"little {number}", {file: os.urandom(_FILE_BYTES)})
            errors += mirror.sync() is not None
        is_served = mirror.serves()
        content = measure(mirror.upstream.work) - measure(mirror.upstream.work / ".git")
        copies = round(measure(mirror.store) / content, 2)
    said = f"{rounds} failed and {rounds} good fetches"
    yield Figure.every(14, f"{said}: failed as they should", errors, rounds)
    yield Figure.every(14, f"{said}: the last one is served", is_served, 1)
    yield Figure.at_most(14, f"{said}: copies of the content", copies, _MOST_COPIES)
    # Until the next sync, what was cut off is there.
    worst = round(largest / content, 2)
    yield Figure.at_most(14, f"{said}: at the worst moment", worst, _MOST_COPIES + 1)


def lose_cache(folder: Path, _: Scale) -> Iterator[Figure]:
    """Delete the whole cache below a server that runs."""
    upstream = Upstream.create(folder)
    skill = skill_text(keywords=["one"], assets=[{"file": "more.txt"}])
    upstream.commit({"skills/one.md": skill, "skills/one/more.txt": "More"})
    asset = {"skill_path": "one", "file": "more.txt"}
    with started(folder, SKILLS_REPO=upstream.url) as server:
        before = server.call("get_asset", **asset)
        shutil.rmtree(folder / "home/.skills-mcp/cache")
        during = server.call("get_asset", **asset)
        known = server.call("get_skill", context="one")
        refreshed = server.call("refresh_skills")
        after = server.call("get_asset", **asset)
    lost = [
        "content" in before,
        during["error"]["code"] in {"FILE_MISSING", "FILE_CHANGED"},
        known.get("skill_path") == "one",
        refreshed.get("success") is True,
        after == before,
    ]
    yield Figure.every(10, "the cache deleted below a server: typed, healed", sum(lost), len(lost))


def _invent(count: int) -> Iterator[tuple[str, bytes]]:
    """Yield files that cannot be packed any smaller."""
    for number in range(count):
        yield f"skills/a/{number}.bin", os.urandom(_FILE_BYTES)


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("full-disk", fill_disk),
    ("growth", grow),
    ("lost-cache", lose_cache),
)
