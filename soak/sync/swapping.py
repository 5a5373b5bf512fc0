"""A server answers while what it serves is replaced: promise 19."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soak.scenario import Figure, Scale, Scenario
from soak.sync.numbered import ASSET, SKILL, Numbers, read_numbers
from tests.clients import ServerProcess

_TOOLS = (
    ("get_skill", {"context": SKILL}),
    ("get_asset", {"skill_path": SKILL, "file": ASSET}),
)
_AT_ONCE = 10
"""Requests that wait for their answers at the same time."""


@dataclass(slots=True)
class _Tally:
    """The counts of answers."""

    replies: int = 0
    wrong: int = 0
    swaps: int = 0
    failed: int = 0

    def add(self, numbers: Numbers, reply: dict[str, Any]) -> None:
        """Compare a reply with the commit that it names."""
        self.replies += 1
        commit, content = reply.get("commit"), reply.get("content", "")
        if commit not in numbers.commits:
            self.wrong += 1
            return
        number = numbers.commits.index(commit)
        self.wrong += read_numbers(content) != (number, number)


def answer_during_swaps(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Ask a real server without a pause, while 50 commits are pushed and refreshed."""
    numbers = Numbers.create(folder)
    swaps = scale.count(full=50, quick=3)
    each = scale.count(full=10_000, quick=300) // swaps
    server = ServerProcess(
        environment={
            "SKILLS_REPO": numbers.upstream.url,
            "SKILLS_MCP_HOME": str(folder / "home"),
        },
        log=folder / "server.log",
    )
    tally = _Tally()
    try:
        server.call("get_skill", context=SKILL)
        for _ in range(swaps):
            numbers.publish()
            _ask_during_refresh(server, numbers, tally, each)
    finally:
        server.close()
    yield Figure.none(
        19, "replies not of the commit that they name", tally.wrong, tally.replies
    )
    yield Figure.every(
        19, "refreshes that brought the pushed commit", tally.swaps, swaps
    )


def _ask_during_refresh(
    server: ServerProcess, numbers: Numbers, tally: _Tally, least: int
) -> None:
    """Refresh, and ask on until that is done, and often enough."""
    refresh = server.send("tools/call", name="refresh_skills", arguments={})
    open_requests, asked, is_refreshed = {refresh}, 0, False
    while open_requests:
        while len(open_requests) < _AT_ONCE and (asked < least or not is_refreshed):
            tool, arguments = _TOOLS[asked % len(_TOOLS)]
            open_requests.add(server.send("tools/call", name=tool, arguments=arguments))
            asked += 1
        message = server.receive()
        if message.get("id") not in open_requests:
            continue
        open_requests.remove(message["id"])
        reply = json.loads(message["result"]["content"][0]["text"])
        if message["id"] == refresh:
            is_refreshed = True
            tally.swaps += reply.get("commit_hash") == numbers.newest
        else:
            tally.add(numbers, reply)


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("swaps", answer_during_swaps),)
