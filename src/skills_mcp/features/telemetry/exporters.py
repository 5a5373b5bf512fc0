"""What is exported, as `OTEL_*` variables say, and the part of a server that does it."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Literal, NamedTuple, get_args

import anyio
import anyio.to_thread
from mcp.server.context import CallNext, HandlerResult

from skills_mcp.about import compose_install_command
from skills_mcp.server.callers import Context
from skills_mcp.server.parts import ServerPart, Serving

logger = logging.getLogger(__name__)

Signal = Literal["traces", "metrics", "logs"]
SIGNALS: tuple[Signal, ...] = get_args(Signal)

_PROTOCOL = "http/protobuf"

_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURED = frozenset({"true", "span_only", "span_and_event"})


class OtelSettings(NamedTuple):
    signals: frozenset[Signal]
    capture_arguments: bool
    """Record tool arguments in spans, and let error messages pass."""


def configure_telemetry(environment: Mapping[str, str]) -> OtelSettings | None:
    """Settings of the environment; None if disabled.

    Unusable settings are logged once, and the server runs without telemetry.
    """
    if _read(environment, "OTEL_SDK_DISABLED") == "true":
        return None
    signals = frozenset(signal for signal in SIGNALS if _is_enabled(environment, signal))
    if not signals:
        return None
    if not _is_installed():
        logger.warning(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but nothing is sent: OpenTelemetry is "
            "not installed. Install it: %s",
            compose_install_command("otel"),
        )
        return None
    return OtelSettings(signals, _read(environment, _CAPTURE) in _CAPTURED)


def _is_installed() -> bool:
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:  # of a package above it
        return False


def _is_enabled(environment: Mapping[str, str], signal: Signal) -> bool:
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


# As long as the last events get; a collector that is away must not hold up the end.
_LAST_EXPORT_SECONDS = 1.0


class Telemetry(ServerPart):
    """Exports the measurements of a server."""

    def __init__(self, settings: OtelSettings, serving: Serving) -> None:
        self._settings = settings
        self._serving = serving
        self._flushes: Sequence[Callable[[], object]] = ()

    async def open(self) -> None:
        if self._serving.transport == "tcp":
            await self._begin()

    async def run(self) -> None:
        """On stdio, start exporting after the first response to a client."""
        if self._serving.transport == "tcp":
            return
        _ = self._serving.measurements  # made now, they measure the first request, too
        answered = anyio.Event()

        async def note(ctx: Context, call_next: CallNext) -> HandlerResult:
            try:
                return await call_next(ctx)
            finally:
                answered.set()

        self._serving.server.middleware.append(note)
        await answered.wait()
        await self._begin()

    async def _begin(self) -> None:
        def begin() -> Sequence[Callable[[], object]]:
            from skills_mcp.features.telemetry.pipeline import begin_pipeline

            return begin_pipeline(
                self._settings.signals,
                self._serving,
                capture_arguments=self._settings.capture_arguments,
            )

        try:
            self._flushes = await anyio.to_thread.run_sync(begin)
        except ValueError as error:
            logger.warning(
                "Nothing is sent to OpenTelemetry: %s. Correct the variables that begin with OTEL_",
                str(error).rstrip("."),
            )
            return
        if self._settings.capture_arguments:
            from skills_mcp.features.telemetry.pipeline import record_arguments

            # Inside of the span, which is the first.
            self._serving.server.middleware.insert(1, record_arguments)

    async def close(self) -> None:
        """Flush, within a bounded time."""
        run = partial(anyio.to_thread.run_sync, abandon_on_cancel=True)
        with anyio.move_on_after(_LAST_EXPORT_SECONDS):
            async with anyio.create_task_group() as tasks:
                for flush in self._flushes:
                    tasks.start_soon(run, flush)
