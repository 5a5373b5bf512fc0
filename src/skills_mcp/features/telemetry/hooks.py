"""The hook of OpenTelemetry: it measures both transports."""

from skills_mcp.features.telemetry import Telemetry, configure_telemetry
from skills_mcp.server.parts import ServerPart, Serving


def open_part(serving: Serving) -> ServerPart | None:
    """Open the exporters that the usual variables ask for."""
    found = configure_telemetry(serving.environment)
    return _Exporters(found, serving) if found else None


class _Exporters(ServerPart):
    def __init__(self, telemetry: Telemetry, serving: Serving) -> None:
        self._telemetry = telemetry
        self._serving = serving

    async def open(self) -> None:
        serving = self._serving
        if serving.transport == "tcp":
            await self._telemetry.open(
                serving.server,
                serving.measurements,
                serving.read_condition,
                serving.transport,
            )

    async def run(self) -> None:
        serving = self._serving
        if serving.transport == "pipe":
            await self._telemetry.open_after_first_response(
                serving.server, serving.measurements, serving.read_condition
            )

    async def close(self) -> None:
        await self._telemetry.close()
