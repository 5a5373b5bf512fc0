"""OpenTelemetry: traces, metrics and logs, sent where the usual variables say.

Nothing of it is imported unless they are set, and on standard input and output not
before the first answer.
"""

import logging
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, get_args

import anyio
import anyio.to_thread
from mcp.server.context import CallNext, HandlerResult

from skills_mcp.about import DISTRIBUTION
from skills_mcp.server.app import SkillsServer
from skills_mcp.server.measurements import Condition, Context, Measurements

if TYPE_CHECKING:  # the SDK, which is an extra
    from skills_mcp.features.telemetry.pipeline import Pipeline

logger = logging.getLogger(__name__)

Signal = Literal["traces", "metrics", "logs"]
SIGNALS: tuple[Signal, ...] = get_args(Signal)

_PROTOCOL = "http/protobuf"

# As long as the last events get; a collector that is away must not hold up the end.
_LAST_EXPORT_SECONDS = 1.0

_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURED = frozenset({"true", "span_only", "span_and_event"})

Transport = Literal["pipe", "tcp"]


def find_telemetry(environment: Mapping[str, str]) -> "Telemetry | None":
    """Return what the variables ask for; None if that is nothing.

    What cannot be done is logged once, and the server runs without it.
    """
    if _read(environment, "OTEL_SDK_DISABLED") == "true":
        return None
    signals = frozenset(each for each in SIGNALS if _is_wanted(environment, each))
    if not signals:
        return None
    if not _is_installed():
        logger.warning(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but nothing is sent: OpenTelemetry is "
            "not installed. Install it: pip install '%s[otel]'",
            DISTRIBUTION,
        )
        return None
    return Telemetry(signals, keeps_arguments=_read(environment, _CAPTURE) in _CAPTURED)


def _is_installed() -> bool:
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:  # of a package above it
        return False


def _is_wanted(environment: Mapping[str, str], signal: Signal) -> bool:
    own = f"OTEL_EXPORTER_OTLP_{signal.upper()}"
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"{own}_ENDPOINT")
    if not any(environment.get(name, "").strip() for name in endpoints):
        return False
    if _read(environment, f"OTEL_{signal.upper()}_EXPORTER") == "none":
        return False
    names = (f"{own}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next(filter(None, (_read(environment, n) for n in names)), _PROTOCOL)
    if protocol != _PROTOCOL:
        logger.warning(
            "No %s are sent: OTEL_EXPORTER_OTLP_PROTOCOL is %s, and this server speaks "
            "only %s. Set it to that, and the endpoint to the port for it, usually "
            "4318",
            signal,
            protocol,
            _PROTOCOL,
        )
    return protocol == _PROTOCOL


def _read(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name, "").strip().lower()


class Telemetry:
    """Sends what is measured, from `open` to `close`.

    Args:
        signals: What is sent.
        keeps_arguments: Whether spans hold the arguments of tools.
    """

    def __init__(self, signals: frozenset[Signal], *, keeps_arguments: bool) -> None:
        self._signals = signals
        self._keeps_arguments = keeps_arguments
        self._pipeline: Pipeline | None = None

    async def open(
        self,
        server: SkillsServer,
        measurements: Measurements,
        read_condition: Callable[[], Condition],
        transport: Transport,
    ) -> None:
        """Begin to send."""

        def begin() -> "Pipeline":
            from skills_mcp.features.telemetry.pipeline import Pipeline

            pipeline = Pipeline(
                self._signals,
                measurements.tools,
                keeps_arguments=self._keeps_arguments,
            )
            pipeline.begin(measurements, read_condition, transport)
            return pipeline

        try:
            self._pipeline = await anyio.to_thread.run_sync(begin)
        except ValueError as error:
            logger.warning(
                "Nothing is sent to OpenTelemetry: %s. Correct the variables that "
                "begin with OTEL_",
                str(error).rstrip("."),
            )
            return
        if self._keeps_arguments:
            # Inside of the span, which is the first.
            server.middleware.insert(1, self._pipeline.keep_arguments)

    async def open_after_the_first_answer(
        self,
        server: SkillsServer,
        measurements: Measurements,
        read_condition: Callable[[], Condition],
    ) -> None:
        """Begin to send as soon as a client has its first answer."""
        answered = anyio.Event()

        async def note(ctx: Context, call_next: CallNext) -> HandlerResult:
            try:
                return await call_next(ctx)
            finally:
                answered.set()

        server.middleware.append(note)
        await answered.wait()
        await self.open(server, measurements, read_condition, "pipe")

    async def close(self) -> None:
        """Send the rest, within a bounded time."""
        if self._pipeline is None:
            return
        with anyio.move_on_after(_LAST_EXPORT_SECONDS):
            async with anyio.create_task_group() as tasks:
                for end in self._pipeline.ends:
                    tasks.start_soon(_run_or_abandon, end)


async def _run_or_abandon(end: Callable[[], object]) -> None:
    await anyio.to_thread.run_sync(end, abandon_on_cancel=True)
