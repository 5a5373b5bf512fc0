"""Processes that record, send and are killed share one outbox: promises 42, 43."""

import multiprocessing
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

import anyio

from skills_mcp.config import Analytics
from skills_mcp.events.privacy import Privacy
from skills_mcp.events.publisher import Publisher
from skills_mcp.events.spool import DEFAULT_MAX_BYTES, LocalEvents, Outbox
from skills_mcp.events.tracker import Tracker
from soak.events.receivers import Answer, Receiver, receiving
from soak.scenario import Figure, Scale, Scenario

_WINDOWS = 6
_FAILING_SHARE = 0.3
_FAILURES: tuple[Answer, ...] = (500, "hang", "lose", "reset")
_BURST = 25
"""Events between two rounds of sending."""

_MOST_ROUNDS = 500  # to send the rest, with a receiver that fails as before
_PATIENCE_SECONDS = 60.0
_FORKS = multiprocessing.get_context("forkserver")


def deliver_everything(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Record events in several processes, kill some, and let the receiver fail."""
    events = scale.count(full=20_000, quick=600)
    kills = scale.count(full=40, quick=3)
    chance = random.Random(42)  # noqa: S311 - answers, no secrets
    guard = threading.Lock()

    def choose(_: bytes) -> Answer:
        with guard:
            if chance.random() >= _FAILING_SHARE:
                return "accept"
            return chance.choice(_FAILURES)

    with receiving(choose, scale.count(full=6, quick=0)) as receiver:
        crowd = _Crowd(folder, receiver.url)
        crowd.count(events, kills)
        _send_rest(folder, receiver)
        yield from _compare(crowd, receiver)
    yield Figure.none(42, "events left behind", _count_waiting(folder), events)
    recorded = Counter(str(e["data"]["context"]) for e in LocalEvents(folder).events())
    missing = crowd.told - recorded.keys()
    yield Figure.none(42, "events missing in the archive", len(missing), events)


def _compare(crowd: "_Crowd", receiver: Receiver) -> Iterator[Figure]:
    ids: dict[str, set[str]] = defaultdict(set)
    received = 0
    for event in receiver.events():
        ids[event["data"]["context"]].add(event["event_id"])
        received += 1
    told = len(crowd.told)
    lost = crowd.told - ids.keys()
    said = f"{_WINDOWS} windows, {crowd.kills} kills, 30 % failures: events lost"
    yield Figure.none(42, said, len(lost), told)
    # Of a window that was killed, one event may be written but not told to us.
    unknown = len(ids.keys() - crowd.told)
    yield Figure.at_most(42, "written, killed before it was told", unknown, crowd.kills)
    several = sum(len(each) > 1 for each in ids.values())
    yield Figure.none(42, "events that have two ids", several, len(ids))
    repeated = received - sum(map(len, ids.values()))
    said = f"{repeated:,} of {received:,}"
    yield Figure(42, "repetitions, told by their ids", said, "any", is_met=True)


@dataclass(slots=True)
class _Window:
    process: multiprocessing.process.BaseProcess
    pipe: Connection

    def hear(self) -> list[str]:
        """Return the number of new events; the pipe outlives the process."""
        heard = []
        with suppress(EOFError, OSError):
            while self.pipe.poll():
                heard.append(self.pipe.recv())
        return heard


@dataclass(slots=True)
class _Crowd:
    """Processes of which some are killed, and the events that they have recorded."""

    home: Path
    url: str
    told: set[str] = field(default_factory=set)
    kills: int = 0
    _opened: int = 0

    def count(self, events: int, kills: int) -> None:
        """Record that many events, and kill that many processes meanwhile."""
        chance = random.Random(40)  # noqa: S311 - instants, no secrets
        windows = [self._open() for _ in range(_WINDOWS)]
        marks = sorted(chance.randrange(events) for _ in range(kills))
        while len(self.told) < events:
            pipes = [window.pipe for window in windows]
            assert wait(pipes, _PATIENCE_SECONDS), "no window counts any more"  # noqa: S101 - a scenario
            for window in windows:
                self.told.update(window.hear())
            while self.kills < kills and len(self.told) >= marks[self.kills]:
                victim = chance.randrange(_WINDOWS)
                self._end(windows[victim])
                windows[victim] = self._open()
                self.kills += 1
        for window in windows:
            self._end(window)

    def _open(self) -> _Window:
        ours, theirs = _FORKS.Pipe(duplex=False)
        self._opened += 1
        arguments = (theirs, self.home, self.url, self._opened)
        process = _FORKS.Process(target=_count_and_send, args=arguments, daemon=True)
        process.start()
        theirs.close()
        return _Window(process, ours)

    def _end(self, window: _Window) -> None:
        window.process.kill()
        window.process.join()
        self.told.update(window.hear())
        window.pipe.close()


def _count_and_send(pipe: Connection, home: Path, url: str, name: int) -> None:
    """The process: record events, report their number, send, in a loop."""
    outbox, rules = Outbox(home), _rules(url)
    tracker = _tracker(outbox, rules, home)
    publisher = Publisher(outbox, lambda: rules)

    async def live() -> None:
        number = 0
        while True:
            for _ in range(_BURST):
                number += 1
                context = f"{name}-{number}"
                tracker.track("no_match", context=context)
                pipe.send(context)
            _forget_pause(home)
            await publisher.publish()

    with suppress(BrokenPipeError):
        anyio.run(live)


def _send_rest(home: Path, receiver: Receiver) -> None:
    """Send the events that the processes have left, as the next server would."""
    rules = _rules(receiver.url)
    publisher = Publisher(Outbox(home), lambda: rules)
    for _ in range(_MOST_ROUNDS):
        _forget_pause(home)
        anyio.run(publisher.publish)
        if not _count_waiting(home):
            return


def _count_waiting(home: Path) -> int:
    return sum(len(segment.lines) for segment in Outbox(home).spool.claim_segments())


def _forget_pause(home: Path) -> None:
    """Set the end of the back-off to now."""
    (home / "spool" / "attempts.json").unlink(missing_ok=True)


def _rules(url: str) -> Analytics:
    return Analytics(enabled=True, endpoint=url, context="full", identity="none")


def _tracker(
    outbox: Outbox, rules: Analytics, home: Path, limit: int = DEFAULT_MAX_BYTES
) -> Tracker:
    privacy = Privacy(home / "analytics.key", {})
    return Tracker(outbox.spool, lambda: rules, privacy, max_spool_bytes=limit)


def bound_an_outage(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Record events for a day in ten processes while the receiver is away."""
    windows = scale.count(full=10, quick=4)
    each = scale.count(full=10_000, quick=1_500)
    limit = scale.count(full=10_485_760, quick=262_144)
    processes = [
        _FORKS.Process(target=_count_much, args=(folder, number, each, limit))
        for number in range(windows)
    ]
    for process in processes:
        process.start()
    largest = 0
    while any(process.is_alive() for process in processes):
        largest = max(largest, _measure(folder / "spool"))
        processes[0].join(0.01)
    for process in processes:
        process.join()
    counted = dropped = 0
    for event in LocalEvents(folder).events():
        if event["type"] == "events_dropped":
            dropped += event["data"]["count"]
        else:
            counted += 1
    total = windows * each
    said = f"outage, {windows} windows, {total:,} events: most bytes"
    yield Figure.at_most(43, said, largest, limit)
    yield Figure.every(43, "outage: events kept or counted as dropped", counted + dropped, total)
    yield Figure.every(43, "outage: some had to go", int(dropped > 0), 1)


def _count_much(home: Path, name: int, events: int, limit: int) -> None:
    """The process whose receiver is away: record events, and try to send at times."""
    outbox, rules = Outbox(home), _rules("http://127.0.0.1:1/")
    tracker = _tracker(outbox, rules, home, limit)
    publisher = Publisher(outbox, lambda: rules)
    for number in range(events):
        tracker.track("no_match", context=f"{name}-{number} {'x' * 150}")
        if number % (events // 5) == 0:
            anyio.run(publisher.publish)


def _measure(spool: Path) -> int:
    total = 0
    for path in spool.glob("*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("events", deliver_everything),
    ("events-outage", bound_an_outage),
)
