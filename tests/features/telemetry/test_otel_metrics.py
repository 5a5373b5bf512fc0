from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from skills_mcp.features.telemetry.pipeline import OtelInstruments
from skills_mcp.server.measurements import (
    DURATION_BUCKETS,
    OPERATION,
    ROUTING,
    SESSION,
    ContentGauges,
)
from tests.support import measured_source

CONDITION = ContentGauges(
    skills=27,
    problems={"error": 2, "warning": 5},
    sources=(measured_source(commit="c0ffee", age_seconds=3.0, failed_syncs=4),),
    events_waiting=7,
)


class Meters:
    """Instruments in memory, and how often the condition was read."""

    def __init__(self) -> None:
        self.reads = 0
        self._reader = InMemoryMetricReader()
        provider = MeterProvider([self._reader], shutdown_on_exit=False)
        self.instruments = OtelInstruments(provider, self._read, "pipe")

    def _read(self) -> ContentGauges:
        self.reads += 1
        return CONDITION

    def points(self) -> dict[str, Any]:
        """Return the last data point of each metric."""
        data = self._reader.get_metrics_data()
        assert data
        return {
            metric.name: metric.data.data_points[-1]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def meters() -> Meters:
    return Meters()


def record_call(
    meters: Meters, method: str = "tools/call", tool: str = "get_skill", error_type: str = ""
) -> None:
    meters.instruments.record(OPERATION, 0.02, method, tool, error_type, "2026-07-28")


def test_an_operation_has_the_attributes_of_the_conventions(meters: Meters) -> None:
    record_call(meters)

    point = meters.points()["mcp.server.operation.duration"]
    assert point.explicit_bounds == DURATION_BUCKETS
    assert dict(point.attributes) == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2026-07-28",
        "network.transport": "pipe",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_skill",
    }


def test_only_a_call_of_a_tool_has_a_tool(meters: Meters) -> None:
    record_call(meters, method="ping", tool="")

    attributes = meters.points()["mcp.server.operation.duration"].attributes
    assert "gen_ai.tool.name" not in attributes
    assert "gen_ai.operation.name" not in attributes


@pytest.mark.parametrize("ours, theirs", [("tool_error",) * 2, ("other", "_OTHER")])
def test_an_error_has_a_type(meters: Meters, ours: str, theirs: str) -> None:
    record_call(meters, error_type=ours)

    attributes = meters.points()["mcp.server.operation.duration"].attributes
    assert attributes["error.type"] == theirs


def test_sessions_and_outcomes_are_counted(meters: Meters) -> None:
    meters.instruments.record(SESSION, 70.0, "2025-06-18")
    meters.instruments.record(ROUTING, 1, "no_match")

    points = meters.points()
    assert points["mcp.server.session.duration"].sum == 70
    assert points["skills.routing"].value == 1
    assert points["skills.routing"].attributes == {"skills.outcome": "no_match"}


def test_what_is_served_is_read_once_for_an_export(meters: Meters) -> None:
    points = meters.points()

    assert meters.reads == 1
    assert {name: point.value for name, point in points.items()} == {
        "skills.served": 27,
        "skills.served.commit": 1,
        "skills.content.age": 3,
        "skills.problems": 5,
        "skills.events.waiting": 7,
        "skills.sync.failures": 4,
    }
