"""OpenTelemetry metrics: the same measurements as in Prometheus."""

import threading
import time
from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from skills_mcp.about import __version__
from skills_mcp.features.telemetry import Transport
from skills_mcp.server.measurements import (
    DURATION_BUCKETS,
    OTHER,
    ContentGauges,
    Operation,
    Outcome,
)

_Describe = Callable[[ContentGauges], Iterable[Observation]]

# One export asks for each of them in turn.
_FRESH_SECONDS = 1.0


class OtelInstruments:
    """`Instruments` for OpenTelemetry.

    Args:
        read_gauges: Reads the gauges; blocking, called on the exporter's thread.
    """

    def __init__(
        self,
        meters: MeterProvider,
        read_gauges: Callable[[], ContentGauges],
        transport: Transport,
    ) -> None:
        self._transport = transport
        meter = meters.get_meter("skills_mcp", __version__)
        self._operations, self._sessions = (
            meter.create_histogram(
                name,
                unit="s",
                description=description,
                explicit_bucket_boundaries_advisory=DURATION_BUCKETS,
            )
            for name, description in _DURATIONS
        )
        self._routing = meter.create_counter(
            "skills.routing", "{task}", "Tasks that were answered, by outcome."
        )
        latest = _CachedGauges(read_gauges)
        for name, unit, description, describe in _GAUGES:
            meter.create_observable_gauge(
                name, [_observe_with(latest, describe)], unit, description
            )
        meter.create_observable_counter(
            "skills.sync.failures",
            [_observe_with(latest, _describe_failures)],
            "{sync}",
            "Syncs that have failed.",
        )

    def record_operation(self, operation: Operation) -> None:
        attributes = {
            "mcp.method.name": operation.method,
            "mcp.protocol.version": operation.protocol_version,
            "network.transport": self._transport,
        }
        if operation.tool:
            attributes["gen_ai.operation.name"] = "execute_tool"
            attributes["gen_ai.tool.name"] = operation.tool
        if operation.error_type:
            is_other = operation.error_type == OTHER
            attributes["error.type"] = "_OTHER" if is_other else operation.error_type
        self._operations.record(operation.seconds, attributes)

    def record_session(self, protocol_version: str, seconds: float) -> None:
        attributes = {
            "mcp.protocol.version": protocol_version,
            "network.transport": self._transport,
        }
        self._sessions.record(seconds, attributes)

    def count_routing(self, outcome: Outcome) -> None:
        self._routing.add(1, {"skills.outcome": outcome})


_DURATIONS = (
    ("mcp.server.operation.duration", "The time until a message of MCP was answered."),
    (
        "mcp.server.session.duration",
        "How long a session was open, from initialize to its end.",
    ),
)


class _CachedGauges:
    """Gauges, read once per export."""

    def __init__(self, read_gauges: Callable[[], ContentGauges]) -> None:
        self._read_gauges = read_gauges
        self._guard = threading.Lock()
        self._read: tuple[float, ContentGauges] | None = None

    def read(self) -> ContentGauges:
        with self._guard:
            now = time.monotonic()
            if self._read is None or now - self._read[0] > _FRESH_SECONDS:
                self._read = (now, self._read_gauges())
            return self._read[1]


def _observe_with(
    latest: _CachedGauges, describe: _Describe
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _: describe(latest.read())


def _describe_ages(condition: ContentGauges) -> Iterable[Observation]:
    for source in condition.sources:
        if source.age_seconds is not None:
            yield Observation(source.age_seconds, {"skills.source": source.mount})


def _describe_commits(condition: ContentGauges) -> Iterable[Observation]:
    for source in condition.sources:
        if source.commit is not None:
            commit = {"skills.source": source.mount, "skills.commit": source.commit}
            yield Observation(1, commit)


def _describe_failures(condition: ContentGauges) -> Iterable[Observation]:
    for source in condition.sources:
        yield Observation(source.failed_syncs, {"skills.source": source.mount})


def _describe_problems(condition: ContentGauges) -> Iterable[Observation]:
    for level, number in condition.problems.items():
        yield Observation(number, {"skills.level": level})


_GAUGES: tuple[tuple[str, str, str, _Describe], ...] = (
    (
        "skills.served",
        "{skill}",
        "Skills that are served.",
        lambda condition: [Observation(condition.skills)],
    ),
    (
        "skills.served.commit",
        "1",
        "The commit that is served; the value is always 1.",
        _describe_commits,
    ),
    (
        "skills.content.age",
        "s",
        "The time since the last successful sync.",
        _describe_ages,
    ),
    (
        "skills.problems",
        "{problem}",
        "Problems of the content, by level.",
        _describe_problems,
    ),
    (
        "skills.events.waiting",
        "{event}",
        "Events of analytics that are to be sent.",
        lambda condition: [Observation(condition.events_waiting)],
    ),
)
