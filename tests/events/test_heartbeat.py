"""A server says now and again what it serves, and nothing about a person."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import anyio
import httpx
import pytest

from skills_mcp.about import __version__
from skills_mcp.bootstrap import (
    Options,
    build,
    for_http,
    open_heartbeat_timer,
    read_heartbeat,
)
from skills_mcp.config import Analytics
from skills_mcp.events.collector.event_store import open_event_store
from skills_mcp.events.heartbeat import Heartbeat, HeartbeatTimer, Transport, parse_heartbeat
from skills_mcp.events.privacy import Privacy
from skills_mcp.events.publisher import DatabasePublisher, Publisher
from skills_mcp.events.spool import Outbox
from tests.features.report.happenings import missed
from tests.support import SKILLS_CONTENT, Upstream, skill_text, write

ENDPOINT = "https://skills.example.com/events"
ON = Analytics(enabled=True, endpoint=ENDPOINT)
NOW = datetime(2026, 11, 23, 7, tzinfo=UTC)


class Receiver:
    """Remembers what was posted, and answers as it is told."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.posted: list[list[dict[str, Any]]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.posted.append(json.loads(request.content)["events"])
        return httpx.Response(self.status)

    @property
    def types(self) -> list[list[str]]:
        return [[each["type"] for each in events] for events in self.posted]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def beat() -> Heartbeat:
    return Heartbeat(
        server_id="server-1",
        happened_at=NOW,
        version="1.0",
        transport="stdio",
        sources=(),
    )


def sending(
    home: Path,
    receiver: Receiver,
    clock: Callable[[], float],
    rules: Analytics = ON,
    *,
    read: Callable[[], Heartbeat | None] = beat,
) -> tuple[Publisher, Outbox]:
    outbox = Outbox(home)
    publisher = Publisher(
        outbox,
        lambda: rules,
        heartbeat_timer=HeartbeatTimer(read, lambda: 900.0, clock),
        transport=httpx.MockTransport(receiver),
    )
    return publisher, outbox


def test_a_heartbeat_is_sent_once_an_interval_also_without_events(
    tmp_path: Path,
) -> None:
    receiver, clock = Receiver(), Clock()
    publisher, outbox = sending(tmp_path, receiver, clock)

    for clock.now in (0.0, 1.0, 899.0, 900.0):
        assert anyio.run(publisher.publish) == 0

    assert receiver.types == [["heartbeat"], ["heartbeat"]]
    assert outbox.spool.is_empty


def test_a_heartbeat_follows_the_events_in_a_request_of_its_own(tmp_path: Path) -> None:
    receiver = Receiver()
    publisher, outbox = sending(tmp_path, receiver, Clock())
    outbox.spool.append(json.dumps(missed("a")))
    outbox.spool.rotate()

    assert anyio.run(publisher.publish) == 1

    assert receiver.types == [["no_match"], ["heartbeat"]]
    ids = [each["event_id"] for events in receiver.posted for each in events]
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    "rules",
    [
        Analytics(),
        Analytics(enabled=True),
        Analytics(enabled=False, endpoint=ENDPOINT),
    ],
)
def test_no_heartbeat_is_sent_where_it_is_off(tmp_path: Path, rules: Analytics) -> None:
    receiver = Receiver()
    publisher, outbox = sending(tmp_path, receiver, Clock(), rules)
    outbox.spool.append(json.dumps(missed("a")))
    outbox.spool.rotate()

    anyio.run(publisher.publish)

    assert "heartbeat" not in str(receiver.types)


def test_a_receiver_that_refuses_heartbeats_gets_no_more(tmp_path: Path) -> None:
    receiver, clock = Receiver(400), Clock()
    publisher, _ = sending(tmp_path, receiver, clock)

    for clock.now in (0.0, 1000.0, 2000.0):
        anyio.run(publisher.publish)

    assert receiver.types == [["heartbeat"]]
    assert list(tmp_path.rglob("dead-letters/*")) == []


def test_a_heartbeat_that_did_not_arrive_is_said_anew_later(tmp_path: Path) -> None:
    receiver = Receiver(503)
    publisher, outbox = sending(tmp_path, receiver, Clock())
    anyio.run(publisher.publish)
    assert outbox.spool.is_empty

    receiver.status = 200
    (outbox.spool.directory / "attempts.json").unlink()  # the pause is over
    anyio.run(publisher.publish)
    anyio.run(publisher.publish)

    assert receiver.types == [["heartbeat"], ["heartbeat"]]


def test_there_is_no_heartbeat_before_there_is_content(tmp_path: Path) -> None:
    receiver = Receiver()
    publisher, _ = sending(tmp_path, receiver, Clock(), read=lambda: None)

    anyio.run(publisher.publish)

    assert receiver.posted == []


def test_what_is_sent_is_read_as_it_was_meant() -> None:
    sent = beat()

    assert parse_heartbeat(json.loads(sent.to_json())) == sent


def test_a_heartbeat_says_what_is_served_and_names_no_person_and_no_path(
    upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.md": skill_text()})
    environment = {"SKILLS_MCP_HOME": str(tmp_path / "home"), "USER": "yvonne"}
    library = build(Options(repo=upstream.url), environment).library
    privacy = Privacy(tmp_path / "home" / "analytics.key", environment)
    assert read_heartbeat(library, privacy, "stdio") is None
    library.sync()

    told = read_heartbeat(library, privacy, "stdio")

    assert told is not None
    (source,) = told.sources
    assert (told.version, told.transport) == (__version__, "stdio")
    assert (source.commit, source.last_error) == (commit, None)
    assert source.age_seconds is not None
    text = told.to_json()
    assert "yvonne" not in text  # no hexadecimal id can hold it
    assert str(tmp_path) not in text
    assert privacy.user_pseudonym(Analytics()).removeprefix("dev-") not in text


def test_replicas_of_one_machine_are_several_servers_and_windows_are_one(tmp_path: Path) -> None:
    privacy = Privacy(tmp_path / "analytics.key", {})
    write(tmp_path / "skills" / "a.md", skill_text())
    found = set()
    for port in (8001, 8002):
        options = Options(skills_dir=str(tmp_path / "skills"), http={"port": port})
        library = build(options, {"SKILLS_MCP_HOME": str(tmp_path)}).library
        library.sync()
        for transport in get_args(Transport):
            beat = read_heartbeat(library, privacy, transport)
            found.add((transport, beat.server_id if beat else ""))

    assert [sum(one == each for one, _ in found) for each in ("stdio", "http")] == [1, 2]


def test_servers_with_other_sources_have_other_names_and_keep_them(
    tmp_path: Path,
) -> None:
    environment = {"SKILLS_MCP_HOME": str(tmp_path), "USER": "ada"}
    first, again = (Privacy(tmp_path / "key", environment) for _ in range(2))
    rules, bare = Analytics(), Analytics(identity="none")

    assert first.server_pseudonym(rules, "a") == again.server_pseudonym(rules, "a")
    assert first.server_pseudonym(rules, "a") != first.server_pseudonym(rules, "b")
    assert first.server_pseudonym(bare, "a") == first.server_pseudonym(bare, "a")
    assert first.server_pseudonym(bare, "a") != again.server_pseudonym(bare, "a")


def test_do_not_track_sends_no_heartbeat(tmp_path: Path) -> None:
    options = Options(skills_dir=str(SKILLS_CONTENT))
    environment = {"SKILLS_MCP_HOME": str(tmp_path), "DO_NOT_TRACK": "1"}
    library = build(options, environment).library

    assert open_heartbeat_timer(library, environment, "stdio") is None


@pytest.mark.parametrize("has_database", [True, False])
def test_a_server_over_http_says_so_with_and_without_a_database(
    tmp_path: Path, *, has_database: bool
) -> None:
    environment = {"SKILLS_MCP_HOME": str(tmp_path)}
    settings = {"events": {"enabled": has_database}}
    options = Options(skills_dir=str(SKILLS_CONTENT), settings=settings)
    application = for_http(build(options, environment), environment)
    application.library.sync()

    timer = application.publisher.heartbeat_timer
    beat = timer.read() if timer else None

    assert (application.store is not None) is has_database
    assert beat is not None
    assert beat.transport == "http"


def test_a_server_with_the_database_writes_its_own_heartbeat(tmp_path: Path) -> None:
    store = open_event_store("", tmp_path)
    clock = Clock()
    pulse = HeartbeatTimer(beat, lambda: 900.0, clock)
    own = DatabasePublisher(Outbox(tmp_path), Analytics, store, heartbeat_timer=pulse)

    anyio.run(own.publish)

    fleet = store.read_fleet(NOW - timedelta(days=1))
    store.close()
    assert fleet == (beat(),)
    assert not pulse.is_due
