"""Export of traces, metrics and logs over OTLP."""

import json
import logging
import time
import uuid
from collections.abc import Callable

from mcp.server.context import CallNext, HandlerResult
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from skills_mcp.about import __version__
from skills_mcp.features.telemetry import Signal, Transport
from skills_mcp.features.telemetry.instruments import OtelInstruments
from skills_mcp.features.telemetry.log_records import OtelLogHandler
from skills_mcp.features.telemetry.spans import (
    ARGUMENTS,
    RedactingSpanExporter,
    set_span_outcome,
)
from skills_mcp.server.measurements import ContentGauges, Context, Measurements
from skills_mcp.text.redaction import redact

logger = logging.getLogger(__name__)

_SERVICE = "skills-mcp"

_REPEATED_SECONDS = 60 * 60.0  # one line an hour says that a collector is still away

# A task has at most 10,000 characters, and few collectors take longer attributes.
_MAX_ARGUMENT_CHARACTERS = 16_000


class OtelPipeline:
    """OTLP providers and exporters, configured by the SDK from variables.

    Args:
        tools: Tool names allowed in spans.
        capture_arguments: Record tool arguments in spans.
    """

    def __init__(
        self,
        signals: frozenset[Signal],
        tools: frozenset[str],
        *,
        capture_arguments: bool,
    ) -> None:
        self._signals = signals
        self._tools = tools
        self._capture_arguments = capture_arguments
        self.shutdown_callbacks: list[Callable[[], object]] = []
        """What sends the rest of each signal; blocking."""

    def begin(
        self,
        measurements: Measurements,
        read_gauges: Callable[[], ContentGauges],
        transport: Transport,
    ) -> None:
        """Start exporting. Once per process: the tracer of the MCP SDK is global."""
        _limit_sdk_logs()
        resource = Resource.create(_describe_service())
        if "traces" in self._signals:
            self._begin_traces(resource, transport)
            measurements.watch_outcomes(set_span_outcome)
        if "metrics" in self._signals:
            meters = self._begin_metrics(resource)
            measurements.add(OtelInstruments(meters, read_gauges, transport))
        if "logs" in self._signals:
            self._begin_logs(resource)

    def _begin_traces(self, resource: Resource, transport: Transport) -> None:
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        discreet = RedactingSpanExporter(
            OTLPSpanExporter(),
            self._tools,
            transport,
            capture_arguments=self._capture_arguments,
        )
        provider.add_span_processor(BatchSpanProcessor(discreet))
        trace.set_tracer_provider(provider)
        self.shutdown_callbacks.append(provider.shutdown)

    def _begin_metrics(self, resource: Resource) -> MeterProvider:
        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self.shutdown_callbacks.append(provider.shutdown)
        return provider

    def _begin_logs(self, resource: Resource) -> None:
        provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
        # Only our own: the texts of libraries may quote what a client has sent.
        logging.getLogger("skills_mcp").addHandler(OtelLogHandler(provider))
        self.shutdown_callbacks.append(provider.shutdown)

    @staticmethod
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
        "service.name": _SERVICE,
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
