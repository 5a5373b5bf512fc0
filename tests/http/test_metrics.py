import re
import shutil
import subprocess
from dataclasses import replace

import anyio
import httpx
import pytest
from mcp.client.client import Client
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skills_mcp.http.metrics import Metrics, RequestMetrics
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.server.app import create_server
from skills_mcp.server.measurements import (
    OPERATION,
    ROUTING,
    SESSION,
    ContentGauges,
    Measurements,
)
from tests.support import measured_source

CONDITION = ContentGauges(
    skills=27,
    problems={"error": 2, "warning": 5},
    sources=(
        measured_source(commit="c0ffee", age_seconds=3.0, failed_syncs=4),
        measured_source(mount="web", commit=None, age_seconds=None, failed_syncs=0),
    ),
    events_waiting=7,
)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(lambda: CONDITION)


def shown(metrics: Metrics) -> str:
    return metrics.render("")[0].decode()


def value_of(metrics: Metrics, name: str, **labels: str) -> float | None:
    """Return the value of a series; None if there is none."""
    for family in text_string_to_metric_families(shown(metrics)):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    return None


def test_what_is_served_is_read_when_it_is_asked_for(metrics: Metrics) -> None:
    assert value_of(metrics, "skills_served") == 27
    assert value_of(metrics, "skills_problems", level="error") == 2
    assert value_of(metrics, "skills_events_waiting") == 7
    assert value_of(metrics, "skills_content_age_seconds", source="top") == 3
    assert value_of(metrics, "skills_sync_failures_total", source="top") == 4
    commit = {"source": "top", "commit": "c0ffee"}
    assert value_of(metrics, "skills_served_commit_info", **commit) == 1


def test_a_folder_has_neither_a_commit_nor_an_age(metrics: Metrics) -> None:
    assert value_of(metrics, "skills_content_age_seconds", source="web") is None
    assert value_of(metrics, "skills_served_commit_info", source="web") is None


def test_pins_and_a_rollout_count_to_the_mount_of_their_source() -> None:
    followed = measured_source(commit="c0ffee", age_seconds=3.0, failed_syncs=4)
    pinned = replace(followed, age_seconds=90_000.0, is_followed=False, failed_syncs=1)
    rolled_out = replace(followed, commit="beef", age_seconds=5.0)
    sources = (followed, pinned, rolled_out)

    page = shown(Metrics(lambda: replace(CONDITION, sources=sources)))

    samples = [line for line in page.splitlines() if 'source="top"' in line]
    assert sorted(samples) == [
        'skills_content_age_seconds{source="top"} 5.0',
        'skills_served_commit_info{commit="beef",source="top"} 1.0',
        'skills_served_commit_info{commit="c0ffee",source="top"} 1.0',
        'skills_sync_failures_total{source="top"} 9.0',
    ]


def test_each_outcome_is_there_before_it_happens(metrics: Metrics) -> None:
    metrics.record(ROUTING, 1, "no_match")

    assert value_of(metrics, "skills_routing_total", outcome="match") == 0
    assert value_of(metrics, "skills_routing_total", outcome="no_match") == 1


def test_durations_have_the_buckets_of_the_conventions(metrics: Metrics) -> None:
    metrics.record(SESSION, 70.0, "2025-06-18")

    name = "mcp_server_session_duration_seconds_bucket"
    assert value_of(metrics, name, le="60.0") == 0
    assert value_of(metrics, name, le="120.0") == 1


@pytest.mark.parametrize(
    "accepted",
    [
        "application/openmetrics-text",
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4",
        "application/openmetrics-text; version=evil\r\nX-Evil: 1",
    ],
)
def test_openmetrics_is_spoken_if_it_is_accepted(metrics: Metrics, accepted: str) -> None:
    text, content_type = metrics.render(accepted)

    assert content_type.startswith("application/openmetrics-text; version=1.0.0;")
    assert text.endswith(b"# EOF\n")


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_promtool_finds_nothing_to_improve(metrics: Metrics) -> None:
    metrics.record(OPERATION, 0.02, "tools/call", "get_skill", "", "2026-07-28")
    metrics.record(SESSION, 1.0, "2025-06-18")

    found = subprocess.run(
        ["promtool", "check", "metrics"],
        input=shown(metrics),
        text=True,
        capture_output=True,
        check=False,
    )

    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


async def test_no_text_of_a_caller_or_a_skill_is_a_label(
    library: SkillLibrary, metrics: Metrics, era: str
) -> None:
    server = create_server(library)
    Measurements(server, library).add(metrics)

    async with Client(server, mode=era, raise_exceptions=False) as client:
        await client.call_tool("get_skill", {"context": "xsecret login React app"})
        await client.call_tool("get_asset", {"skill_path": "xsecret", "file": "f"})
        with pytest.raises(Exception, match="xsecret"):
            await client.call_tool("xsecret_tool", {"a": "xsecret"})
    for method, path in (("XSECRET", "/mcp"), ("GET", "/mcp/xsecret")):
        await request(metrics, answering(404), method, path)

    labels = {
        value
        for family in text_string_to_metric_families(shown(metrics))
        for sample in family.samples
        for value in sample.labels.values()
    }
    assert not [each for each in labels if "secret" in each.lower()]
    assert not labels & {"/mcp/xsecret", "ui/react/auth"}
    assert value_of(metrics, "skills_routing_total", outcome="match") == 1


def answering(status: int) -> ASGIApp:
    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return app


async def request(metrics: Metrics, app: ASGIApp, method: str = "POST", path: str = "/mcp") -> None:
    transport = httpx.ASGITransport(RequestMetrics(app, metrics=metrics))
    async with httpx.AsyncClient(transport=transport, base_url="http://a") as client:
        await client.request(method, path)


COUNT = "http_server_request_duration_seconds_count"


async def test_a_request_is_measured_with_its_route(metrics: Metrics) -> None:
    await request(metrics, answering(202))

    labels = {"http_request_method": "POST", "http_route": "/mcp"}
    assert value_of(metrics, COUNT, http_response_status_code="202", **labels) == 1
    assert value_of(metrics, "http_server_active_requests") == 0


async def test_a_defect_is_a_status_of_500(metrics: Metrics) -> None:
    async def broken(_: Scope, __: Receive, ___: Send) -> None:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - it is that of the application
        await request(metrics, broken)

    assert value_of(metrics, COUNT, http_response_status_code="500") == 1
    assert value_of(metrics, "http_server_active_requests") == 0


LISTEN = [
    (b"mcp-method", b"subscriptions/listen"),
    (b"mcp-protocol-version", b"2026-07-28"),
]


@pytest.mark.parametrize("method,headers", [("GET", []), ("POST", LISTEN)])
async def test_a_stream_is_measured_when_it_opens_and_counted_while_it_is_open(
    metrics: Metrics, method: str, headers: list[tuple[bytes, bytes]]
) -> None:
    seen = []

    def look() -> tuple[float | None, ...]:
        names = ("http_server_open_streams", "http_server_active_requests", COUNT)
        return tuple(value_of(metrics, name) for name in names)

    async def stream(_: Scope, __: Receive, send: Send) -> None:
        seen.append(look())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        seen.append(look())

    scope = {"type": "http", "method": method, "path": "/mcp", "headers": headers}
    await RequestMetrics(stream, metrics=metrics)(scope, unread, unsent)
    seen.append(look())

    assert seen == [(0, 1, None), (1, 0, 1), (0, 0, 1)]


async def test_a_request_that_ends_before_an_answer_is_that_of_a_client_that_left(
    metrics: Metrics,
) -> None:
    async def leave(_: Scope, __: Receive, ___: Send) -> None:
        await anyio.sleep_forever()

    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": []}
    with anyio.move_on_after(0):
        await RequestMetrics(leave, metrics=metrics)(scope, unread, unsent)

    assert value_of(metrics, COUNT, http_response_status_code="499") == 1


async def unread() -> Message:
    raise NotImplementedError


async def unsent(_: Message) -> None:
    pass


def test_every_name_has_a_prefix_of_the_field_or_ours(metrics: Metrics) -> None:
    names = re.findall(r"^# TYPE (\S+)", shown(metrics), re.MULTILINE)

    assert {name.partition("_")[0] for name in names} == {
        *("mcp", "http", "skills"),
        *("process", "python"),
    }
