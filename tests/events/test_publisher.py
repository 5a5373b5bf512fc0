import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

from skills_mcp.config import Analytics
from skills_mcp.events.privacy import Privacy
from skills_mcp.events.publisher import (
    INTERVAL_SECONDS,
    MAX_BATCH_BYTES,
    Publisher,
    compose_body,
    derive_idempotency_key,
    is_safe_endpoint,
    split_batches,
)
from skills_mcp.events.spool import EventLine, LocalEvents, Outbox, Spool, parse_event_line
from skills_mcp.events.tracker import Tracker
from tests.support import running_python, spooled, until, write

PUBLISH = """
import sys
from pathlib import Path
import anyio
from skills_mcp.events.spool import Outbox
from skills_mcp.events.publisher import Publisher
from skills_mcp.config import Analytics
rules = Analytics(enabled=True, endpoint=sys.argv[2])
publisher = Publisher(Outbox(Path(sys.argv[1])), lambda: rules)
print("ready", flush=True)
sys.stdin.readline()
print(anyio.run(publisher.publish), flush=True)
"""
LOCAL = "http://localhost:1/events"
"""Nobody is asked there; a transport of the test answers."""


class Endpoint(ThreadingHTTPServer):
    """The operator's endpoint: remembers what was posted, answers as it is told."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body = b""
        self.received: list[tuple[str, str | None, dict[str, Any]]] = []
        self.keys: list[str | None] = []

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
        self.server.keys.append(self.headers["Idempotency-Key"])
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        if "Content-Length" not in self.server.headers:
            self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        with suppress(OSError):  # whoever has read enough is gone
            self.wfile.write(self.server.body)

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


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    return tmp_path / "ours"


@pytest.fixture
def outbox(ours: Path) -> Iterator[Outbox]:
    outbox = Outbox(ours)
    yield outbox
    outbox.spool.rotate()


@pytest.fixture
def spool(outbox: Outbox) -> Spool:
    return outbox.spool


def rules_for(url: str, *, enabled: bool = True, keep_days: int = 90) -> Callable[[], Analytics]:
    # The door of the publisher is tried, too, so nothing is checked before it.
    rules = Analytics(enabled=enabled, keep_days=keep_days)
    return lambda: rules.model_copy(update={"endpoint": url})


def track(spool: Spool, *contexts: str) -> None:
    rules = Analytics(enabled=True, context="full", identity="none")
    tracker = Tracker(spool, lambda: rules, Privacy(spool.directory / "key", {}))
    for context in contexts:
        tracker.track("no_match", context=context)


def track_apart(spool: Spool, *contexts: str) -> None:
    """Have a segment for each."""
    for context in contexts:
        track(spool, context)
        spool.rotate()


def contexts_of(events: list[dict[str, Any]]) -> list[str]:
    return [event["data"]["context"] for event in events]


def recorded(ours: Path, folder: str) -> list[str]:
    """Return what an archive or the dead letters hold."""
    lines = [p.read_text() for p in sorted((ours / folder).glob("*.jsonl"))]
    return contexts_of([json.loads(line) for line in "".join(lines).splitlines()])


def forget_pause(ours: Path) -> None:
    """Do as if the time had passed that a receiver is left alone."""
    (ours / "spool" / "attempts.json").unlink(missing_ok=True)


def answering(
    answer: Callable[[httpx.Request], httpx.Response],
) -> httpx.MockTransport:
    return httpx.MockTransport(answer)


def posted(request: httpx.Request) -> list[str]:
    return contexts_of(json.loads(request.content)["events"])


def publisher_of(outbox: Outbox, answer: Callable[[httpx.Request], httpx.Response]) -> Publisher:
    return Publisher(outbox, rules_for(LOCAL), transport=answering(answer))


@pytest.mark.spec("10.3")
async def test_events_are_posted_as_the_specification_has_them(
    outbox: Outbox, endpoint: Endpoint
) -> None:
    track(outbox.spool, "first", "zweite ÄÖ 日本")

    sent = await Publisher(outbox, rules_for(endpoint.url)).publish()

    [(path, content_type, body)] = endpoint.received
    assert sent == 2
    assert (path, content_type) == ("/events", "application/json")
    assert body.keys() == {"events"}
    assert contexts_of(body["events"]) == ["first", "zweite ÄÖ 日本"]
    fields = {"type", "timestamp", "server_id", "data"}
    assert all(event.keys() - {"event_id"} == fields for event in body["events"])


@pytest.mark.spec("10.3")
@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_what_was_accepted_moves_to_the_archive(
    status: int, outbox: Outbox, endpoint: Endpoint, ours: Path
) -> None:
    endpoint.status = status
    track(outbox.spool, "once")
    publisher = Publisher(outbox, rules_for(endpoint.url))

    first, second = await publisher.publish(), await publisher.publish()

    assert (first, second) == (1, 0)
    assert spooled(outbox.spool) == []
    assert len(endpoint.received) == 1
    assert recorded(ours, "archive") == ["once"]


async def test_nothing_that_was_sent_is_kept_if_the_operator_wants_that(
    outbox: Outbox, endpoint: Endpoint, ours: Path
) -> None:
    track(outbox.spool, "once")

    await Publisher(outbox, rules_for(endpoint.url, keep_days=0)).publish()

    assert len(endpoint.events()) == 1
    assert list(LocalEvents(ours).events()) == []


@pytest.mark.spec("10.3")
@pytest.mark.spec("10.4")
@pytest.mark.parametrize("status", [307, 401, 403, 408, 429, 500, 503])
async def test_what_was_not_taken_stays_and_is_sent_another_time(
    status: int,
    outbox: Outbox,
    endpoint: Endpoint,
    ours: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    track(outbox.spool, "first")
    publisher = Publisher(outbox, rules_for(endpoint.url))
    endpoint.status = status
    refused = await publisher.publish()
    track(outbox.spool, "second")
    endpoint.status = 200
    endpoint.received.clear()
    forget_pause(ours)

    sent = await publisher.publish()

    assert (refused, sent) == (0, 2)
    assert contexts_of(endpoint.events()) == ["first", "second"]
    assert f"{status}" in caplog.text


@pytest.mark.parametrize("status", [401, 403, 429])
async def test_a_receiver_that_wants_nothing_is_left_alone_by_all_windows(
    status: int, outbox: Outbox, endpoint: Endpoint, ours: Path
) -> None:
    endpoint.status, endpoint.headers = status, {"Retry-After": "1800"}
    track(outbox.spool, "kept")
    await Publisher(outbox, rules_for(endpoint.url)).publish()

    for _ in range(3):
        await Publisher(Outbox(ours), rules_for(endpoint.url)).publish()

    assert len(endpoint.received) == 1


async def test_another_address_is_tried_at_once(outbox: Outbox, endpoint: Endpoint) -> None:
    endpoint.status = 401
    track(outbox.spool, "kept")
    await Publisher(outbox, rules_for(endpoint.url)).publish()
    endpoint.status = 200

    sent = await Publisher(outbox, rules_for(f"{endpoint.url}?key=right")).publish()

    assert sent == 1


@pytest.mark.spec("10.4")
@pytest.mark.spec("13")
@pytest.mark.parametrize("url", ["http://127.0.0.1:1/events", "https://no.such.host.invalid/"])
async def test_an_endpoint_that_cannot_be_reached_loses_nothing(
    url: str, outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    track(outbox.spool, "kept")

    sent = await Publisher(outbox, rules_for(url)).publish()

    assert sent == 0
    assert contexts_of(spooled(outbox.spool)) == ["kept"]
    assert "Events were not sent and stay on this machine" in caplog.text


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/events",
        "http://127.0.0.1:password@example.com/",
        "https://user:password@example.com/",
        "http://[",
        "https://example.com/\n",
    ],
)
async def test_nothing_is_sent_where_others_could_read_it(
    url: str, outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[httpx.Request] = []

    def accept(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200)

    track(outbox.spool, "kept")
    transport = answering(accept)

    sent = await Publisher(outbox, rules_for(url), transport=transport).publish()

    assert (sent, asked) == (0, [])
    assert contexts_of(spooled(outbox.spool)) == ["kept"]
    assert "nothing is sent there" in caplog.text
    assert "password" not in caplog.text.replace("holds a password", "")


@pytest.mark.parametrize(
    "name, value",
    [
        ("SSL_CERT_FILE", "/nowhere/certificates.pem"),
        ("HTTPS_PROXY", "gopher://proxy.example.com"),
        ("HTTPS_PROXY", "socks5://127.0.0.1:1"),
    ],
)
async def test_surroundings_that_nothing_can_be_sent_from_are_said_and_waited_for(
    name: str,
    value: str,
    outbox: Outbox,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(name, value)
    track(outbox.spool, "kept")
    publisher = Publisher(outbox, rules_for("https://localhost.invalid/"))

    sent = await publisher.publish()

    assert sent == 0
    assert contexts_of(spooled(outbox.spool)) == ["kept"]
    assert "the proxy or the certificates that the environment names" in caplog.text


async def test_an_address_that_is_none_is_said(
    outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    track(outbox.spool, "kept")

    sent = await Publisher(outbox, rules_for("https://example.com:port/")).publish()

    assert sent == 0
    assert "analytics.endpoint" in caplog.text
    assert "Invalid port" in caplog.text


@pytest.mark.spec("10.3")
async def test_an_endpoint_that_takes_too_long_loses_nothing(
    outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    def hang(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("", request=request)

    track(outbox.spool, "kept")

    sent = await publisher_of(outbox, hang).publish()

    assert sent == 0
    assert contexts_of(spooled(outbox.spool)) == ["kept"]
    assert "at the earliest: ReadTimeout" in caplog.text


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_said(
    status: int, outbox: Outbox, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    track(outbox.spool, "kept")
    with listening() as elsewhere:
        endpoint.status = status
        endpoint.headers = {"Location": elsewhere.url}

        sent = await Publisher(outbox, rules_for(endpoint.url)).publish()

        assert sent == 0
        assert elsewhere.received == []
    assert contexts_of(spooled(outbox.spool)) == ["kept"]
    assert "no redirect is followed" in caplog.text


async def test_no_proxy_of_the_environment_sees_what_stays_on_this_machine(
    outbox: Outbox, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening() as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_port}")
        monkeypatch.setenv("NO_PROXY", "")
        track(outbox.spool, "private")

        sent = await Publisher(outbox, rules_for(endpoint.url)).publish()

        assert proxy.received == []
    assert sent == 1
    assert contexts_of(endpoint.events()) == ["private"]


@pytest.mark.parametrize("status", [200, 500])
async def test_what_a_receiver_says_is_not_read_to_its_end(
    status: int, outbox: Outbox, endpoint: Endpoint
) -> None:
    endpoint.status, endpoint.body = status, b"x" * (8 << 20)
    endpoint.headers = {"Content-Length": str(1 << 40)}
    track(outbox.spool, "once")

    sent = await Publisher(outbox, rules_for(endpoint.url)).publish()

    assert sent == (1 if status == 200 else 0)


async def test_a_receiver_that_never_stops_talking_is_cut_off(outbox: Outbox) -> None:
    said: list[int] = []

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                said.append(1024)
                yield b"x" * 1024
                await anyio.lowlevel.checkpoint()

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=Endless())

    track(outbox.spool, "once")

    assert await publisher_of(outbox, answer).publish() == 1
    assert sum(said) <= 8192


async def test_a_repetition_has_the_same_key_and_others_have_another(
    outbox: Outbox, endpoint: Endpoint, ours: Path
) -> None:
    publisher = Publisher(outbox, rules_for(endpoint.url))
    endpoint.status = 503
    track(outbox.spool, "first")
    await publisher.publish()
    forget_pause(ours)
    endpoint.status = 200
    await publisher.publish()
    track(outbox.spool, "second")
    await publisher.publish()

    first, again, second = endpoint.keys
    assert first
    assert first == again != second


async def test_the_first_failure_ends_the_round(outbox: Outbox) -> None:
    asked: list[httpx.Request] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(503)

    track_apart(outbox.spool, "first", "second", "third")

    await publisher_of(outbox, refuse).publish()

    assert len(asked) == 1
    assert contexts_of(spooled(outbox.spool)) == ["first", "second", "third"]


@pytest.mark.spec("10.3")
async def test_events_that_happen_while_others_are_posted_are_not_lost(
    outbox: Outbox,
) -> None:
    taken: list[str] = []

    def accept(request: httpx.Request) -> httpx.Response:
        taken.extend(posted(request))
        if len(taken) == 1:
            track(outbox.spool, "meanwhile")
        return httpx.Response(200)

    track(outbox.spool, "first")
    publisher = publisher_of(outbox, accept)

    await publisher.publish()
    await publisher.publish()

    assert taken == ["first", "meanwhile"]


async def test_a_broken_line_does_not_keep_the_others_back(
    outbox: Outbox, endpoint: Endpoint, ours: Path
) -> None:
    half_broken = b'{"n": 1}\n{"n": NaN}\n\xff\n{"n": "\\ud800"}\n'
    write(ours / "spool/0.jsonl", half_broken)
    write(ours / "spool/00.jsonl", b"nothing but rubbish\n")
    track(outbox.spool, "good")

    sent = await Publisher(outbox, rules_for(endpoint.url)).publish()

    assert sent == 3
    assert [event for event in endpoint.events() if "n" in event] == [
        {"n": 1},
        {"n": "\ud800"},
    ]
    assert list((ours / "spool").glob("*.jsonl")) == []


@pytest.mark.spec("10.1")
async def test_nothing_happens_while_analytics_are_off(outbox: Outbox, endpoint: Endpoint) -> None:
    track(outbox.spool, "kept")

    sent = await Publisher(outbox, rules_for(endpoint.url, enabled=False)).publish()

    assert (sent, endpoint.received) == (0, [])
    assert contexts_of(spooled(outbox.spool)) == ["kept"]


async def test_what_was_counted_before_is_not_kept_longer_while_analytics_are_off(
    outbox: Outbox, ours: Path
) -> None:
    old = write(ours / "archive" / "2001-01-01-0000.jsonl", "{}\n")
    new = write(ours / "archive" / "9999-01-01-0000.jsonl", "{}\n")

    await Publisher(outbox, rules_for("", enabled=False)).publish()

    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.spec("10.4")
async def test_without_an_endpoint_events_are_kept_on_this_machine(
    outbox: Outbox, ours: Path
) -> None:
    track(outbox.spool, "kept")

    sent = await Publisher(outbox, rules_for("")).publish()

    assert sent == 0
    assert recorded(ours, "archive") == ["kept"]
    assert spooled(outbox.spool) == []


async def test_without_a_network_events_wait_to_be_sent(outbox: Outbox, endpoint: Endpoint) -> None:
    track(outbox.spool, "kept")

    sent = await Publisher(outbox, rules_for(endpoint.url), is_offline=lambda: True).publish()

    assert (sent, endpoint.received) == (0, [])
    assert contexts_of(spooled(outbox.spool)) == ["kept"]


async def test_events_without_a_receiver_are_archived_without_a_network(
    outbox: Outbox, ours: Path
) -> None:
    track(outbox.spool, "kept")

    await Publisher(outbox, rules_for(""), is_offline=lambda: True).publish()

    assert recorded(ours, "archive") == ["kept"]
    assert spooled(outbox.spool) == []


@pytest.mark.spec("10.4")
async def test_what_a_dead_process_left_is_sent_and_a_living_one_is_left_alone(
    outbox: Outbox, endpoint: Endpoint, ours: Path
) -> None:
    code = f"""
import sys
from pathlib import Path
from skills_mcp.events.spool import Spool
spool = Spool(Path({str(ours / "spool")!r}))
spool.append('{{"data": {{"context": "from another"}}}}')
print("tracked", flush=True)
sys.stdin.read()
"""
    publisher = Publisher(outbox, rules_for(endpoint.url))

    with running_python(code) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"tracked\n"
        while_it_lives = await publisher.publish()
    when_it_is_dead = await publisher.publish()

    assert (while_it_lives, when_it_is_dead) == (0, 1)
    assert contexts_of(endpoint.events()) == ["from another"]


@pytest.mark.spec("10.3")
def test_two_processes_never_send_the_same_event_twice(
    outbox: Outbox, endpoint: Endpoint, ours: Path
) -> None:
    track_apart(outbox.spool, *map(str, range(40)))
    arguments = (ours, endpoint.url)

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
    outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[httpx.Request] = []

    def fail(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        raise RuntimeError("a fault of ours")

    track(outbox.spool, "kept")
    publisher = Publisher(
        outbox,
        rules_for(LOCAL),
        transport=answering(fail),
        interval_seconds=0.01,
    )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(publisher.run)
        await until(lambda: len(asked) >= 3)
        tasks.cancel_scope.cancel()

    assert contexts_of(spooled(outbox.spool)) == ["kept"]
    assert "a fault of ours" in caplog.text


async def test_the_end_does_not_wait_for_a_receiver_that_hangs(
    outbox: Outbox,
) -> None:
    begun, never = anyio.Event(), anyio.Event()

    class Hanging(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:  # noqa: ARG002 - httpx's name
            begun.set()
            await never.wait()
            raise AssertionError

    track(outbox.spool, "kept")
    publisher = Publisher(outbox, rules_for(LOCAL), transport=Hanging())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(publisher.publish)
        await begun.wait()
        tasks.cancel_scope.cancel()

    assert contexts_of(spooled(outbox.spool)) == ["kept"]


# --- what a receiver does not like ---------------------------------------------


@pytest.mark.parametrize("status", [400, 409, 413])
@pytest.mark.parametrize("place", [0, 7, 99])
async def test_one_bad_event_costs_no_other(
    place: int, status: int, outbox: Outbox, ours: Path
) -> None:
    asked: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(1)
        return httpx.Response(status if b"poison" in request.content else 200)

    contexts = [str(number) for number in range(100)]
    contexts[place] = "poison"
    track(outbox.spool, *contexts)

    sent = await publisher_of(outbox, answer).publish()

    assert sent == 99
    assert len(asked) <= 20
    assert spooled(outbox.spool) == []
    assert recorded(ours, "dead-letters") == ["poison"]
    assert recorded(ours, "archive") == [c for c in contexts if c != "poison"]


async def test_a_receiver_that_takes_little_gets_little(outbox: Outbox) -> None:
    taken: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if len(request.content) > 700:
            return httpx.Response(413)
        taken.extend(posted(request))
        return httpx.Response(200)

    contexts = [str(number) for number in range(200)]
    track(outbox.spool, *contexts)

    sent = await publisher_of(outbox, answer).publish()

    assert sent == 200
    assert taken == contexts


async def test_a_receiver_that_likes_nothing_is_not_asked_about_each_event(
    outbox: Outbox, ours: Path
) -> None:
    asked: list[int] = []

    def refuse(_: httpx.Request) -> httpx.Response:
        asked.append(1)
        return httpx.Response(400)

    for _ in range(3):
        track(outbox.spool, *map(str, range(300)))
        outbox.spool.rotate()

    sent = await publisher_of(outbox, refuse).publish()

    assert sent == 0
    assert len(asked) < 200
    assert len(recorded(ours, "dead-letters")) == 900
    assert spooled(outbox.spool) == []


@pytest.mark.parametrize("status", [409, 410, 415])
async def test_what_will_never_be_taken_goes_to_the_dead_letters(
    status: int, outbox: Outbox, ours: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status if b'"bad"' in request.content else 200)

    track_apart(outbox.spool, "bad", "good")

    sent = await publisher_of(outbox, answer).publish()

    assert sent == 1
    assert recorded(ours, "dead-letters") == ["bad"]
    assert spooled(outbox.spool) == []
    assert f"Events refused: 1, by {status}" in caplog.text


async def test_a_failure_in_the_middle_costs_none_and_repeats_none(
    outbox: Outbox, ours: Path
) -> None:
    taken: list[str] = []
    asked: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(1)
        if b"poison" in request.content:
            return httpx.Response(400)
        if len(asked) == 4:
            return httpx.Response(503)
        taken.extend(posted(request))
        return httpx.Response(200)

    contexts = ["0", "1", "poison", "3", "4", "5", "6", "7"]
    track(outbox.spool, *contexts)
    publisher = publisher_of(outbox, answer)

    for _ in range(2):
        await publisher.publish()
        forget_pause(ours)

    assert sorted(taken) == ["0", "1", "3", "4", "5", "6", "7"]
    assert recorded(ours, "dead-letters") == ["poison"]


async def test_dead_letters_can_be_sent_again(
    outbox: Outbox, endpoint: Endpoint, ours: Path
) -> None:
    endpoint.status = 410
    track(outbox.spool, "refused")
    publisher = Publisher(outbox, rules_for(endpoint.url))
    await publisher.publish()
    [letters] = (ours / "dead-letters").iterdir()
    letters.rename(ours / "spool" / letters.name)
    endpoint.status = 200

    assert await publisher.publish() == 1


@pytest.mark.parametrize(
    "status, kind, reason",
    [
        (403, "application/json", "403 Forbidden"),
        (404, "text/html", "/events"),
        (405, "application/json", "/events"),
        (200, "text/html; charset=utf-8", "text/html"),
    ],
)
async def test_an_address_that_takes_no_events_keeps_them_and_is_told(
    status: int, kind: str, reason: str, outbox: Outbox, ours: Path
) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(status, headers={"Content-Type": kind})

    track(outbox.spool, "kept")
    publisher = publisher_of(outbox, answer)

    sent = await publisher.publish()

    failure = publisher_of(Outbox(ours), answer).find_failure()
    assert sent == 0
    assert contexts_of(spooled(outbox.spool)) == ["kept"]
    assert failure
    assert reason in failure.reason
    assert (failure.failures, failure.is_lasting) == (1, True)


async def test_a_success_ends_the_failure(outbox: Outbox, ours: Path) -> None:
    statuses = iter([503, 200])
    publisher = publisher_of(outbox, lambda _: httpx.Response(next(statuses)))
    track(outbox.spool, "kept")
    await publisher.publish()
    before = publisher.find_failure()
    forget_pause(ours)

    await publisher.publish()

    assert publisher.find_failure() is None
    assert before
    assert not before.is_lasting


def make_line(number: int, size: int = 0) -> EventLine:
    line = parse_event_line(json.dumps({"n": number, "text": "x" * size}).encode())
    assert line is not None
    return line


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 1700])
def test_a_request_has_no_more_than_500_events(count: int) -> None:
    lines = [make_line(number) for number in range(count)]

    batches = list(split_batches(lines))

    assert [line for batch in batches for line in batch] == lines
    assert all(0 < len(batch) <= 500 for batch in batches)


def test_a_request_is_no_larger_than_receivers_take() -> None:
    lines = [make_line(number, size=100_000) for number in range(9)]

    batches = list(split_batches(lines))

    assert [line for batch in batches for line in batch] == lines
    assert max(len(compose_body(batch)) for batch in batches) <= MAX_BATCH_BYTES + 20


def test_an_event_larger_than_that_goes_alone() -> None:
    lines = [make_line(1), make_line(2, size=MAX_BATCH_BYTES), make_line(3)]

    assert [len(batch) for batch in split_batches(lines)] == [1, 1, 1]


@pytest.mark.spec("10.3")
def test_the_body_is_that_of_the_specification() -> None:
    lines = [make_line(1), make_line(2)]

    body = json.loads(compose_body(lines))

    assert body == {"events": [line.event for line in lines]}


def test_the_same_events_have_the_same_key_and_others_another() -> None:
    assert derive_idempotency_key([make_line(1), make_line(2)]) == derive_idempotency_key(
        [make_line(1), make_line(2)]
    )
    assert derive_idempotency_key([make_line(1), make_line(2)]) != derive_idempotency_key(
        [make_line(1)]
    )


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://example.com/events",
        "https://example.com:8443/events?project=a",
        "http://localhost:8000/",
        "http://127.0.0.1/events",
        "http://127.255.1.2:80",
        "http://[::1]:8000/events",
    ],
)
def test_an_address_that_is_safe(endpoint: str) -> None:
    assert is_safe_endpoint(endpoint)


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "http://example.com/events",
        "http://127.0.0.1.example.com/",
        "http://localhost.example.com/",
        "http://localhost@example.com/",
        "http://127.0.0.1@example.com/",
        "http://user:password@localhost/",
        "https://user:password@example.com/",
        "https://token@example.com/",
        "https://example.com/\nX: y",
        "https://example.com/\n",
        "https://",
        "HTTP://EXAMPLE.COM",
        "ftp://localhost/",
        "file:///etc/passwd",
        "//example.com/",
        "localhost:8000",
        "http://0.0.0.0/",
        "http://[::1].example.com/",
        "http://[::ffff:10.0.0.1]/",
    ],
)
def test_an_address_that_is_not(endpoint: str) -> None:
    assert not is_safe_endpoint(endpoint)
