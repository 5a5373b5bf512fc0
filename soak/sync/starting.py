"""Many real servers start at the same moment on one cold cache: promise 2."""

import queue
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from soak.scenario import Figure, Scale, Scenario
from soak.sync.numbered import SKILL, Numbers, read_numbers
from tests.clients import ServerProcess
from tests.content.git_server import serving

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


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("cold-starts", start_together),)
