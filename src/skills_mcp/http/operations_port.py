"""Application of the operations port."""

from dataclasses import asdict, dataclass
from typing import Literal

import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from skills_mcp.config import Http
from skills_mcp.http.allowed_hosts import AllowedAddresses, HostOriginMiddleware
from skills_mcp.http.metrics import Metrics
from skills_mcp.library import SkillLibrary

Reason = Literal["ending", "loading", "sync failed"]


@dataclass(frozen=True, slots=True)
class NotReady:
    """Reason against sending requests."""

    reason: Reason
    step: str = ""
    code: str = ""


class Health:
    """Readiness of this server."""

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library
        self._is_serving = False
        self._is_ending = False

    def begin(self) -> None:
        """The MCP port is open."""
        self._is_serving = True

    def end(self) -> None:
        """Shutdown has begun."""
        self._is_ending = True

    def check_readiness(self) -> NotReady | None:
        """Reason for not being ready; None if ready. Blocking."""
        if self._is_ending:
            return NotReady("ending")
        library = self._library
        if library.is_ready and self._is_serving:
            return None
        errors = [state.error for state in library.view().states() if state.error]
        if library.is_ready or library.mounts.doing or not errors:
            return NotReady("loading", library.mounts.doing)
        return NotReady("sync failed", code=errors[0].code)


_NEVER_STORED = {"Cache-Control": "no-store"}


def create_operations(http: Http, health: Health, metrics: Metrics) -> ASGIApp:
    """Create the application of the operations port.

    Args:
        http: The settings.
        health: Readiness.
        metrics: Prometheus metrics.

    Raises:
        ConfigError: The settings have an invalid host.
    """

    async def show_life(_: Request) -> Response:
        return PlainTextResponse("ok\n", headers=_NEVER_STORED)

    async def show_readiness(_: Request) -> Response:
        obstacle = await anyio.to_thread.run_sync(health.check_readiness)
        if obstacle is None:
            return JSONResponse({"ready": True}, headers=_NEVER_STORED)
        details = {name: value for name, value in asdict(obstacle).items() if value}
        return JSONResponse({"ready": False, **details}, status_code=503, headers=_NEVER_STORED)

    async def show_metrics(request: Request) -> Response:
        accepted = request.headers.get("accept", "")
        read = metrics.render
        text, content_type = await anyio.to_thread.run_sync(read, accepted)
        return Response(text, headers={**_NEVER_STORED, "Content-Type": content_type})

    app = Starlette(
        routes=[
            Route("/healthz", show_life),
            Route("/readyz", show_readiness),
            Route("/metrics", show_metrics),
        ]
    )
    return HostOriginMiddleware(app, addresses=AllowedAddresses.of_operations(http))
