import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from skills_mcp.analytics.publisher import INTERVAL_SECONDS, Publisher
from skills_mcp.analytics.spool import Spool
from skills_mcp.analytics.tracker import Tracker
from skills_mcp.config import Analytics
from tests.support import running_python, spooled, until, write

PUBLISH = """
import sys
from pathlib import Path
import anyio
from skills_mcp.analytics.publisher import INTERVAL_SECONDS, Publisher
from skills_mcp.analytics.spool import Spool
from skills_mcp.config import Analytics
rules = Analytics(enabled=True, endpoint=sys.argv[2])
publisher = Publisher(Spool(Path(sys.argv[1])), lambda: rules)
print("ready", flush=True)
sys.stdin.readline()
print(anyio.run(publisher.publish), flush=True)
"""


class Endpoint(ThreadingHTTPServer):
    """The operator's endpoint: remembers what was posted, answers as it is told."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.headers: dict[str, str] = {}
        self.received: list[tuple[str, str | None, dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/events"

    def events(self) -> list[dict[str, Any]]:
        return [event for *_, body in self.received for event in body["events"]]


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.received.append((self.path, self.headers["Content-Type"], body))
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST  # noqa: N815 - the standard library's name

    def log_message(self, *_: Any) -> None:
        """Keep the output of the tests clean."""


@contextmanager
def listening() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with listening() as server:
        yield server


def rules_for(url: str, *, enabled: bool = True) -> Callable[[], Analytics]:
    return lambda: Analytics(enabled=enabled, endpoint=url)


def track(spool: Spool, *contexts: str) -> None:
    tracker = Tracker(spool, lambda: Analytics(enabled=True), "dev-ada")
    for context in contexts:
        tracker.track("no_match", context=context)


def contexts_of(events: list[dict[str, Any]]) -> list[str]:
    return [event["data"]["context"] for event in events]


def answering(
    answer: Callable[[httpx.Request], httpx.Response],
) -> httpx.MockTransport:
    return httpx.MockTransport(answer)


@pytest.mark.spec("10.3")
async def test_events_are_posted_as_the_specification_has_them(
    spool: Spool, endpoint: Endpoint
) -> None:
    track(spool, "first", "zweite ÄÖ 日本")

    sent = await Publisher(spool, rules_for(endpoint.url)).publish()

    [(path, content_type, body)] = endpoint.received
    assert sent == 2
    assert (path, content_type) == ("/events", "application/json")
    assert body.keys() == {"events"}
    assert contexts_of(body["events"]) == ["first", "zweite ÄÖ 日本"]
    fields = {"type", "timestamp", "server_id", "data"}
    assert all(event.keys() - {"event_id"} == fields for event in body["events"])


@pytest.mark.spec("10.3")
@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_what_was_accepted_is_removed(
    status: int, spool: Spool, endpoint: Endpoint
) -> None:
    endpoint.status = status
    track(spool, "once")
    publisher = Publisher(spool, rules_for(endpoint.url))

    first, second = await publisher.publish(), await publisher.publish()

    assert (first, second) == (1, 0)
    assert spooled(spool) == []
    assert len(endpoint.received) == 1


@pytest.mark.spec("10.3")
@pytest.mark.spec("10.4")
@pytest.mark.parametrize("status", [400, 401, 404, 413, 429, 500, 503])
async def test_what_was_refused_stays_and_is_sent_the_next_time(
    status: int,
    spool: Spool,
    endpoint: Endpoint,
    caplog: pytest.LogCaptureFixture,
) -> None:
    track(spool, "first")
    publisher = Publisher(spool, rules_for(endpoint.url))
    endpoint.status = status
    refused = await publisher.publish()
    track(spool, "second")
    endpoint.status = 200
    endpoint.received.clear()

    sent = await publisher.publish()

    assert (refused, sent) == (0, 2)
    assert contexts_of(endpoint.events()) == ["first", "second"]
    assert f"{status}" in caplog.text


@pytest.mark.spec("10.4")
@pytest.mark.spec("13")
@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/events", "http://no.such.host.invalid/", "http://["]
)
async def test_an_endpoint_that_cannot_be_reached_loses_nothing(
    url: str, spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    track(spool, "kept")

    sent = await Publisher(spool, rules_for(url)).publish()

    assert sent == 0
    assert contexts_of(spooled(spool)) == ["kept"]
    assert "Events stay here for now" in caplog.text


@pytest.mark.spec("10.3")
async def test_an_endpoint_that_takes_too_long_loses_nothing(
    spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    def hang(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("", request=request)

    track(spool, "kept")

    sent = await Publisher(spool, rules_for("http://x/"), answering(hang)).publish()

    assert sent == 0
    assert contexts_of(spooled(spool)) == ["kept"]
    assert "Events stay here for now: ReadTimeout" in caplog.text


async def test_a_redirect_is_not_followed(spool: Spool, endpoint: Endpoint) -> None:
    track(spool, "kept")
    with listening() as elsewhere:
        endpoint.status = 307
        endpoint.headers = {"Location": elsewhere.url}

        sent = await Publisher(spool, rules_for(endpoint.url)).publish()

        assert sent == 0
        assert elsewhere.received == []
    assert contexts_of(spooled(spool)) == ["kept"]


async def test_the_first_failure_ends_the_attempt(spool: Spool) -> None:
    asked: list[httpx.Request] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(503)

    for context in ("first", "second", "third"):
        track(spool, context)
        spool.rotate()

    await Publisher(spool, rules_for("http://x/"), answering(refuse)).publish()

    assert len(asked) == 1
    assert contexts_of(spooled(spool)) == ["first", "second", "third"]


@pytest.mark.spec("10.3")
async def test_events_that_happen_while_others_are_posted_are_not_lost(
    spool: Spool,
) -> None:
    posted: list[str] = []

    def accept(request: httpx.Request) -> httpx.Response:
        posted.extend(contexts_of(json.loads(request.content)["events"]))
        if len(posted) == 1:
            track(spool, "meanwhile")
        return httpx.Response(200)

    track(spool, "first")
    publisher = Publisher(spool, rules_for("http://x/"), answering(accept))

    await publisher.publish()
    await publisher.publish()

    assert posted == ["first", "meanwhile"]


async def test_a_broken_line_does_not_keep_the_others_back(
    spool: Spool, endpoint: Endpoint, tmp_path: Path
) -> None:
    half_broken = b'{"n": 1}\n{"n": NaN}\n\xff\n{"n": "\\ud800"}\n'
    write(tmp_path / "spool/0.jsonl", half_broken)
    write(tmp_path / "spool/00.jsonl", b"nothing but rubbish\n")
    track(spool, "good")

    sent = await Publisher(spool, rules_for(endpoint.url)).publish()

    assert sent == 3
    assert [event for event in endpoint.events() if "n" in event] == [
        {"n": 1},
        {"n": "\ud800"},
    ]
    assert list((tmp_path / "spool").glob("*.jsonl")) == []


@pytest.mark.spec("10.1")
@pytest.mark.spec("10.4")
@pytest.mark.parametrize(
    "rules", [rules_for(""), rules_for("http://127.0.0.1:1/", enabled=False)]
)
async def test_without_an_endpoint_events_stay_on_this_machine(
    rules: Callable[[], Analytics], spool: Spool
) -> None:
    track(spool, "kept")

    sent = await Publisher(spool, rules).publish()

    assert sent == 0
    assert contexts_of(spooled(spool)) == ["kept"]


@pytest.mark.spec("10.4")
async def test_what_a_dead_process_left_is_sent_and_a_living_one_is_left_alone(
    spool: Spool, endpoint: Endpoint, tmp_path: Path
) -> None:
    code = f"""
import sys
from pathlib import Path
from skills_mcp.analytics.spool import Spool
spool = Spool(Path({str(tmp_path / "spool")!r}))
spool.append('{{"data": {{"context": "from another"}}}}')
print("tracked", flush=True)
sys.stdin.read()
"""
    publisher = Publisher(spool, rules_for(endpoint.url))

    with running_python(code) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"tracked\n"
        while_it_lives = await publisher.publish()
    when_it_is_dead = await publisher.publish()

    assert (while_it_lives, when_it_is_dead) == (0, 1)
    assert contexts_of(endpoint.events()) == ["from another"]


@pytest.mark.spec("10.3")
def test_two_processes_never_send_the_same_event_twice(
    spool: Spool, endpoint: Endpoint, tmp_path: Path
) -> None:
    for number in range(40):
        track(spool, str(number))
        spool.rotate()
    arguments = (tmp_path / "spool", endpoint.url)

    with (
        running_python(PUBLISH, *arguments) as one,
        running_python(PUBLISH, *arguments) as two,
    ):
        for process in (one, two):
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        for process in (one, two):
            assert process.stdin is not None
            process.stdin.write(b"go\n")
            process.stdin.flush()
        counts = [int(p.stdout.readline()) for p in (one, two) if p.stdout]

    assert sum(counts) == 40
    assert sorted(map(int, contexts_of(endpoint.events()))) == list(range(40))


@pytest.mark.spec("10.3")
def test_the_interval_is_thirty_seconds() -> None:
    assert INTERVAL_SECONDS == 30


@pytest.mark.spec("10.3")
async def test_it_publishes_again_and_again_whatever_goes_wrong(
    spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[httpx.Request] = []

    def fail(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        raise RuntimeError("a fault of ours")

    track(spool, "kept")
    publisher = Publisher(
        spool, rules_for("http://x/"), answering(fail), interval_seconds=0.01
    )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(publisher.run)
        await until(lambda: len(asked) >= 3)
        tasks.cancel_scope.cancel()

    assert contexts_of(spooled(spool)) == ["kept"]
    assert "a fault of ours" in caplog.text


async def test_a_segment_that_is_refused_for_its_content_keeps_no_other_back(
    spool: Spool,
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(400 if b"poison" in request.content else 200)

    for context in ("poison", "good"):
        track(spool, context)
        spool.rotate()

    sent = await Publisher(spool, rules_for("http://x/"), answering(answer)).publish()

    assert sent == 1
    assert contexts_of(spooled(spool)) == ["poison"]
