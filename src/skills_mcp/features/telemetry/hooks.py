"""The hook of OpenTelemetry: it measures both transports."""

from skills_mcp.features.telemetry import Telemetry, configure_telemetry
from skills_mcp.server.parts import Serving


def open_part(serving: Serving) -> Telemetry | None:
    """Open the exporters that the usual variables ask for."""
    settings = configure_telemetry(serving.environment)
    return Telemetry(settings, serving) if settings else None
