"""Many processes start or refresh at the same moment: promises 2 and 3."""

import queue
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from soak.scenario import Figure, Scale, Scenario
from soak.sync.numbered import SKILL, Numbers, read_numbers
from soak.sync.reading import publishing
from soak.sync.window import open_branch, opened
from tests.clients import ServerProcess
from tests.content.git_server import Fault, GitServer, Request, serving
from tests.support import wait_for

_PATIENCE = 6
"""How often 20 seconds are waited for an answer: many share few cores."""


def start_together(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Start 24 servers, and ask each of them for a skill at once."""
    Numbers.create(folder)
    count = scale.count(full=24, quick=4)
    with serving(folder) as remote, ExitStack() as stack:
        servers = []
        for number in range(count):
            server = ServerProcess(
                environment={
                    "SKILLS_REPO": f"{remote.url}/upstream.git",
                    "SKILLS_MCP_HOME": str(folder / "home"),
                },
                log=folder / f"server-{number}.log",
            )
            stack.callback(server.close)
            servers.append(server)
        for server in servers:
            server.send("tools/call", name="get_skill", arguments={"context": SKILL})
        ready = sum(map(_is_ready, servers))
        fetches = remote.counts["fetch"]
    yield Figure.every(2, "servers that answer with content", ready, count)
    yield Figure.at_most(2, "clones, all servers together", fetches, 1)


def _is_ready(server: ServerProcess) -> bool:
    """Whether the answer holds the skill; one that was too early is asked again."""
    for _ in range(_PATIENCE):
        reply = _hear(server)
        if "content" in reply:
            return read_numbers(reply["content"]) == (0, 0)
        server.send("tools/call", name="get_skill", arguments={"context": SKILL})
    return False


def _hear(server: ServerProcess) -> dict[str, Any]:
    import json

    while True:
        try:
            message = server.receive()
        except queue.Empty:
            return {}
        if "result" in message:
            text: str = message["result"]["content"][0]["text"]
            reply: dict[str, Any] = json.loads(text)
            return reply


_PROCESSES = 6
_LOOK_SECONDS = 0.05
_SHARE = 1.2
"""The most fetches of all processes together in an interval."""
_ROUGH_SHARE = 2.0
"""The same of only a few, of which the first may be late; six timers would make 6."""


def refresh_together(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Refresh in six processes while the branch moves, and once it stands still."""
    numbers = Numbers.create(folder)
    with serving(folder) as server:
        cache, url = folder / "cache", f"{server.url}/upstream.git"
        times = scale.count(full=50, quick=2)
        errors: list[str] = []
        packs: list[int] = []
        server.fault = _counting_objects(packs)
        with opened(_PROCESSES, cache, url) as windows:
            for is_moving in (True, False):
                for window in windows:
                    window.tell("sync", times=times)
                if is_moving:
                    with publishing(numbers):
                        answers = [window.hear() for window in windows]
                else:
                    answers = [window.hear() for window in windows]
                errors += [line for answer in answers for line in answer.splitlines()]
        for error in errors:
            print(error)  # the figure has only their number
        of, commits = 2 * times * _PROCESSES, len(numbers.commits)
        yield Figure.none(3, "refreshes that failed, 6 processes", len(errors), of)
        said = f"packs for {commits} commits"
        yield Figure.at_most(3, said, sum(map(bool, packs)), commits)
        yield _compare(numbers, cache, url, "final commit is upstream's")


def _counting_objects(packs: list[int]) -> Fault:
    """Serve as usual, and note how many objects are in each pack.

    Git asks for a pack even if it has the commit; that pack is empty.
    """

    def serve(request: Request) -> None:
        answer = request.ask_git()
        if request.kind == "fetch":
            _, _, counted = answer.content.partition(b"PACK\0\0\0\2")
            packs.append(int.from_bytes(counted[:4]))
        request.send(answer)

    return serve


def refresh_by_timer(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Let six timers tick, much faster than in practice."""
    numbers = Numbers.create(folder)
    with serving(folder) as server:
        cache, url = folder / "cache", f"{server.url}/upstream.git"
        interval = scale.count(full=2, quick=1)
        with opened(_PROCESSES, cache, url) as windows:
            for each in windows:
                each.tell("follow", interval_seconds=interval, poll_seconds=_LOOK_SECONDS)
            asks = scale.count(full=20, quick=3)
            rate = _count_asks(interval, server, asks)
        most = _SHARE if scale.is_full else _ROUGH_SHARE
        yield Figure.at_most(3, "fetches per interval, 6 timers", rate, most)
        yield _compare(numbers, cache, url, "what the timers have brought")


def _compare(numbers: Numbers, cache: Path, url: str, what: str) -> Figure:
    published = open_branch(cache, url).open()
    is_same = published is not None and published.revision == numbers.newest
    return Figure.every(3, what, int(is_same), 1)


def _count_asks(interval: int, server: GitServer, asks: int) -> float:
    """Return how many fetches there were in an interval.

    A slow machine only makes them fewer.
    """
    # A new commit takes two: what there is, and the fetch.
    wait_for(lambda: server.counts["info/refs"] > 1, seconds=60)
    began, before = time.monotonic(), server.counts["info/refs"]
    wait_for(lambda: server.counts["info/refs"] >= before + asks, seconds=60)
    count = server.counts["info/refs"] - before
    return round(count * interval / (time.monotonic() - began), 2)


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("cold-starts", start_together),
    ("refreshes", refresh_together),
    ("timers", refresh_by_timer),
)
