"""HTTP server: ASGI application, ports, graceful shutdown.

Accepted requests are answered. On shutdown the load balancer is told first, then the
port closes, and running requests have some seconds to finish. Soon afterwards the
process exits, even with threads still running.
"""

from collections.abc import Callable

import anyio
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from skills_mcp.config import Config
from skills_mcp.http.addresses import AllowedAddresses, with_address_check
from skills_mcp.http.admission import AdmissionControl
from skills_mcp.http.body_buffer import BodyBufferMiddleware
from skills_mcp.http.closing import StreamShutdownMiddleware
from skills_mcp.http.event_intake import EventsEndpoint
from skills_mcp.http.protected_resource import MCP_PATH
from skills_mcp.http.sessions import MAX_SESSIONS, SessionLimitMiddleware
from skills_mcp.http.sign_in import check_sign_in, require_sign_in
from skills_mcp.http.webhook import Webhook
from skills_mcp.server.app import SkillsServer
from skills_mcp.server.parts import ServerPart

# `addresses` checks them, on every route.
_CHECKED_BEFORE = TransportSecuritySettings(enable_dns_rebinding_protection=False)


class WebPart(ServerPart):
    """Pages for people, a part of the HTTP application."""

    def __init__(
        self, site: ASGIApp, visitors: Callable[[ASGIApp, ASGIApp], ASGIApp] | None
    ) -> None:
        self.site = site
        self.visitors = visitors


def create_application(  # noqa: PLR0913 - each of them is a part of the port
    server: SkillsServer,
    config: Config,
    *,
    shutdown: anyio.Event,
    webhook: Webhook | None = None,
    web: WebPart | None = None,
    events: EventsEndpoint | None = None,
) -> ASGIApp:
    """Create the application of the MCP port.

    Webhook, pages and events add routes; the pages serve all paths other than MCP's.
    Open
    streams end with `shutdown`.

    Raises:
        ConfigError: The settings name no address, or admit remote callers without
        sign-in
            by mistake.
    """
    http = config.http
    check_sign_in(config)
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        stateless_http=http.stateless,
        max_request_body_size=http.max_body_bytes,
        max_sessions=MAX_SESSIONS,
        transport_security=_CHECKED_BEFORE,
    )
    if not http.stateless:
        app = SessionLimitMiddleware(
            app, MAX_SESSIONS, trust_proxy_headers=http.trust_proxy_headers
        )
    app = StreamShutdownMiddleware(app, shutdown=shutdown)
    if web:
        app = _route_pages(app, web.site)
    if events:
        app = events.wrap_signed_in(app)
    admission = AdmissionControl(http)
    app = require_sign_in(admission.wrap(app), config)
    if web and web.visitors:
        app = web.visitors(admission.wrap(web.site), app)
    if events:
        app = events.wrap(app)
    if webhook:
        app = webhook.wrap(app)
    app = BodyBufferMiddleware(app, http=http)
    return with_address_check(
        app, AllowedAddresses.of(http), trust_proxy_headers=http.trust_proxy_headers
    )


def _route_pages(mcp: ASGIApp, web: ASGIApp) -> ASGIApp:
    async def choose(scope: Scope, receive: Receive, send: Send) -> None:
        is_web = scope["type"] == "http" and scope["path"] != MCP_PATH
        await (web if is_web else mcp)(scope, receive, send)

    return choose
