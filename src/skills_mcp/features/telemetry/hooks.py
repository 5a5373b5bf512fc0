"""The hook of OpenTelemetry: it measures both transports."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skills_mcp.features.telemetry.exporters import Telemetry
    from skills_mcp.server.parts import Serving


def open_part(serving: "Serving") -> "Telemetry | None":
    """Open the exporters that the usual variables ask for."""
    from skills_mcp.features.telemetry.exporters import Telemetry, configure_telemetry

    settings = configure_telemetry(serving.environment)
    return Telemetry(settings, serving) if settings else None
