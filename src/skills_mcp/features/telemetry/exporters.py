"""The part of a server that exports its measurements."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

import anyio
import anyio.to_thread
from mcp.server.context import CallNext, HandlerResult

from skills_mcp.features.telemetry import OtelSettings
from skills_mcp.server.callers import Context
from skills_mcp.server.parts import ServerPart, Serving

logger = logging.getLogger(__name__)

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

            return begin_pipeline(self._settings, self._serving)

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
