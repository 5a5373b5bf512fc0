"""The guide names each attribute, metric and variable, and no other."""

import inspect
import re

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from skills_mcp.features import telemetry
from skills_mcp.features.telemetry.pipeline import OtelInstruments, RedactingSpanExporter
from skills_mcp.server.measurements import (
    OPERATION,
    ROUTING,
    SESSION,
    ContentGauges,
)
from tests.docs.pages import DOCS, code, codes, section, table
from tests.support import measured_source

PAGE = DOCS / "how-to" / "opentelemetry.md"


def test_the_table_of_attributes_is_complete() -> None:
    spans = RedactingSpanExporter(
        InMemorySpanExporter(), frozenset(), "tcp", capture_arguments=True
    )

    named = {code(row["Attribute"]) for row in table(section(PAGE, "## What is sent"))}
    assert named == {*spans._rules, "network.transport"}


def test_each_metric_is_named() -> None:
    reader = InMemoryMetricReader()
    source = measured_source(commit="c", age_seconds=1.0, failed_syncs=0)
    condition = ContentGauges(skills=1, problems={"error": 1}, sources=(source,), events_waiting=0)
    provider = MeterProvider([reader], shutdown_on_exit=False)
    instruments = OtelInstruments(provider, lambda: condition, "tcp")
    instruments.record(SESSION, 1.0, "2025-06-18")
    instruments.record(ROUTING, 1, "match")
    instruments.record(OPERATION, 1.0, "ping", "", "", "2025-06-18")
    data = reader.get_metrics_data()
    assert data

    made = {
        metric.name
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    text = section(PAGE, "## What is sent").partition("**Metrics**")[2]
    metrics, _, _ = text.partition("**Logs**")
    assert {each for each in codes(metrics) if "." in each} == made


def test_each_variable_that_is_read_is_named() -> None:
    read = re.findall(r'"(OTEL_\w+)"', inspect.getsource(telemetry))
    rows = table(section(PAGE, "## Switch it on"))
    named = {name for row in rows for name in codes(row["Variable"])}

    assert set(read) <= named
