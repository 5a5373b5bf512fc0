"""Export of traces, metrics and logs over OTLP."""

import json
import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from mcp.server.context import CallNext, HandlerResult
from opentelemetry import _logs as api
from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import get_current
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace.status import Status

from skills_mcp.about import __version__
from skills_mcp.server.callers import Context
from skills_mcp.server.measurements import (
    DURATION_BUCKETS,
    GAUGES,
    METHODS,
    OPERATION,
    OTHER,
    ROUTING,
    SESSION,
    VERSIONS,
    ContentGauges,
    GaugeMeasurement,
    Measurement,
    Outcome,
    to_label,
)
from skills_mcp.server.parts import Serving, Transport
from skills_mcp.text.redaction import redact

_SEVERITIES = (
    (logging.ERROR, SeverityNumber.ERROR),
    (logging.WARNING, SeverityNumber.WARN),
    (logging.INFO, SeverityNumber.INFO),
)


class OtelLogHandler(logging.Handler):
    """Log handler that redacts secrets; stack traces stay on standard error."""

    def __init__(self, provider: api.LoggerProvider) -> None:
        super().__init__()
        self._provider = provider

    def emit(self, record: logging.LogRecord) -> None:
        attributes = {}
        if record.exc_info and record.exc_info[0]:
            attributes["exception.type"] = record.exc_info[0].__qualname__
        self._provider.get_logger(record.name).emit(
            LogRecord(
                timestamp=int(record.created * 1e9),
                observed_timestamp=time.time_ns(),
                context=get_current(),
                severity_number=_derive_severity(record.levelno),
                severity_text=record.levelname,
                body=redact(record.getMessage()),
                attributes=attributes,
            )
        )


def _derive_severity(level: int) -> SeverityNumber:
    return next(
        (number for minimum, number in _SEVERITIES if level >= minimum),
        SeverityNumber.DEBUG,
    )


ARGUMENTS = "gen_ai.tool.call.arguments"
OUTCOME = "skills.outcome"

_METHOD = "mcp.method.name"
_TOOL = "gen_ai.tool.name"

# Numbers, and the identifiers that clients make: no text.
_REQUEST_ID = re.compile(r"[0-9a-fA-F-]{1,36}")

# The names of our classes, and of Python's, and the codes of JSON-RPC.
_ERROR_TYPE = re.compile(r"[A-Za-z_.]{1,80}|-?[0-9]{1,9}")


def set_span_outcome(outcome: Outcome) -> None:
    trace.get_current_span().set_attribute(OUTCOME, outcome)


class RedactingSpanExporter(SpanExporter):
    """Span exporter that removes texts of callers and skills.

    The MCP SDK creates the spans. Names of unknown tools and errors with quoted
    arguments are texts of callers, so each span is rebuilt from an allowlist.

    Args:
        capture_arguments: Let tool arguments and error messages pass.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        tools: frozenset[str],
        transport: Transport,
        *,
        capture_arguments: bool,
    ) -> None:
        self._exporter = exporter
        self._transport = transport
        self._capture_arguments = capture_arguments
        self._rules: dict[str, Callable[[object], object | None]] = {
            _METHOD: lambda value: to_label(value, METHODS),
            _TOOL: lambda value: to_label(value, tools),
            "mcp.protocol.version": lambda value: to_label(value, VERSIONS),
            "gen_ai.operation.name": lambda _: "execute_tool",
            "jsonrpc.request.id": lambda value: _match_or_none(_REQUEST_ID, value),
            "error.type": lambda value: _match_or_none(_ERROR_TYPE, value) or "_OTHER",
            "rpc.response.status_code": lambda value: _match_or_none(_ERROR_TYPE, value),
            OUTCOME: lambda value: value,
        }
        if capture_arguments:
            self._rules[ARGUMENTS] = lambda value: value

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Redact and export spans. Blocking."""
        return self._exporter.export([self._rewrite(span) for span in spans])

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def _rewrite(self, span: ReadableSpan) -> ReadableSpan:
        attributes = dict(self._filter(span.attributes or {}))
        attributes["network.transport"] = self._transport
        method, tool = attributes.get(_METHOD, OTHER), attributes.get(_TOOL)
        status = span.status
        if not self._capture_arguments:
            status = Status(status.status_code)
        return ReadableSpan(
            name=f"{method} {tool}" if tool else str(method),
            context=span.get_span_context(),
            parent=span.parent,
            resource=span.resource,
            attributes=attributes,
            events=[_redact_event(event) for event in span.events],
            links=span.links,
            kind=span.kind,
            status=status,
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )

    def _filter(self, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        filtered = {
            name: rule(attributes[name]) for name, rule in self._rules.items() if name in attributes
        }
        return {name: value for name, value in filtered.items() if value is not None}


def _match_or_none(pattern: re.Pattern[str], value: object) -> str | None:
    return value if isinstance(value, str) and pattern.fullmatch(value) else None


def _redact_event(event: Event) -> Event:
    """Reduce an exception event to its type."""
    kind = (event.attributes or {}).get("exception.type")
    attributes = {"exception.type": kind} if kind else {}
    return Event(event.name, attributes, event.timestamp)


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


logger = logging.getLogger(__name__)


_REPEATED_SECONDS = 60 * 60.0  # one line an hour says that a collector is still away

# A task has at most 10,000 characters, and few collectors take longer attributes.
_MAX_ARGUMENT_CHARACTERS = 16_000


def begin_pipeline(
    signals: Collection[str], serving: Serving, *, capture_arguments: bool
) -> list[Callable[[], object]]:
    """Start exporting, as variables configure the SDK.  Blocking.

    Once per process: the tracer of the MCP SDK is global.

    Returns:
        A function for each signal that flushes it, and blocks.
    """
    _limit_sdk_logs()
    resource = Resource.create(_describe_service())
    flushes: list[Callable[[], object]] = []
    if "traces" in signals:
        flushes.append(_begin_traces(resource, serving, capture_arguments=capture_arguments))
    if "metrics" in signals:
        flushes.append(_begin_metrics(resource, serving))
    if "logs" in signals:
        flushes.append(_begin_logs(resource))
    return flushes


def _begin_traces(
    resource: Resource, serving: Serving, *, capture_arguments: bool
) -> Callable[[], object]:
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    redacting = RedactingSpanExporter(
        OTLPSpanExporter(),
        serving.measurements.tools,
        serving.transport,
        capture_arguments=capture_arguments,
    )
    provider.add_span_processor(BatchSpanProcessor(redacting))
    trace.set_tracer_provider(provider)
    serving.measurements.watch_outcomes(set_span_outcome)
    return provider.shutdown


def _begin_metrics(resource: Resource, serving: Serving) -> Callable[[], object]:
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    instruments = OtelInstruments(provider, serving.read_condition, serving.transport)
    serving.measurements.add(instruments)
    return provider.shutdown


def _begin_logs(resource: Resource) -> Callable[[], object]:
    provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    # Only our own: the texts of libraries may quote what a client has sent.
    logging.getLogger("skills_mcp").addHandler(OtelLogHandler(provider))
    return provider.shutdown


async def record_arguments(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Middleware: add the tool arguments to the span."""
    if ctx.method == "tools/call":
        arguments = json.dumps((ctx.params or {}).get("arguments"), default=str)
        text = redact(arguments)[:_MAX_ARGUMENT_CHARACTERS]
        trace.get_current_span().set_attribute(ARGUMENTS, text)
    return await call_next(ctx)


def _describe_service() -> dict[str, str]:
    """Resource attributes missing from the variables."""
    defaults = {
        "service.name": "skills-mcp",
        "service.version": __version__,
        "service.instance.id": str(uuid.uuid4()),
    }
    configured = OTELResourceDetector().detect().attributes
    return {name: value for name, value in defaults.items() if name not in configured}


def _limit_sdk_logs() -> None:
    """Limit the SDK's logs about an unreachable collector to one line an hour."""
    exporters = logging.getLogger("opentelemetry")
    exporters.propagate = False
    exporters.handlers[:] = [_RateLimitedHandler()]


class _RateLimitedHandler(logging.Handler):
    """Rate-limited forwarding of the SDK's warnings to our log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._quiet_until = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if now < self._quiet_until:
            return
        self._quiet_until = now + _REPEATED_SECONDS
        logger.warning(
            "OpenTelemetry: %s. What cannot be sent is dropped, and the server is not "
            "affected; this is not said again for an hour",
            record.getMessage().rstrip("."),
        )
