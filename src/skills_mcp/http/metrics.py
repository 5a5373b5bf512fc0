"""Prometheus metrics of requests, responses and served content.

All label values are known in advance: no skill paths, no texts of callers or skills, no
subjects.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import prometheus_client
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skills_mcp.http.routes import ROUTES, on_response_start, opens_stream
from skills_mcp.server.measurements import (
    DURATION_BUCKETS,
    GAUGES,
    OPERATION,
    OUTCOMES,
    ROUTING,
    SESSION,
    ContentGauges,
    GaugeMeasurement,
    Measurement,
    to_label,
)

_OPEN_METRICS = "application/openmetrics-text"

_HTTP_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"})

# What web servers write down for it; a registered status would say that we answered.
_CLIENT_CLOSED_REQUEST = "499"


class Metrics:
    """`Instruments` for Prometheus, and metrics of HTTP and events.

    Args:
        read_gauges: Reads the gauges; blocking, called on a thread.
    """

    def __init__(self, read_gauges: Callable[[], ContentGauges]) -> None:
        # They double the series, and tell only when this process began.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._read_gauges = read_gauges
        self._registry.register(self)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        histogram = partial(Histogram, registry=self._registry, buckets=DURATION_BUCKETS)
        self._durations = {
            measured.name: histogram(
                measured.prometheus_name, measured.description, measured.prometheus_labels
            )
            for measured in (OPERATION, SESSION)
        }
        self.requests = histogram(
            "http_server_request_duration_seconds",
            "The time until a request was answered; of a stream, until it was opened.",
            ("http_request_method", "http_route", "http_response_status_code"),
        )
        gauge = partial(Gauge, registry=self._registry)
        self.active = gauge("http_server_active_requests", "Requests that are being answered.")
        self.streams = gauge("http_server_open_streams", "Streams that wait for notices.")
        self._routing = self._count(
            ROUTING.prometheus_name, ROUTING.description, ROUTING.prometheus_labels, OUTCOMES
        )
        self.events = self._count(
            "skills_events_received",
            "Events that other servers have sent, by what became of them.",
            ("outcome",),
            ("stored", "known", "refused"),
        )
        self.refused_requests = self._count(
            "skills_events_refused_requests",
            "Requests with events that were refused, by the reason.",
            ("reason",),
            ("quota", "disk", "invalid"),
        )
        self.stored_bytes = self._count(
            "skills_events_stored_bytes", "Bytes of requests whose events were stored."
        )
        self.store_failures = self._count(
            "skills_event_store_failures", "How often the database of events could not be used."
        )

    def _count(
        self,
        name: str,
        description: str,
        labels: Sequence[str] = (),
        values: Iterable[str] = (),
    ) -> Counter:
        counter = Counter(name, description, labels, registry=self._registry)
        for value in values:
            counter.labels(value)  # a rate needs a zero to begin with
        return counter

    def render(self, accepted: str) -> tuple[bytes, str]:
        """All metrics, and their content type. Blocking.

        Args:
            accepted: `Accept` header of the request.
        """
        # No other part of the header decides, so none can make it fail.
        form = f"{_OPEN_METRICS}; version=1.0.0" if _OPEN_METRICS in accepted else ""
        encode, content_type = choose_encoder(form)
        return encode(self._registry), content_type

    def collect(self) -> Iterator[Metric]:
        """Gauges of the content, read when Prometheus asks."""
        gauges = self._read_gauges()
        return (_describe(measured, gauges) for measured in GAUGES)

    def record(self, measurement: Measurement, value: float, *labels: str) -> None:
        if measurement is ROUTING:
            self._routing.labels(*labels).inc(value)
        else:
            self._durations[measurement.name].labels(*labels).observe(value)


def _describe(measured: GaugeMeasurement, gauges: ContentGauges) -> Metric:
    name, labels = measured.prometheus_name, measured.prometheus_labels
    if measured.kind == "info":
        commits = InfoMetricFamily(name, measured.description, labels=labels[:-1])
        for _, values in measured.read(gauges):
            commits.add_metric(values[:-1], {labels[-1]: values[-1]})
        return commits
    kind = GaugeMetricFamily if measured.kind == "gauge" else CounterMetricFamily
    family = kind(name, measured.description, labels=labels)
    for value, values in measured.read(gauges):
        family.add_metric(values, value)
    return family


class RequestMetrics:
    """Middleware that measures requests.

    A notification stream lasts as long as its client. Its duration ends with the start
    of the response, and it counts as an open stream.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        metrics, is_stream = self._metrics, opens_stream(scope)
        labels = to_label(scope["method"], _HTTP_METHODS), to_label(scope["path"], ROUTES)
        started, status = time.perf_counter(), ""
        metrics.active.inc()

        def observe() -> None:
            metrics.active.dec()
            seconds = time.perf_counter() - started
            metrics.requests.labels(*labels, status or _CLIENT_CLOSED_REQUEST).observe(seconds)

        def begin_answer(message: Message) -> None:
            nonlocal status
            status = str(message["status"])
            if is_stream and status == "200":
                observe()
                metrics.streams.inc()

        try:
            await self._app(scope, receive, on_response_start(send, begin_answer))
        except Exception:
            status = status or "500"
            raise
        finally:
            if is_stream and status == "200":
                metrics.streams.dec()
            else:
                observe()
