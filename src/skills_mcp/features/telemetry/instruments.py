"""OpenTelemetry metrics: the same measurements as in Prometheus."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from skills_mcp.about import __version__
from skills_mcp.server.measurements import (
    DURATION_BUCKETS,
    GAUGES,
    OPERATION,
    OTHER,
    ROUTING,
    SESSION,
    ContentGauges,
    GaugeMeasurement,
    Measurement,
)
from skills_mcp.server.parts import Transport

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
        self._record: dict[str, Callable[[float, Mapping[str, str]], None]] = {
            measured.name: meter.create_histogram(
                measured.name,
                unit=measured.unit,
                description=measured.description,
                explicit_bucket_boundaries_advisory=DURATION_BUCKETS,
            ).record
            for measured in (OPERATION, SESSION)
        }
        counter = meter.create_counter(ROUTING.name, ROUTING.unit, ROUTING.description)
        self._record[ROUTING.name] = counter.add
        latest = _CachedGauges(read_gauges)
        for measured in GAUGES:
            is_counter = measured.kind == "counter"
            create = (
                meter.create_observable_counter if is_counter else meter.create_observable_gauge
            )
            description = measured.description
            if measured.kind == "info":
                description = f"{description.rstrip('.')}; the value is always 1."
            observe = partial(_observe, measured, latest)
            create(measured.name, [observe], measured.unit, description)

    def record(self, measurement: Measurement, value: float, *labels: str) -> None:
        named = zip(measurement.labels, labels, strict=True)
        attributes = {name: label for name, label in named if label}
        if measurement.unit == "s":
            attributes["network.transport"] = self._transport
        if "gen_ai.tool.name" in attributes:
            attributes["gen_ai.operation.name"] = "execute_tool"
        if attributes.get("error.type") == OTHER:
            attributes["error.type"] = "_OTHER"
        self._record[measurement.name](value, attributes)


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


def _observe(
    measured: GaugeMeasurement, latest: _CachedGauges, _: CallbackOptions
) -> Iterable[Observation]:
    for value, labels in measured.read(latest.read()):
        yield Observation(value, dict(zip(measured.labels, labels, strict=True)))
