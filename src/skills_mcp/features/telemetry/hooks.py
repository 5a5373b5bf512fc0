"""The hook of OpenTelemetry: it measures both transports."""

from typing import TYPE_CHECKING

from skills_mcp.features.telemetry import configure_telemetry

if TYPE_CHECKING:
    from skills_mcp.features.telemetry.exporters import Telemetry
    from skills_mcp.server.parts import Serving


def open_part(serving: "Serving") -> "Telemetry | None":
    """Open the exporters that the usual variables ask for."""
    settings = configure_telemetry(serving.environment)
    if settings is None:
        return None
    from skills_mcp.features.telemetry.exporters import Telemetry

    return Telemetry(settings, serving)
