"""What answers at the port of MCP: the endpoint of the SDK, and its guards."""

from collections.abc import Callable

import anyio
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from skills_mcp.config import Config
from skills_mcp.http.addresses import Addresses, checked
from skills_mcp.http.admission import Admission
from skills_mcp.http.body_buffer import BodyBuffer
from skills_mcp.http.closing import Streams
from skills_mcp.http.event_intake import EventIntake
from skills_mcp.http.protected_resource import PATH
from skills_mcp.http.sessions import MAX_SESSIONS, Sessions
from skills_mcp.http.sign_in import check_sign_in, signed_in
from skills_mcp.http.webhook import Webhook
from skills_mcp.server.app import SkillsServer
from skills_mcp.server.parts import ServerPart

# `addresses` checks them, on every route.
_CHECKED_BEFORE = TransportSecuritySettings(enable_dns_rebinding_protection=False)


class WebPart(ServerPart):
    """Pages that answer people beside MCP.

    Args:
        site: Answers every path that is not one of MCP; it finds the caller in the
            scope of a request, as MCP does.
        visitors: Middleware for browsers in front of the authentication of programs.
            It takes the pages and the application behind that authentication. Without
            it, a browser needs a token as a program does.
    """

    def __init__(
        self, site: ASGIApp, visitors: Callable[[ASGIApp, ASGIApp], ASGIApp] | None
    ) -> None:
        self.site = site
        self.visitors = visitors


def create_application(  # noqa: PLR0913 - each of them is a part of the port
    server: SkillsServer,
    config: Config,
    *,
    ending: anyio.Event,
    webhook: Webhook | None = None,
    web: WebPart | None = None,
    intake: EventIntake | None = None,
) -> ASGIApp:
    """Return the application of the port of MCP.

    Args:
        server: Answers the messages of MCP.
        config: The settings.
        ending: Is set when the server ends.
        webhook: Has a route of its own; without one there is no such route.
        web: Answers at every path that is not one of MCP. Without it there are no such
            paths.
        intake: Takes the events of other servers, in the same way.

    Raises:
        ConfigError: The settings do not say under which addresses it is called, or
            let callers in without sign-in by mistake.
    """
    http = config.http
    check_sign_in(config)
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=http.stateless,
        max_request_body_size=http.max_body_bytes,
        max_sessions=MAX_SESSIONS,
        transport_security=_CHECKED_BEFORE,
    )
    if not http.stateless:
        app = Sessions(app, MAX_SESSIONS, trust_proxy_headers=http.trust_proxy_headers)
    app = Streams(app, ending=ending)
    if web:
        app = _beside(app, web.site)
    if intake:
        app = intake.behind_sign_in(app)
    admission = Admission(http)
    app = signed_in(admission.in_front_of(app), config)
    if web and web.visitors:
        app = web.visitors(admission.in_front_of(web.site), app)
    if intake:
        app = intake.in_front_of(app)
    if webhook:
        app = webhook.in_front_of(app)
    app = BodyBuffer(app, http=http)
    return checked(
        app, Addresses.of(http), trust_proxy_headers=http.trust_proxy_headers
    )


def _beside(mcp: ASGIApp, web: ASGIApp) -> ASGIApp:
    """Return an application that answers at the path of MCP, and leaves the rest."""

    async def choose(scope: Scope, receive: Receive, send: Send) -> None:
        is_web = scope["type"] == "http" and scope["path"] != PATH
        await (web if is_web else mcp)(scope, receive, send)

    return choose
