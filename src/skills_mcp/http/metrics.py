"""Prometheus metrics of requests, responses and served content.

All label values are known in advance: no skill paths, no texts of callers or skills, no
subjects.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, get_args

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

from skills_mcp.http.admission import opens_stream
from skills_mcp.http.protected_resource import EVENTS_PATH, MCP_PATH, WELL_KNOWN
from skills_mcp.http.webhook_endpoint import WEBHOOK_PATH
from skills_mcp.server.measurements import (
    DURATION_BUCKETS,
    OUTCOMES,
    ContentGauges,
    Operation,
    Outcome,
    to_label,
)

_OPEN_METRICS = "application/openmetrics-text"

_HTTP_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"})

ROUTES = frozenset({MCP_PATH, EVENTS_PATH, WEBHOOK_PATH, WELL_KNOWN, WELL_KNOWN + MCP_PATH})

EventOutcome = Literal["stored", "known", "refused"]
EVENT_OUTCOMES: tuple[EventOutcome, ...] = get_args(EventOutcome)

EventRefusal = Literal["quota", "disk", "invalid"]
EVENT_REFUSALS: tuple[EventRefusal, ...] = get_args(EventRefusal)


class Metrics:
    """`Instruments` for Prometheus, and metrics of HTTP and events.

    Args:
        read_gauges: Reads the gauges; blocking, called on a thread.
    """

    def __init__(self, read_gauges: Callable[[], ContentGauges]) -> None:
        # They double the series, and tell only when this process began.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._served = _GaugeCollector(read_gauges)
        self._registry.register(self._served)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        histogram = partial(Histogram, registry=self._registry, buckets=DURATION_BUCKETS)
        self._operations = histogram(
            "mcp_server_operation_duration_seconds",
            "The time until a message of MCP was answered.",
            (
                *("mcp_method_name", "gen_ai_tool_name"),
                *("error_type", "mcp_protocol_version"),
            ),
        )
        self._sessions = histogram(
            "mcp_server_session_duration_seconds",
            "How long a session was open, from initialize to its end.",
            ("mcp_protocol_version",),
        )
        self.requests = histogram(
            "http_server_request_duration_seconds",
            "The time until a request was answered; of a stream, until it was opened.",
            ("http_request_method", "http_route", "http_response_status_code"),
        )
        gauge = partial(Gauge, registry=self._registry)
        self.active = gauge("http_server_active_requests", "Requests that are being answered.")
        self.streams = gauge("http_server_open_streams", "Streams that wait for notices.")
        self._routing = Counter(
            "skills_routing",
            "Tasks that were answered, by outcome.",
            ("outcome",),
            registry=self._registry,
        )
        for outcome in OUTCOMES:
            self._routing.labels(outcome)  # a rate needs a zero to begin with

        self._events = Counter(
            "skills_events_received",
            "Events that other servers have sent, by what became of them.",
            ("outcome",),
            registry=self._registry,
        )
        for fate in EVENT_OUTCOMES:
            self._events.labels(fate)
        self._refusals = Counter(
            "skills_events_refused_requests",
            "Requests with events that were refused, by the reason.",
            ("reason",),
            registry=self._registry,
        )
        for reason in EVENT_REFUSALS:
            self._refusals.labels(reason)
        self._stored_bytes = Counter(
            "skills_events_stored_bytes",
            "Bytes of requests whose events were stored.",
            registry=self._registry,
        )
        self._store_failures = Counter(
            "skills_event_store_failures",
            "How often the database of events could not be used.",
            registry=self._registry,
        )

    def render(self, accepted: str) -> tuple[bytes, str]:
        """All metrics, and their content type. Blocking.

        Args:
            accepted: `Accept` header of the request.
        """
        # No other part of the header decides, so none can make it fail.
        form = f"{_OPEN_METRICS}; version=1.0.0" if _OPEN_METRICS in accepted else ""
        encode, content_type = choose_encoder(form)
        return encode(self._registry), content_type

    def record_operation(self, operation: Operation) -> None:
        self._operations.labels(
            operation.method,
            operation.tool,
            operation.error_type,
            operation.protocol_version,
        ).observe(operation.seconds)

    def record_session(self, protocol_version: str, seconds: float) -> None:
        self._sessions.labels(protocol_version).observe(seconds)

    def count_routing(self, outcome: Outcome) -> None:
        self._routing.labels(outcome).inc()

    def count_events(self, outcome: EventOutcome, number: int) -> None:
        self._events.labels(outcome).inc(number)

    def count_refusal(self, reason: EventRefusal) -> None:
        self._refusals.labels(reason).inc()

    def count_stored_bytes(self, number: int) -> None:
        self._stored_bytes.inc(number)

    def count_store_failure(self) -> None:
        self._store_failures.inc()


class _GaugeCollector:
    """Collector of gauges, read at scrape time."""

    def __init__(self, read_gauges: Callable[[], ContentGauges]) -> None:
        self._read_gauges = read_gauges

    def collect(self) -> Iterator[Metric]:
        condition = self._read_gauges()
        yield GaugeMetricFamily("skills_served", "Skills that are served.", condition.skills)
        problems = GaugeMetricFamily(
            "skills_problems", "Problems of the content, by level.", labels=("level",)
        )
        for level, number in condition.problems.items():
            problems.add_metric((level,), number)
        yield problems
        yield GaugeMetricFamily(
            "skills_events_waiting",
            "Events of analytics that are to be sent.",
            condition.events_waiting,
        )
        yield from _describe_sources(condition)


def _describe_sources(condition: ContentGauges) -> Iterator[Metric]:
    commits = InfoMetricFamily(
        "skills_served_commit", "The commit that is served.", labels=("source",)
    )
    ages = GaugeMetricFamily(
        "skills_content_age_seconds",
        "The time since the last successful sync.",
        labels=("source",),
    )
    failures = CounterMetricFamily(
        "skills_sync_failures", "Syncs that have failed.", labels=("source",)
    )
    for source in condition.sources:
        failures.add_metric((source.mount,), source.failed_syncs)
        if source.commit is not None:
            commits.add_metric((source.mount,), {"commit": source.commit})
        if source.age_seconds is not None:
            ages.add_metric((source.mount,), source.age_seconds)
    yield from (commits, ages, failures)


class RequestMetrics:
    """Middleware that measures requests.

    A notification stream lasts as long as its client. Its duration ends with the start
    of
    the response, and it counts as an open stream.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _Request(self._metrics, scope)

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                request.begin_answer(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, note)
        except Exception:
            request.fail()
            raise
        finally:
            request.end()


class _Request:
    def __init__(self, metrics: Metrics, scope: Scope) -> None:
        self._metrics = metrics
        self._method = to_label(scope["method"], _HTTP_METHODS)
        self._route = to_label(scope["path"], ROUTES)
        self._is_stream = opens_stream(scope)
        self._started = time.perf_counter()
        self._status = ""
        self._is_open = False
        metrics.active.inc()

    def begin_answer(self, status: int) -> None:
        self._status = str(status)
        if self._is_stream and status == 200:  # noqa: PLR2004 - OK
            self._observe()
            self._is_open = True
            self._metrics.streams.inc()

    def fail(self) -> None:
        self._status = self._status or "500"

    def end(self) -> None:
        if self._is_open:
            self._metrics.streams.dec()
        else:
            self._observe()

    def _observe(self) -> None:
        self._metrics.active.dec()
        self._metrics.requests.labels(self._method, self._route, self._status).observe(
            time.perf_counter() - self._started
        )
