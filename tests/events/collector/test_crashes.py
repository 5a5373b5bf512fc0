"""Server and database are killed while machines send: nothing lost, nothing twice."""

import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

import pytest
import yaml

from skills_mcp.events.collector.event_store import open_event_store
from tests.http_server import HttpServer, following
from tests.postgresql import Cluster
from tests.support import SKILLS_CONTENT, wait_for

EVENTS, SENDERS, BATCH = 20_000, 6, 100

SEND = """
import json, sys, time
import httpx
url, name, count, batch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with httpx.Client(timeout=5) as client:
    for begin in range(0, count, batch):
        events = [
            {
                "type": "no_match",
                "timestamp": "2026-11-23T07:00:00Z",
                "server_id": f"dev-{name}",
                "data": {"context": f"task {number}"},
                "event_id": f"{name}-{number}",
            }
            for number in range(begin, min(begin + batch, count))
        ]
        while True:
            try:
                answer = client.post(url, json={"events": events})
                if answer.status_code == 200:
                    break
                assert answer.status_code == 503, answer.text
            except httpx.TransportError:
                pass
            time.sleep(0.1)  # a real sender waits as long as Retry-After says
        print(answer.text, flush=True)
"""


class Sender:
    """A process that sends its events until all of them have been accepted."""

    def __init__(self, url: str, name: str, count: int) -> None:
        self.count = count
        self.answers: list[str] = []
        command = [sys.executable, "-c", SEND, url, name, str(count), str(BATCH)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        self.answers.extend(self.process.stdout)

    def end(self) -> None:
        """Kill the process, if it still runs, and read what is left of its output."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout
        self.process.stdout.close()


class Site:
    """A server at a port that stays the same when it is started again."""

    def __init__(self, home: Path, database: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        settings = {
            "http": {"port": self.port, "operations_port": 0},
            "events": {"database": database},
        }
        (home / "config.yaml").write_text(yaml.safe_dump(settings))
        self._home = home
        self._stack = ExitStack()
        self.server: HttpServer | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "skills_mcp", "--transport", "http"]
        command += ["--skills-dir", str(SKILLS_CONTENT)]
        environment = {"SKILLS_MCP_HOME": str(self._home)}
        self.server = self._stack.enter_context(following(command, environment))
        assert self.server.url

    def kill(self) -> None:
        assert self.server
        self.server.process.send_signal(signal.SIGKILL)
        self.server.process.wait()
        self._stack.close()


@contextmanager
def site(database: str) -> Iterator[Site]:
    with tempfile.TemporaryDirectory() as home:
        opened = Site(Path(home), database)
        opened.start()
        try:
            yield opened
        finally:
            opened.kill()


def test_no_event_is_lost_or_stored_twice_when_server_and_database_are_killed(
    address: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    is_postgresql = address.startswith("postgresql")
    cluster: Cluster | None = None
    if is_postgresql:
        cluster = request.getfixturevalue("cluster")
    counts = [EVENTS // SENDERS + (n < EVENTS % SENDERS) for n in range(SENDERS)]
    with site(address) as serving:
        url = f"http://127.0.0.1:{serving.port}/events"
        senders = [Sender(url, str(n), count) for n, count in enumerate(counts)]
        try:
            for step in range(1, 5):
                wait_for(lambda: _accepted(senders) >= step * EVENTS // BATCH // 6)  # noqa: B023
                if cluster and step % 2 == 0:
                    cluster.kill()
                    cluster.start()
                else:
                    serving.kill()
                    serving.start()
            wait_for(lambda: all(each.process.poll() == 0 for each in senders))
        finally:
            for each in senders:
                each.end()

        store = open_event_store(address, tmp_path)
        stored = Counter(str(each["event_id"]) for each in store.events())
        store.close()

    sent = {f"{n}-{number}" for n, count in enumerate(counts) for number in range(count)}
    assert len(sent) == EVENTS
    assert stored.keys() == sent
    assert set(stored.values()) == {1}


def _accepted(senders: list[Sender]) -> int:
    return sum(len(each.answers) for each in senders)
