"""A server in a process of its own sends to a collector on the loopback."""

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import RequestParamsMeta
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.clients import ERAS, ServerProcess
from tests.http_server import HttpServer, served
from tests.otlp_receiver import OtlpReceiver, plain, receiving
from tests.support import SKILLS_CONTENT, until, wait_for

TRACES = {
    "auto": "4bf92f3577b34da6a3ce929d0e0e4736",
    "legacy": "4bf92f3577b34da6a3ce929d0e0e4737",
}
PARENT = "00f067aa0ba902b7"

LOGIN = "add login to the React app"
SECRET = "xyzzy-salary-of-ada"  # noqa: S105 - what a caller writes, and nobody reads


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    with receiving() as collector:
        yield collector


@pytest.fixture(scope="module")
def server(receiver: OtlpReceiver) -> Iterator[HttpServer]:
    with served(environment=receiver.variables) as serving:
        yield serving


@pytest.fixture(params=ERAS, ids=list(ERAS.values()))
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_call_is_a_child_of_the_span_of_its_client(
    server: HttpServer, receiver: OtlpReceiver, era: str
) -> None:
    trace = TRACES[era]
    meta: RequestParamsMeta = {"traceparent": f"00-{trace}-{PARENT}-01"}  # type: ignore[typeddict-unknown-key]

    async with Client(server.url, mode=era) as client:
        await client.call_tool("get_skill", {"context": LOGIN}, meta=meta)

    await until(lambda: spans_of(receiver, trace))
    [span] = spans_of(receiver, trace)
    assert span.name == "tools/call get_skill"
    assert span.parent_span_id.hex() == PARENT
    attributes = plain(span.attributes)
    assert attributes["mcp.protocol.version"] == ERAS[era]
    assert attributes["skills.outcome"] == "match"
    assert attributes["network.transport"] == "tcp"


def spans_of(receiver: OtlpReceiver, trace: str) -> list[Span]:
    return [span for span in receiver.spans if span.trace_id.hex() == trace]


async def test_no_text_of_a_caller_is_sent(
    server: HttpServer, receiver: OtlpReceiver, era: str
) -> None:
    before = len(receiver.named("tools/call other"))
    async with Client(server.url, mode=era) as client:
        await client.call_tool("get_skill", {"context": SECRET})
        await client.call_tool("get_skill", {"context": {"not": SECRET}})
        await client.call_tool("get_asset", {"skill_path": SECRET, "file": SECRET})
        await client.call_tool(
            "report_usage", {"skill_path": SECRET, "useful": True, "comment": SECRET}
        )
        with pytest.raises(MCPError, match=SECRET):
            await client.call_tool(SECRET, {SECRET: SECRET})
        with pytest.raises(MCPError):
            await client.read_resource(f"skill://{SECRET}")
    await until(lambda: len(receiver.named("tools/call other")) > before)
    await until(lambda: "mcp.server.operation.duration" in receiver.metrics)

    assert SECRET.encode() not in b"".join(body for _, body in receiver.bodies)


async def test_metrics_have_the_names_of_the_conventions_and_ours(
    server: HttpServer, receiver: OtlpReceiver
) -> None:
    async with Client(server.url, mode="legacy") as client:
        await client.call_tool("get_skill", {"context": LOGIN})

    await until(lambda: "mcp.server.session.duration" in receiver.metrics)
    assert set(receiver.metrics) == {
        *("mcp.server.operation.duration", "mcp.server.session.duration"),
        *("skills.routing", "skills.served", "skills.problems"),
        *("skills.events.waiting", "skills.sync.failures"),
    }


async def test_the_log_is_sent(server: HttpServer, receiver: OtlpReceiver) -> None:
    assert server.wait_for_log("Serving 27 skills")

    await until(lambda: [r for r in receiver.logs if "27 skills" in r.body.string_value])


def test_the_last_span_is_sent_before_the_process_ends() -> None:
    with receiving() as collector:
        slow = {**collector.variables, "OTEL_BSP_SCHEDULE_DELAY": "600000"}
        slow["OTEL_SERVICE_NAME"] = "skills-of-acme"
        with served(environment=slow) as serving:
            call_once(serving)
            assert collector.spans == []
            serving.process.send_signal(signal.SIGTERM)

            assert serving.wait() == 0
        assert collector.named("tools/call get_skill")
        [resource] = collector.resources
        assert resource["service.name"] == "skills-of-acme"
        assert resource["service.instance.id"]


def call_once(serving: HttpServer) -> None:
    async def call() -> None:
        async with Client(serving.url) as client:
            await client.call_tool("get_skill", {"context": LOGIN})

    anyio.run(call)


def test_arguments_are_sent_where_the_operator_wants_them() -> None:
    wanted = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
    with (
        receiving() as collector,
        served(environment={**collector.variables, **wanted}) as serving,
    ):
        call_once(serving)
        wait_for(lambda: collector.named("tools/call get_skill"))

        [span] = collector.named("tools/call get_skill")
        arguments = plain(span.attributes)["gen_ai.tool.call.arguments"]
        assert arguments == f'{{"context": "{LOGIN}"}}'


def test_a_collector_that_is_away_costs_one_line() -> None:
    away = OtlpReceiver(url="http://127.0.0.1:9").variables
    with served(environment=away) as serving:
        for _ in range(3):
            call_once(serving)
        assert serving.wait_for_log("OpenTelemetry:")
        serving.process.send_signal(signal.SIGTERM)

        assert serving.wait() == 0
        assert serving.log.count("OpenTelemetry:") == 1
        assert "Traceback" not in serving.log


@contextmanager
def stdio(home: Path, environment: Mapping[str, str]) -> Iterator[ServerProcess]:
    server = ServerProcess(
        "--skills-dir",
        str(SKILLS_CONTENT),
        environment={**environment, "SKILLS_MCP_HOME": str(home)},
        log=home / "log",
    )
    try:
        yield server
    finally:
        server.close()


def test_a_server_on_standard_input_sends_after_its_first_answer(
    tmp_path: Path,
) -> None:
    with receiving() as collector, stdio(tmp_path, collector.variables) as server:
        server.request("server/discover")
        # Metrics begin after the spans: a call in between is in none of them.
        metrics = {"skills.served", "skills.routing"}
        wait_for(
            lambda: server.call("get_skill", context=LOGIN) and metrics <= set(collector.metrics)
        )
        server.close_input()

        assert server.wait() == 0
        # The server that this window had to itself sends the last spans when it ends.
        wait_for(lambda: collector.named("tools/call get_skill"))
        span = collector.named("tools/call get_skill")[-1]
        assert plain(span.attributes)["network.transport"] == "pipe"
