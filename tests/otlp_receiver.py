"""A collector of OpenTelemetry on the loopback: it keeps what it is sent."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class OtlpReceiver:
    """What has arrived, and where it has to be sent to."""

    url: str = ""
    bodies: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment of a program that sends here, as soon as it can."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            "OTEL_BLRP_SCHEDULE_DELAY": "50",
            "OTEL_METRIC_EXPORT_INTERVAL": "200",
        }

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for body in self._bodies("/v1/traces")
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def metrics(self) -> dict[str, Metric]:
        """The last value of each."""
        return {
            metric.name: metric
            for body in self._bodies("/v1/metrics")
            for each in ExportMetricsServiceRequest.FromString(body).resource_metrics
            for scope in each.scope_metrics
            for metric in scope.metrics
        }

    @property
    def logs(self) -> list[LogRecord]:
        return [
            record
            for body in self._bodies("/v1/logs")
            for resource in ExportLogsServiceRequest.FromString(body).resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    @property
    def resources(self) -> list[dict[str, str]]:
        """Who has sent the traces."""
        return [
            plain(each.resource.attributes)
            for body in self._bodies("/v1/traces")
            for each in ExportTraceServiceRequest.FromString(body).resource_spans
        ]

    def named(self, name: str) -> list[Span]:
        """Return the spans with a name."""
        return [span for span in self.spans if span.name == name]

    def _bodies(self, path: str) -> list[bytes]:
        return [body for at, body in tuple(self.bodies) if at == path]


def plain(attributes: Iterable[KeyValue]) -> dict[str, str]:
    """Return attributes whose values are texts."""
    return {each.key: each.value.string_value for each in attributes}


@contextmanager
def receiving() -> Iterator[OtlpReceiver]:
    """Receive over OTLP/HTTP until the block ends."""
    receiver = OtlpReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            receiver.bodies.append((self.path, self.rfile.read(length)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
