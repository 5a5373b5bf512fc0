"""`POST /events`: who may send, what is taken, and what a sender is told."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from skills_mcp.config import Analytics, Config
from skills_mcp.errors import ConfigError
from skills_mcp.events.collector.event_store import EventStore, open_event_store
from skills_mcp.events.publisher import DeliveryStatus, Publisher, classify_response
from skills_mcp.events.spool import Outbox
from skills_mcp.http.admission import BodyBufferMiddleware
from skills_mcp.http.authentication import require_sign_in
from skills_mcp.http.events_endpoint import MAX_EVENTS, IngestTokenMiddleware, open_events_endpoint
from skills_mcp.http.metrics import Metrics
from skills_mcp.http.routes import EVENTS_PATH
from skills_mcp.server.measurements import ContentGauges
from skills_mcp.skills.access import EVENTS
from tests.features.report.happenings import missed, served
from tests.http.listening import listening
from tests.http_server import served as serving
from tests.issuer import Issuer, running_issuer
from tests.support import wait_for, write

TOKEN, OTHER_TOKEN = "a-token-of-the-laptops", "another-token-of-laptops"
NOWHERE = "postgresql+psycopg://skills@127.0.0.1:1/skills"


class Collector:
    """An intake with its store, its metrics and a clock that a test moves."""

    def __init__(self, store: EventStore, settings: Mapping[str, Any]) -> None:
        self.config = Config.model_validate_json(json.dumps(settings))
        self.store = store
        condition = ContentGauges(skills=0, problems={}, sources=(), events_waiting=0)
        self.metrics = Metrics(lambda: condition)
        self.now = 0.0
        self.intake = open_events_endpoint(store, self.config, self.metrics, lambda: self.now)
        behind = PlainTextResponse("behind")
        guarded = require_sign_in(
            Router([Route(EVENTS_PATH, self.intake)], default=behind), self.config
        )
        before = Route(EVENTS_PATH, IngestTokenMiddleware(guarded, self.intake))
        app = BodyBufferMiddleware(Router([before], default=guarded), http=self.config.http)
        self.app: ASGIApp = Router(default=app)

    def count(self, name: str) -> float:
        text = self.metrics.render("")[0].decode()
        line = next(each for each in text.splitlines() if each.startswith(f"{name} "))
        return float(line.rpartition(" ")[2])

    def stored(self) -> set[str]:
        return {str(each["event_id"]) for each in self.store.events()}


@contextmanager
def collecting(
    folder: Path, database: str = "", **settings: Any
) -> Iterator[tuple[Collector, httpx.Client]]:
    store = open_event_store(database, folder)
    collector = Collector(store, settings)
    with listening(collector.app) as url, httpx.Client(base_url=url) as client:
        yield collector, client
    store.close()


@pytest.fixture
def open_door(tmp_path: Path) -> Iterator[tuple[Collector, httpx.Client]]:
    """A server on loopback without sign-in."""
    with collecting(tmp_path) as both:
        yield both


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        yield issuer


def post(client: httpx.Client, *events: object, **headers: str) -> httpx.Response:
    return client.post("/events", json={"events": list(events)}, headers=headers)


def code(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["data"]["code"])


def beat(**fields: Any) -> dict[str, Any]:
    data = {"version": "1.0", "transport": "stdio", "sources": []}
    return {
        "type": "heartbeat",
        "timestamp": "2026-11-23T07:00:00Z",
        "server_id": "server-1",
        "data": {**data, **fields},
    }


def test_events_are_stored_once(open_door: tuple[Collector, httpx.Client]) -> None:
    collector, client = open_door
    first, second = missed("a"), served("b")

    assert post(client, first).json() == {"stored": 1, "known": 0}
    assert post(client, first, second, beat()).json() == {"stored": 2, "known": 1}
    assert post(client).json() == {"stored": 0, "known": 0}

    assert collector.stored() == {first["event_id"], second["event_id"]}
    assert collector.count('skills_events_received_total{outcome="stored"}') == 3
    assert collector.count('skills_events_received_total{outcome="known"}') == 1


def test_one_bad_event_is_named_and_nothing_of_the_request_is_stored(
    open_door: tuple[Collector, httpx.Client],
) -> None:
    collector, client = open_door
    bad = {**missed("b"), "timestamp": "noon", "event_id": "the-bad-one"}

    answer = post(client, missed("a"), bad, missed("c"))

    assert (answer.status_code, code(answer)) == (400, "EVENT_INVALID")
    said = answer.json()["error"]["message"]
    assert said.startswith("events[1] (event_id the-bad-one) is no event: its time")
    assert collector.stored() == set()
    assert collector.count('skills_events_received_total{outcome="refused"}') == 3


@pytest.mark.parametrize("kind", ["no_match", "heartbeat"])
@pytest.mark.parametrize(
    "timestamp",
    ["2026-11-23T07:00:00Z\0", "2026-11-23T07:00:00+00:00\0", "9999-12-31T23:59:59Z"],
)
def test_a_time_that_is_none_is_the_fault_of_the_sender(
    open_door: tuple[Collector, httpx.Client], kind: str, timestamp: str
) -> None:
    answer = post(open_door[1], {**beat(), "type": kind, "timestamp": timestamp})

    assert (answer.status_code, code(answer)) == (400, "EVENT_INVALID")
    assert "its timestamp is no time" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "fields, fault",
    [
        ({"transport": "pigeon"}, "transport is none of"),
        ({"version": "x" * 201}, "version is no line"),
        ({"sources": {}}, "sources are no list"),
        ({"sources": ["a"]}, "no JSON object"),
        ({"sources": [{}] * 101}, "sources are no list of at most 100"),
        ({"sources": [{"commit": "two\nlines"}]}, "commit is no line"),
    ],
)
def test_a_bad_heartbeat_is_refused(
    open_door: tuple[Collector, httpx.Client], fields: dict[str, Any], fault: str
) -> None:
    answer = post(open_door[1], beat(**fields))

    assert (answer.status_code, code(answer)) == (400, "EVENT_INVALID")
    assert fault in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"events": {}}', b"\xff", b'{"events": [NaN]}', b"[" * 99_999],
)
def test_what_is_no_list_of_events_is_refused(
    open_door: tuple[Collector, httpx.Client], body: bytes
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = open_door[1].post("/events", content=body, headers=headers)

    assert (answer.status_code, code(answer)) == (400, "EVENTS_INVALID")


def test_what_is_too_large_is_refused(tmp_path: Path) -> None:
    with collecting(tmp_path, http={"max_body_bytes": 200_000}) as (collector, client):
        many = post(client, *({} for _ in range(MAX_EVENTS + 1)))
        large = post(client, missed("x" * 300_000))

        assert (many.status_code, code(many)) == (413, "TOO_MANY_EVENTS")
        assert (large.status_code, code(large)) == (413, "REQUEST_TOO_LARGE")
        assert collector.stored() == set()


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
def test_another_form_than_json_is_refused(
    open_door: tuple[Collector, httpx.Client], headers: dict[str, str]
) -> None:
    answer = open_door[1].post("/events", content=b"{}", headers=headers)

    assert (answer.status_code, code(answer)) == (415, "MEDIA_TYPE_NOT_SUPPORTED")


def test_only_posts_are_answered(open_door: tuple[Collector, httpx.Client]) -> None:
    answer = open_door[1].get("/events")

    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    assert open_door[1].get("/other").text == "behind"


def test_a_database_that_is_down_makes_senders_come_again(tmp_path: Path) -> None:
    with collecting(tmp_path, NOWHERE) as (collector, client):
        first, second = post(client, missed("a")), post(client, missed("a"))
        collector.now += 60
        third = post(client, missed("a"))

        for answer in (first, second, third):
            assert (answer.status_code, code(answer)) == (503, "EVENTS_UNAVAILABLE")
            assert 5 <= int(answer.headers["Retry-After"]) <= 30
        # The second one did not reach the database.
        assert collector.count("skills_event_store_failures_total") == 2


def test_a_sender_with_the_token_needs_no_identity_provider(tmp_path: Path) -> None:
    file = write(tmp_path / "tokens", f"{OTHER_TOKEN}\n{TOKEN}\n")
    file.chmod(0o600)
    with collecting(tmp_path, events={"ingest_token_file": str(file)}) as (_, client):
        accepted = post(client, missed("a"), Authorization=f"bearer {TOKEN}")
        without = post(client, missed("a"))
        wrong = post(client, missed("a"), Authorization=f"Bearer {TOKEN}x")

        assert accepted.json() == {"stored": 1, "known": 0}
        assert (without.status_code, code(without)) == (401, "TOKEN_NEEDED")
        assert without.headers["WWW-Authenticate"] == 'Bearer realm="skills-mcp"'
        assert (wrong.status_code, code(wrong)) == (401, "INVALID_TOKEN")
        assert 'error="invalid_token"' in wrong.headers["WWW-Authenticate"]


def test_a_token_that_is_taken_out_of_the_file_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "tokens", TOKEN)
    file.chmod(0o600)
    with collecting(tmp_path, events={"ingest_token_file": str(file)}) as (_, client):
        before = post(client, missed("a"), Authorization=f"Bearer {TOKEN}")
        write(tmp_path / "new", OTHER_TOKEN).replace(file)

        after = post(client, missed("a"), Authorization=f"Bearer {TOKEN}")
        other = post(client, missed("b"), Authorization=f"Bearer {OTHER_TOKEN}")

        assert [each.status_code for each in (before, after, other)] == [200, 401, 200]


@pytest.mark.parametrize("name", ["missing", "empty", "short"])
def test_a_file_of_tokens_that_cannot_be_used_stops_the_server(tmp_path: Path, name: str) -> None:
    write(tmp_path / "empty")
    write(tmp_path / "short", "secret")
    file = str(tmp_path / name)

    with (
        pytest.raises(ConfigError, match=r"events\.ingest_token_file"),
        collecting(tmp_path, events={"ingest_token_file": file}),
    ):
        pass


def test_other_machines_need_a_token_also_where_reading_needs_none(
    tmp_path: Path,
) -> None:
    http = {"host": "0.0.0.0", "allow_anonymous": True}  # noqa: S104
    with collecting(tmp_path, http=http) as (collector, client):
        answer = post(client, missed("a"))

        assert (answer.status_code, code(answer)) == (401, "TOKEN_NEEDED")
        assert "events.ingest_token_file" in answer.json()["error"]["message"]
        assert collector.stored() == set()


def test_a_caller_who_signs_in_needs_the_scope_of_events(tmp_path: Path, issuer: Issuer) -> None:
    http = {"base_url": "https://skills.example.com", "auth": {"issuer": issuer.url}}
    with collecting(tmp_path, http=http) as (collector, client):
        tokens = issuer.token(scope=EVENTS), issuer.token(scope="skills:read")
        accepted, reader = (
            post(client, missed("a"), Authorization=f"Bearer {each}") for each in tokens
        )
        nobody = post(client, missed("a"))
        as_reader = client.post("/mcp", headers={"Authorization": f"Bearer {tokens[0]}"})

        assert accepted.json() == {"stored": 1, "known": 0}
        assert (reader.status_code, code(reader)) == (403, "INSUFFICIENT_SCOPE")
        assert 'scope="skills:read skills:events"' in reader.headers["WWW-Authenticate"]
        assert nobody.status_code == 401
        assert 'scope="skills:events"' in nobody.headers["WWW-Authenticate"]
        assert "resource_metadata=" in nobody.headers["WWW-Authenticate"]
        assert as_reader.status_code == 403
        assert len(collector.stored()) == 1


def test_a_token_of_the_file_works_beside_sign_in(tmp_path: Path, issuer: Issuer) -> None:
    file = write(tmp_path / "tokens", TOKEN)
    file.chmod(0o600)
    settings: dict[str, Any] = {
        "http": {
            "base_url": "https://skills.example.com",
            "auth": {"issuer": issuer.url},
        },
        "events": {"ingest_token_file": str(file)},
    }
    with collecting(tmp_path, **settings) as (_, client):
        tokens = TOKEN, issuer.token(scope=EVENTS), OTHER_TOKEN
        answers = [post(client, missed("a"), Authorization=f"Bearer {each}") for each in tokens]
        # It is for events, and reads no skill.
        reading = client.post("/mcp", headers={"Authorization": f"Bearer {TOKEN}"})

        assert [each.status_code for each in answers] == [200, 200, 401]
        assert reading.status_code == 401


@pytest.mark.parametrize(
    "status, meaning",
    [
        (200, DeliveryStatus.ACCEPTED),
        (400, DeliveryStatus.REFUSED),
        (401, DeliveryStatus.UNAUTHORIZED),
        (403, DeliveryStatus.UNAUTHORIZED),
        (413, DeliveryStatus.TOO_LARGE),
        (415, DeliveryStatus.REFUSED),
        (503, DeliveryStatus.RETRY),
    ],
)
def test_our_own_senders_understand_each_answer(status: int, meaning: DeliveryStatus) -> None:
    assert classify_response(status, None, datetime.now(UTC)).status is meaning


def spooled(home: Path, *events: dict[str, Any]) -> Outbox:
    outbox = Outbox(home)
    for each in events:
        outbox.spool.append(json.dumps(each))
    outbox.spool.rotate()
    return outbox


def test_our_own_sender_delivers_what_is_right_and_sets_what_is_wrong_aside(
    tmp_path: Path,
) -> None:
    file = write(tmp_path / "tokens", TOKEN)
    file.chmod(0o600)
    good = [missed(f"task {number}") for number in range(12)]
    bad = {**missed("bad"), "timestamp": "noon"}
    outbox = spooled(tmp_path / "home", *good[:5], bad, *good[5:])
    with collecting(tmp_path, events={"ingest_token_file": str(file)}) as both:
        collector, client = both
        rules = Analytics(enabled=True, endpoint=f"{client.base_url}/events")
        publisher = Publisher(outbox, lambda: rules, read_token=lambda _: TOKEN)

        accepted = anyio.run(publisher.publish)

        assert accepted == 12
        assert collector.stored() == {each["event_id"] for each in good}
    dead = list((tmp_path / "home" / "dead-letters").glob("*.jsonl"))
    assert [bad["event_id"] in file.read_text() for file in dead] == [True]


def test_our_own_sender_keeps_events_that_it_may_not_send(tmp_path: Path) -> None:
    file = write(tmp_path / "tokens", TOKEN)
    file.chmod(0o600)
    outbox = spooled(tmp_path / "home", missed("a"))
    with collecting(tmp_path, events={"ingest_token_file": str(file)}) as (_, client):
        rules = Analytics(enabled=True, endpoint=f"{client.base_url}/events")
        publisher = Publisher(outbox, lambda: rules)

        assert anyio.run(publisher.publish) == 0
        assert outbox.spool.count_events() == 1


def test_a_whole_server_keeps_events_and_its_own_in_one_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    spooled(home, missed("of the server"))
    environment = {"SKILLS_MCP_HOME": str(home), "ANALYTICS_ENDPOINT": ""}
    write(home / "config.yaml", "analytics: {enabled: true}\n")
    options = ("--port", "0", "--operations-port", "0")
    with serving(environment=environment, options=options) as server:
        events = server.url.replace("/mcp", "/events")
        answer = httpx.post(events, json={"events": [missed("of a laptop")]})
        server.wait_for_log("Events are kept in")
        server.process.terminate()  # what waits is stored before the end
        assert server.wait() == 0

    assert answer.json() == {"stored": 1, "known": 0}
    store = open_event_store("", home)
    tasks = {each["data"]["context"] for each in store.events()}
    store.close()
    assert tasks == {"of the server", "of a laptop"}


@pytest.mark.parametrize(
    "database, said",
    [
        ("mysql://ada:a-long-password@db/x", "is not supported"),
        ("nonsense", "is no URL"),
        ("sqlite://", "names no file"),
    ],
)
def test_a_database_that_is_none_stops_the_server_with_a_message(database: str, said: str) -> None:
    with serving(environment={"SKILLS_MCP_EVENTS_DATABASE": database}) as server:
        wait_for(lambda: server.process.poll() is not None)

        assert server.wait() != 0
        assert said in server.wait_for_log("events.database")
        assert "a-long-password" not in server.log


def test_a_database_that_is_down_keeps_no_skill_back() -> None:
    with serving(environment={"SKILLS_MCP_EVENTS_DATABASE": NOWHERE}) as server:
        events = server.url.replace("/mcp", "/events")

        assert httpx.post(events, json={"events": []}).status_code in {200, 503}
        assert httpx.post(events, json={"events": [missed("a")]}).status_code == 503
        server.wait_for_log("Events cannot be stored now")


def test_a_server_can_do_without_events() -> None:
    with serving({"events": {"enabled": False}}) as server:
        events = server.url.replace("/mcp", "/events")

        assert httpx.post(events, json={"events": []}).status_code == 404
        assert "Events are kept" not in server.log
