"""Receivers that refuse, hang or are away: promises 44, 45 and 46."""

import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from skills_mcp.config import Analytics
from skills_mcp.events.privacy import Privacy
from skills_mcp.events.publisher import Publisher
from skills_mcp.events.spool import LocalEvents, Outbox
from skills_mcp.events.tracker import Tracker
from soak.events.receivers import Answer, Choose, receiving
from soak.scenario import Figure, Scale, Scenario
from soak.stdio import started
from tests.support import SKILLS_CONTENT, write

_FLUSHES = 2
_GOOD = 200  # events beside the bad ones
_MOST_MICROSECONDS = 100
_ROOM_BYTES = 1 << 26  # nothing is dropped here
_MOST_SECONDS = 1.5
_TASK = "add a login page with OAuth to the React application of the shop"

_Poison = tuple[str, Answer, str]
_POISONS: tuple[_Poison, ...] = (
    ("an event refused with 400", 400, "poison"),
    ("an event refused with 422", 422, "poison"),
    ("an event refused with 413", 413, "poison " * 2000),
)
_BROKEN = {
    "a line of garbage": b"\x00\xff nonsense\n",
    "a line cut off": b'{"type": "no_match", "data": {"conte',
    "a line without an end": b"x" * 3_000_000,
    "JSON that is no event": b"[1]\nnull\n7\n" + b"[" * 100_000 + b"\n",
    "a number that is none": b'{"n": NaN}\n',
}


def pass_poison(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Put one bad event, segment or answer among many good ones."""
    places = scale.count(full=5, quick=1)
    for name, status, text in _POISONS:
        delivered = sum(
            _pass_event(folder / f"{status}-{place}", status, text, place / places)
            for place in range(places)
        )
        what = f"{name}: others delivered within {_FLUSHES} flushes"
        yield Figure.every(44, what, delivered, places * _GOOD)
    for number, (name, data) in enumerate(_BROKEN.items()):
        home = folder / f"broken-{number}"
        write(home / "spool" / "0.jsonl", data)
        delivered = _count_delivered(home, lambda _: "accept")
        what = f"{name}: others delivered within {_FLUSHES} flushes"
        yield Figure.every(44, what, delivered, _GOOD)


def _pass_event(home: Path, status: Answer, text: str, place: float) -> int:
    """Return how many good events arrive beside one that is refused."""
    tracker, outbox = _counting(home)
    poisoned = int(_GOOD * place)
    for number in range(_GOOD):
        if number == poisoned:
            tracker.track("no_match", context=text)
        tracker.track("no_match", context=f"good {number}")
    outbox.spool.rotate()
    return _count_delivered(
        home, lambda body: status if b"poison" in body else "accept", tracked=True
    )


def _count_delivered(home: Path, choose: Choose, *, tracked: bool = False) -> int:
    if not tracked:
        tracker, outbox = _counting(home)
        for number in range(_GOOD):
            tracker.track("no_match", context=f"good {number}")
        outbox.spool.rotate()
    with receiving(choose) as receiver:
        publisher = Publisher(Outbox(home), lambda: _rules(receiver.url))
        for _ in range(_FLUSHES):
            anyio.run(publisher.publish)
        return sum(
            str(event["data"]["context"]).startswith("good")
            for event in receiver.events()
            if "data" in event
        )


def count_beside_a_dead_endpoint(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Measure `track` while a sender of the same process waits for an answer."""
    count = scale.count(full=20_000, quick=1_000)
    tracker, outbox = _counting(folder, disclosure="hashed")
    taken: list[float] = []

    async def measure(url: str) -> None:
        publisher = Publisher(
            outbox, lambda: _rules(url, disclosure="hashed"), interval_seconds=0.05
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publisher.run)
            for number in range(count):
                taken.append(_time_event(tracker, number))
                if number % 100 == 0:
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    with _silent() as url:
        anyio.run(measure, url)
    outbox.spool.rotate()
    bare = _time_bare_writes(folder / "bare", count)
    taken.sort()
    median, slow = statistics.median(taken), taken[int(count * 0.99)]
    what = f"track() beside a dead endpoint, {count:,} events: "
    if scale.is_full:  # elsewhere the machine is busy with other tests
        yield Figure.at_most(45, f"{what}median µs", round(median), _MOST_MICROSECONDS)
    else:
        yield Figure(45, f"{what}median µs", f"{median:.0f}", "reported", is_met=True)
    yield Figure(45, f"{what}99 % below, µs", f"{slow:.0f}", "reported", is_met=True)
    ratio = f"{median / bare:.0f} times"
    yield Figure(45, "the same bytes, only written", ratio, "reported", is_met=True)
    kept = sum(1 for _ in LocalEvents(folder).events())
    yield Figure.every(45, "events written down", kept, count)


def _time_event(tracker: Tracker, number: int) -> float:
    """Return how many microseconds an event takes."""
    began = time.perf_counter_ns()
    tracker.track(
        "skill_served",
        context=f"{_TASK} {number}",
        skill_path="ui/react/auth",
        score=0.5,
        matched_keywords=("react", "login"),
        was_ambiguous=False,
        unchanged=False,
        content_commit="c0ffee" * 6,
    )
    return (time.perf_counter_ns() - began) / 1000


def _time_bare_writes(path: Path, count: int) -> float:
    """Return the median of microseconds of a write alone."""
    data, taken = b"x" * 450, []
    with path.open("ab", buffering=0) as handle:
        for _ in range(count):
            began = time.perf_counter_ns()
            handle.write(data)
            taken.append((time.perf_counter_ns() - began) / 1000)
    return statistics.median(taken)


def end_beside_a_dead_endpoint(folder: Path, scale: Scale) -> Iterator[Figure]:
    """End real servers whose receiver is away, silent or broken."""
    calls = scale.count(full=20, quick=3)
    limit = scale.bound(_MOST_SECONDS)
    with _silent() as silent, receiving(lambda _: 503) as failing:
        away = "http://127.0.0.1:1/events"
        for name, url in (("hangs", silent), ("is away", away), ("503", failing.url)):
            home = folder / name.replace(" ", "-")
            home.mkdir()
            seconds, kept = _end_server(home, url, calls)
            what = f"receiver {name}: seconds to the end"
            yield Figure.at_most(46, what, round(seconds, 2), limit)
            what = f"receiver {name}: events kept"
            yield Figure.every(46, what, kept, calls)


def _end_server(folder: Path, url: str, calls: int) -> tuple[float, int]:
    """Return the seconds until the server has ended, and the number of events left."""
    variables = {"SKILLS_DIR": str(SKILLS_CONTENT), "ANALYTICS_ENDPOINT": url}
    with started(folder, **variables) as server:
        for number in range(calls):
            server.call("get_skill", context=f"a login in React, {number}")
        began = time.perf_counter()
        server.close_input()
        server.wait()
        seconds = time.perf_counter() - began
    record = LocalEvents(folder / "home" / ".skills-mcp")
    return seconds, sum(event["type"] == "skill_served" for event in record.events())


@contextmanager
def _silent() -> Iterator[str]:
    """Listen, and never answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/events"


def _counting(home: Path, disclosure: str = "full") -> tuple[Tracker, Outbox]:
    outbox, rules = Outbox(home), _rules("", disclosure)
    privacy = Privacy(home / "analytics.key", {"USER": "ada"})
    return Tracker(outbox.spool, lambda: rules, privacy, max_spool_bytes=_ROOM_BYTES), outbox


def _rules(url: str, disclosure: str = "full") -> Analytics:
    given = {"enabled": True, "endpoint": url, "context": disclosure}
    return Analytics.model_validate(given)


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("events-poison", pass_poison),
    ("events-latency", count_beside_a_dead_endpoint),
    ("events-end", end_beside_a_dead_endpoint),
)
