"""The hook of the pages, on the port of MCP over HTTP."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skills_mcp.http.http_server import WebPart
    from skills_mcp.server.parts import Serving


def open_part(serving: "Serving") -> "WebPart | None":
    """Open the pages of a server over HTTP.

    Raises:
        ConfigError: The settings of the pages, or of uploads, cannot be used.
    """
    if serving.transport == "pipe":
        return None
    from skills_mcp.bootstrap import open_local_events
    from skills_mcp.features.web.site import build_web  # Starlette: stdio starts without it

    is_local = serving.store is None and serving.library.config.events.enabled
    local_events = open_local_events(serving.environment) if is_local else None
    return build_web(serving.library, serving.store, serving.home / "web.key", local_events)
