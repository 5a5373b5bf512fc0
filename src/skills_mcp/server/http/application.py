"""What answers at the port of MCP: the endpoint of the SDK, and its guards."""

import anyio
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from skills_mcp.config import Http
from skills_mcp.identity.access import EVERYTHING
from skills_mcp.identity.principal import derive_anonymous
from skills_mcp.server.app import SkillsServer
from skills_mcp.server.callers import PRINCIPAL_KEY
from skills_mcp.server.http.addresses import Addresses, checked
from skills_mcp.server.http.streams import Streams
from skills_mcp.server.http.webhook import Webhook

PATH = "/mcp"
"""Where clients find MCP."""

# `addresses` checks them, on every route.
_CHECKED_BEFORE = TransportSecuritySettings(enable_dns_rebinding_protection=False)


def create_application(
    server: SkillsServer,
    http: Http,
    *,
    ending: anyio.Event,
    webhook: Webhook | None = None,
) -> ASGIApp:
    """Return the application of the port of MCP.

    Args:
        server: Answers the messages of MCP.
        http: The settings.
        ending: Is set when the server ends.
        webhook: Has a route of its own; without one there is no such route.

    Raises:
        ConfigError: The settings do not say under which addresses it is called.
    """
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=http.stateless,
        max_request_body_size=http.max_body_bytes,
        transport_security=_CHECKED_BEFORE,
    )
    app = Streams(_Anonymous(app), ending=ending)
    if webhook:
        app = webhook.in_front_of(app)
    return checked(
        app, Addresses.of(http), trust_proxy_headers=http.trust_proxy_headers
    )


class _Anonymous:
    """Lets each request in as that of a caller without a name."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[PRINCIPAL_KEY] = derive_anonymous(EVERYTHING)
        await self._app(scope, receive, send)
