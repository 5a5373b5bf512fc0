"""Measurements of a server: operations, sessions, routing outcomes, content.

Label values come from fixed sets, never from texts of callers or skills.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import anyio
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types.methods import SPEC_CLIENT_METHODS, SPEC_CLIENT_NOTIFICATION_METHODS
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from skills_mcp.events.publisher import Publisher
from skills_mcp.events.tracker import EventType
from skills_mcp.library import SkillLibrary, SourceState
from skills_mcp.server.app import SkillsServer, select_tools
from skills_mcp.server.callers import Context

OTHER = "other"
"""Label for all unknown values."""

TOP = "top"
"""Label of a source without a mount."""

DURATION_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""In seconds; OpenTelemetry semantic conventions for MCP."""

METHODS = SPEC_CLIENT_METHODS | SPEC_CLIENT_NOTIFICATION_METHODS

VERSIONS = frozenset(KNOWN_PROTOCOL_VERSIONS)

# JSON-RPC's own, and those that MCP has added.
_ERROR_CODES = frozenset(map(str, (-32700, -32600, -32601, -32602, -32603, *range(-32050, -31999))))
_INVALID_PARAMS = "-32602"

# It lasts for as long as the client listens, which says nothing about the server.
_NOT_TIMED = frozenset({"subscriptions/listen"})

Outcome = Literal["match", "ambiguous", "no_match", "picked"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A measurement in the words of OpenTelemetry; those of Prometheus follow."""

    name: str
    unit: str
    description: str
    labels: tuple[str, ...] = ()

    @property
    def prometheus_name(self) -> str:
        suffix = "_seconds" if self.unit == "s" else ""
        return self.name.replace(".", "_") + suffix

    @property
    def prometheus_labels(self) -> list[str]:
        return [label.removeprefix("skills.").replace(".", "_") for label in self.labels]


OPERATION = Measurement(
    name="mcp.server.operation.duration",
    unit="s",
    description="The time until a message of MCP was answered.",
    labels=("mcp.method.name", "gen_ai.tool.name", "error.type", "mcp.protocol.version"),
)
SESSION = Measurement(
    name="mcp.server.session.duration",
    unit="s",
    description="How long a session was open, from initialize to its end.",
    labels=("mcp.protocol.version",),
)
ROUTING = Measurement(
    name="skills.routing",
    unit="{task}",
    description="Tasks that were answered, by outcome.",
    labels=("skills.outcome",),
)


class Instruments(Protocol):
    """Sink of measurements. Called on any thread; never raises."""

    def record(self, measurement: Measurement, value: float, *labels: str) -> None:
        """Record a value with the values of the measurement's labels, in their order."""
        ...


class Measurements:
    """Middleware that measures a server for all registered instruments."""

    def __init__(self, server: SkillsServer, library: SkillLibrary) -> None:
        self._instruments: tuple[Instruments, ...] = ()
        self._watchers: list[Callable[[Outcome], None]] = []
        self.tools = frozenset(spec.name for spec in select_tools(library.config))
        """The tools that there are."""
        # Behind the spans, and before all that can refuse a message.
        server.middleware.insert(1, self.measure)
        library.tracker.observe(self.note)

    def add(self, instruments: Instruments) -> None:
        self._instruments = (*self._instruments, instruments)

    def watch_outcomes(self, watcher: Callable[[Outcome], None]) -> None:
        """Register a callback, called in the context of the routed call."""
        self._watchers.append(watcher)

    async def measure(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: measure the duration of a message."""
        if ctx.method in _NOT_TIMED:
            return await call_next(ctx)
        with self._timed(ctx) as ended:
            result = await call_next(ctx)
            ended(result)
        if ctx.method == "initialize":
            self._time_session(ctx, result)
        return result

    def note(self, kind: EventType, data: Mapping[str, Any]) -> None:
        """Count an event of the library with a routing outcome."""
        if outcome := _derive_outcome(kind, data):
            self._record(ROUTING, 1, outcome)
            for watcher in self._watchers:
                watcher(outcome)

    @contextmanager
    def _timed(self, ctx: Context) -> Iterator[Callable[[HandlerResult], None]]:
        started, error_type = time.perf_counter(), ""

        def end(result: HandlerResult) -> None:
            nonlocal error_type
            is_error = isinstance(result, dict) and result.get("isError") is True
            error_type = "tool_error" if is_error else ""

        try:
            yield end
        except BaseException as error:
            error_type = _derive_error_type(error)
            raise
        finally:
            seconds, method = time.perf_counter() - started, to_label(ctx.method, METHODS)
            version = to_label(ctx.protocol_version, VERSIONS)
            self._record(OPERATION, seconds, method, self._derive_tool(ctx), error_type, version)

    def _record(self, measurement: Measurement, value: float, *labels: str) -> None:
        for instruments in self._instruments:
            instruments.record(measurement, value, *labels)

    def _derive_tool(self, ctx: Context) -> str:
        if ctx.method != "tools/call":
            return ""
        return to_label((ctx.params or {}).get("name"), self.tools)

    def _time_session(self, ctx: Context, result: HandlerResult) -> None:
        """Measure a session; stateless servers have none."""
        # The SDK offers no public way from a message to its connection.
        connection = ctx.session._connection  # noqa: SLF001
        if ctx.request is not None and connection.session_id is None:
            return
        negotiated = result.get("protocolVersion") if isinstance(result, dict) else None
        version, started = to_label(negotiated, VERSIONS), time.perf_counter()

        def end() -> None:
            self._record(SESSION, time.perf_counter() - started, version)

        connection.exit_stack.callback(end)


def to_label(value: object, values: Collection[str]) -> str:
    """Map a value outside the fixed set to `other`."""
    return value if isinstance(value, str) and value in values else OTHER


def _derive_error_type(error: BaseException) -> str:
    if isinstance(error, MCPError):
        return to_label(str(error.error.code), _ERROR_CODES)
    if isinstance(error, ValidationError):
        return _INVALID_PARAMS
    if isinstance(error, anyio.get_cancelled_exc_class()):
        return "cancelled"
    return OTHER


def _derive_outcome(kind: EventType, data: Mapping[str, Any]) -> Outcome | None:
    match kind:
        case "ambiguous" | "no_match":
            return kind
        case "skill_served":
            return "picked" if data.get("was_picked") else "match"
        case _:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentGauges:
    skills: int
    problems: Mapping[str, int]
    """By level."""
    sources: tuple[SourceState, ...]
    """Only their mounts become labels: a URL could leak secrets."""
    events_waiting: int


GaugeKind = Literal["gauge", "counter", "info"]
"""An info is a gauge of 1 whose last label is the information."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugeMeasurement(Measurement):
    """A measurement of the served content, read when it is collected."""

    kind: GaugeKind = "gauge"
    read: Callable[[ContentGauges], Iterable[tuple[float, tuple[str, ...]]]]
    """Values, each with those of the labels."""


def _join_mounts(
    join: Callable[[Iterable[float]], float], values: Iterable[tuple[SourceState, float | None]]
) -> Iterable[tuple[float, tuple[str, ...]]]:
    """One value for each mount: pins and a rollout are at that of their source."""
    found: dict[str, list[float]] = {}
    for source, value in values:
        if value is not None:
            found.setdefault(source.mount or TOP, []).append(value)
    return [(join(each), (mount,)) for mount, each in found.items()]


GAUGES = (
    GaugeMeasurement(
        name="skills.served",
        unit="{skill}",
        description="Skills that are served.",
        read=lambda gauges: [(gauges.skills, ())],
    ),
    GaugeMeasurement(
        name="skills.problems",
        unit="{problem}",
        description="Problems of the content, by level.",
        labels=("skills.level",),
        read=lambda gauges: [(count, (level,)) for level, count in gauges.problems.items()],
    ),
    GaugeMeasurement(
        name="skills.events.waiting",
        unit="{event}",
        description="Events of analytics that are to be sent.",
        read=lambda gauges: [(gauges.events_waiting, ())],
    ),
    GaugeMeasurement(
        name="skills.served.commit",
        unit="1",
        description="The commit that is served.",
        labels=("skills.source", "skills.commit"),
        kind="info",
        # A pin may be at the commit of its branch.
        read=lambda gauges: {(1, (s.mount or TOP, s.commit)) for s in gauges.sources if s.commit},
    ),
    GaugeMeasurement(
        name="skills.content.age",
        unit="s",
        description="The time since the last successful sync.",
        labels=("skills.source",),
        read=lambda gauges: _join_mounts(
            max, ((s, s.age_seconds) for s in gauges.sources if s.is_followed)
        ),
    ),
    GaugeMeasurement(
        name="skills.sync.failures",
        unit="{sync}",
        description="Syncs that have failed.",
        labels=("skills.source",),
        kind="counter",
        read=lambda gauges: _join_mounts(sum, ((s, s.failed_syncs) for s in gauges.sources)),
    ),
)


def read_gauges(library: SkillLibrary, publisher: Publisher) -> ContentGauges:
    """Read the gauges. Blocking."""
    view = library.view()
    snapshot = view.served
    levels = Counter(problem.level for problem in (snapshot.problems if snapshot else ()))
    return ContentGauges(
        skills=len(snapshot.index) if snapshot else 0,
        problems={level: levels[level] for level in ("error", "warning")},
        sources=view.states(),
        events_waiting=publisher.outbox.spool.count_events(),
    )
