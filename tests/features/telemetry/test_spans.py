from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, Tracer
from opentelemetry.trace.status import Status, StatusCode

from skills_mcp.features.telemetry.pipeline import RedactingSpanExporter

TEXT = "the salary of Ada"


@pytest.fixture
def kept() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def tracer_to(kept: InMemorySpanExporter, *, keeps_arguments: bool = False) -> Tracer:
    provider = TracerProvider(shutdown_on_exit=False)
    discreet = RedactingSpanExporter(
        kept, frozenset({"get_skill"}), "tcp", capture_arguments=keeps_arguments
    )
    provider.add_span_processor(SimpleSpanProcessor(discreet))
    return provider.get_tracer("test")


CALL: dict[str, Any] = {
    "mcp.method.name": "tools/call",
    "mcp.protocol.version": "2026-07-28",
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "get_skill",
    "jsonrpc.request.id": "7",
    "skills.outcome": "match",
}


def test_a_span_keeps_what_the_conventions_name(kept: InMemorySpanExporter) -> None:
    with tracer_to(kept).start_as_current_span("x", kind=SpanKind.SERVER) as span:
        span.set_attributes(CALL)

    [sent] = kept.get_finished_spans()
    assert sent.name == "tools/call get_skill"
    assert sent.kind is SpanKind.SERVER
    assert dict(sent.attributes or {}) == {**CALL, "network.transport": "tcp"}
    assert sent.get_span_context() == span.get_span_context()
    assert (sent.end_time or 0) > (sent.start_time or 0) > 0


@pytest.mark.parametrize("name", [*CALL, "error.type", "something.else"])
def test_a_text_in_any_attribute_stays_here(kept: InMemorySpanExporter, name: str) -> None:
    with tracer_to(kept).start_as_current_span(TEXT) as span:
        span.set_attributes({**CALL, name: TEXT})

    [sent] = kept.get_finished_spans()
    values = {str(value) for value in (sent.attributes or {}).values()}
    if name != "skills.outcome":  # it is ours, and one of four words
        assert TEXT not in values
    assert TEXT not in sent.name


def test_an_error_keeps_its_type_and_loses_its_text(kept: InMemorySpanExporter) -> None:
    with tracer_to(kept).start_as_current_span("x") as span:
        span.set_attributes({**CALL, "error.type": "ValueError"})
        span.record_exception(ValueError(TEXT))
        span.set_status(StatusCode.ERROR, TEXT)

    [sent] = kept.get_finished_spans()
    assert (sent.attributes or {})["error.type"] == "ValueError"
    assert sent.status.status_code is StatusCode.ERROR
    assert sent.status.description is None
    [event] = sent.events
    assert dict(event.attributes or {}) == {"exception.type": "ValueError"}


def test_texts_pass_where_the_operator_wants_them(kept: InMemorySpanExporter) -> None:
    tracer = tracer_to(kept, keeps_arguments=True)
    with tracer.start_as_current_span("x") as span:
        span.set_attributes({**CALL, "gen_ai.tool.call.arguments": TEXT})
        span.set_status(Status(StatusCode.ERROR, TEXT))

    [sent] = kept.get_finished_spans()
    assert (sent.attributes or {})["gen_ai.tool.call.arguments"] == TEXT
    assert sent.status.description == TEXT
