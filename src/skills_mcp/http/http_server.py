"""HTTP server: applications of both ports, TCP connections, start and shutdown.

uvicorn has no timeout for request headers or for clients that stop reading. At the
limit, an idle connection of the client with the most is closed.
"""

import asyncio
import logging
import select
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from threading import Timer
from typing import Literal, TypeAlias

import anyio
import anyio.to_thread
import h11
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from skills_mcp.config import Config, Http
from skills_mcp.errors import ConfigError, SkillsError
from skills_mcp.events.collector.event_store import prune_events, repeat_hourly
from skills_mcp.http.admission import (
    MAX_SESSIONS,
    AdmissionControl,
    BodyBufferMiddleware,
    FairShares,
    SessionLimitMiddleware,
)
from skills_mcp.http.allowed_hosts import (
    AllowedAddresses,
    HostOriginMiddleware,
    bracket,
    with_address_check,
)
from skills_mcp.http.authentication import (
    ProtectedResource,
    ScopeRule,
    check_sign_in,
    find_required_scopes,
    require_sign_in,
)
from skills_mcp.http.error_responses import error_response, retry_response
from skills_mcp.http.events_endpoint import (
    EventsEndpoint,
    IngestTokenMiddleware,
    open_events_endpoint,
)
from skills_mcp.http.metrics import Metrics, RequestMetrics
from skills_mcp.http.routes import (
    EVENTS_PATH,
    MCP_PATH,
    ROUTES,
    card_routes,
    on_response_start,
    seeks_mcp,
)
from skills_mcp.http.webhook_endpoint import Webhook, open_webhook
from skills_mcp.library import SkillLibrary
from skills_mcp.server.app import SkillsServer
from skills_mcp.server.callers import derive_network, find_subject
from skills_mcp.server.parts import (
    ServerPart,
    Serving,
    exit_process,
    list_background_work,
    run_or_shut_down,
    stop_serving,
    watch_signals,
)
from skills_mcp.server.wire import SEPARATOR_ESCAPES
from skills_mcp.text.rendering import abbreviate_value

logger = logging.getLogger(__name__)

# `addresses` checks them, on every route.
_CHECKED_BEFORE = TransportSecuritySettings(enable_dns_rebinding_protection=False)


@dataclass(slots=True)
class WebPart(ServerPart):
    """Pages for people, a part of the HTTP application."""

    site: ASGIApp
    """The pages; they serve all paths other than those of the server."""
    visitors: Callable[[ASGIApp, ASGIApp], ASGIApp] | None
    """Wraps the pages, and the guarded application, in the sign-in of people."""
    rule: ScopeRule
    """Scopes that a request needs."""


def create_application(  # noqa: PLR0913 - each of them is a part of the port
    server: SkillsServer,
    config: Config,
    *,
    shutdown: anyio.Event,
    webhook: Webhook | None = None,
    web: WebPart | None = None,
    events: EventsEndpoint | None = None,
    outermost: Sequence[Middleware] = (),
) -> ASGIApp:
    """Create the application of the MCP port.

    Webhook, pages and events add routes. Open streams end with `shutdown`. Only requests
    pass the guards: the lifespan of the MCP endpoint and of the sign-in starts here.

    Raises:
        ConfigError: The settings name no address, or admit remote callers without
            sign-in by mistake.
    """
    http = config.http
    check_sign_in(config)
    mcp = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        stateless_http=http.stateless,
        max_request_body_size=http.max_body_bytes,
        max_sessions=MAX_SESSIONS,
        transport_security=_CHECKED_BEFORE,
    )
    admission = AdmissionControl(http, shutdown)
    limited = mcp if http.stateless else SessionLimitMiddleware(mcp, MAX_SESSIONS)
    endpoint = SeparatorEscapeMiddleware(limited)
    routes = [
        Route(MCP_PATH, LenientHeadersMiddleware(endpoint)),
        *([Route(EVENTS_PATH, events)] if events else []),
    ]
    not_found = _refuse_path(f"{http.base_url.rstrip('/')}{MCP_PATH}")
    admitted = admission.wrap(_route(routes, web.site if web else not_found))
    guarded = require_sign_in(admitted, config, web.rule if web else find_required_scopes)
    visited: ASGIApp = guarded
    if web and web.visitors:
        visited = web.visitors(admission.wrap(web.site), guarded)
    outer = [*card_routes(ProtectedResource(http).url), *([webhook.route] if webhook else [])]
    if events:
        outer.append(Route(EVENTS_PATH, IngestTokenMiddleware(guarded, events)))
    directed = _divert(seeks_mcp, not_found, visited)
    app: ASGIApp = BodyBufferMiddleware(_route(outer, directed), http=http)
    app = with_address_check(app, http)
    for middleware, arguments, options in reversed(outermost):
        app = middleware(app, *arguments, **options)

    @asynccontextmanager
    async def live(_: object) -> AsyncIterator[None]:
        async with mcp.router.lifespan_context(mcp), guarded.lifespan_context(guarded):
            yield

    return Router(default=_drop_slash(app), lifespan=live)


def _drop_slash(app: ASGIApp) -> ASGIApp:
    """Serve paths for programs with a slash, too: behind a proxy, a redirect is wrong."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removesuffix("/")
        if path in ROUTES:
            scope = {**scope, "path": path, "raw_path": path.encode()}
        await app(scope, receive, send)

    return answer


_JSON = "application/json"
_ANY_ANSWER = f"{_JSON}, text/event-stream"


class LenientHeadersMiddleware:
    """Middleware: spell a media type as the SDK wants it.

    Without `Accept`, any type will do (RFC 9110, section 12.5.1).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = MutableHeaders(scope=scope)
        kind, semicolon, parameters = headers.get("content-type", "").partition(";")
        if scope["method"] == "POST" and kind.strip().lower() == _JSON != kind:
            headers["content-type"] = f"{_JSON}{semicolon}{parameters}"
        if scope["method"] == "POST" and not headers.get("accept", "").strip():
            headers["accept"] = _ANY_ANSWER
        await self._app(scope, receive, send)


def _divert(condition: Callable[[Scope], bool], to: ASGIApp, default: ASGIApp) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await (to if condition(scope) else default)(scope, receive, send)

    return answer


def _refuse_path(endpoint: str) -> ASGIApp:
    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        message = f"Nothing is at {abbreviate_value(scope['path'])}. MCP is served at {endpoint}."
        await error_response(404, "NOT_FOUND", message)(scope, receive, send)

    return refuse


def _route(routes: Sequence[Route], default: ASGIApp) -> ASGIApp:
    return Router(routes, redirect_slashes=False, default=default)


_SEPARATOR_BYTES = {c.encode(): escape.encode() for c, escape in SEPARATOR_ESCAPES.items()}


class SeparatorEscapeMiddleware:
    """Middleware: escape line separators in event streams, each event in one chunk."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_stream = False

        async def escape(message: Message) -> None:
            nonlocal is_stream
            if message["type"] == "http.response.start":
                content_type = Headers(raw=message["headers"]).get("content-type", "")
                is_stream = content_type.startswith("text/event-stream")
            elif is_stream:
                body = message.get("body", b"")
                for separator, escaped in _SEPARATOR_BYTES.items():
                    body = body.replace(separator, escaped)
                message = {**message, "body": body}
            await send(message)

        await self._app(scope, receive, escape)


class ConnectionCloseMiddleware:
    """Middleware: `Connection: close` on each response after the shutdown signal.

    Clients then reconnect, and the load balancer has already removed this server.
    Otherwise a kept-alive connection would be closed in the middle of a request.
    """

    def __init__(self, app: ASGIApp, *, shutdown: anyio.Event) -> None:
        self._app = app
        self._shutdown = shutdown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        def close(message: Message) -> None:
            if self._shutdown.is_set():
                MutableHeaders(scope=message)["connection"] = "close"

        await self._app(scope, receive, on_response_start(send, close))


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
    addresses = AllowedAddresses.of_operations(http)
    return Router(default=HostOriginMiddleware(app, addresses))


_BACKLOG = 2048  # connections that wait to be accepted; the kernel may allow fewer

# asyncio accepts as many in one round of its loop. Each costs half a millisecond until
# it is refused, and in a flood of connections all other clients wait for the round.
_ACCEPTED_AT_ONCE = 32

# For what ends after the requests. Threads that take turns from the event loop may
# make it wait for minutes, and nothing can interrupt them.
_LAST_SECONDS = 5.0

# A person who waits longer wants to see what the pages say of it.
_FIRST_CONTENT_SECONDS = 30.0

# Longer than proxies keep a connection (nginx: 60): the side that sends requests has to
# be the one that closes, or a request meets a connection that is being closed.
_KEEP_ALIVE_SECONDS = 75


# What the process opens besides: files of skills, Git, the other port, and the
# connections that are refused.
_SPARE_FILES = 384

# Connections of clients that are told to come again; one more is only closed.
_SPARE_CONNECTIONS = 128

# The value of SO_LINGER (socket(7)): on, and for 0 seconds.
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)

# Linux tells it beside data that are not read yet; without it, they are read first.
_POLL_HANGUP: int | None = getattr(select, "POLLRDHUP", None)

# With fewer, a client that closes its end right after a short request (`nc -N`) is
# answered: nothing else has to be saved.
_FLOOD_CONNECTIONS = 16


class Connection(H11Protocol):
    """HTTP connection with timeouts for slow clients.

    A timer runs while the client sends a request head or body, or has to read a
    response; none runs while the application works.
    """

    patience_seconds: float
    shares: "FairShares[Connection]"

    _network: str = ""
    _awaited_state: object = None
    _sending: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """No complete request awaits its response."""
        is_answering = self.conn.our_state in {h11.SEND_RESPONSE, h11.SEND_BODY}
        return not is_answering or self.conn.their_state is h11.SEND_BODY

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; at the limit it only gets a 503."""
        super().connection_made(transport)
        # A reply that waits in memory counts, however short it is.
        transport.set_write_buffer_limits(high=0)
        self._network = derive_network(self.client[0]) if self.client else ""
        displaced = self.shares.evict(self._network) if self.shares.is_full else None
        if displaced:
            displaced.abort("other clients connect")
        excess = len(self.connections) - self.shares.capacity
        if excess > _SPARE_CONNECTIONS:
            transport.abort()
        elif self.shares.is_full:
            self.app = _refuse_connection
        else:
            self.shares.add(self, self._network)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        if self._is_half_closed():
            self.transport.abort()
            return
        super().data_received(data)
        self._start_timer()

    def _is_half_closed(self) -> bool:
        """Whether the client has already closed its end, during a flood.

        asyncio closes such a connection soon, so no response longer than a moment would
        arrive. Dropping it saves three quarters of the work.
        """
        if _POLL_HANGUP is None or len(self.connections) < _FLOOD_CONNECTIONS:
            return False
        poller = select.poll()
        poller.register(self.transport.get_extra_info("socket"), _POLL_HANGUP)
        return any(events & _POLL_HANGUP for _, events in poller.poll(0))

    def _start_timer(self) -> None:
        """Start the timer for the next part of the request, unless it runs."""
        owed = self.conn.their_state
        if owed is self._awaited_state:
            return
        self._awaited_state = owed
        if self._sending:
            self._sending.cancel()
        if owed is h11.IDLE:
            self._sending = self.loop.call_later(self.patience_seconds, self._time_out)
        elif owed is h11.SEND_BODY:
            # The application is the first to give up, with an answer.
            self._sending = self.loop.call_later(2 * self.patience_seconds, self._time_out)

    def on_response_complete(self) -> None:
        """Stop the timer: `timeout_keep_alive` governs idle connections."""
        self.shares.use(self, find_subject(self.scope) or self._network)
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE:
            self._awaited_state = None
            if self._sending:
                self._sending.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading:
            self._reading.cancel()

    def _watch_reader(self) -> None:
        unread_bytes = self.transport.get_write_buffer_size()
        self._reading = self.loop.call_later(
            self.patience_seconds, self._check_reader, unread_bytes
        )

    def _check_reader(self, unread_bytes: int) -> None:
        if self.transport.get_write_buffer_size() < unread_bytes:
            self._watch_reader()
        else:
            self._time_out()

    def _time_out(self) -> None:
        self.abort("the client was too slow")

    def abort(self, reason: str) -> None:
        logger.info("Closed a connection: %s", reason)
        # With a reset: what the kernel still has to send would keep the connection
        # half open for as long as the client reads nothing.
        self.transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE
        )
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.shares.remove(self)
        super().connection_lost(exc)
        for clock in (self._sending, self._reading):
            if clock:
                clock.cancel()


def create_connection_class(patience_seconds: float, max_connections: int) -> type[Connection]:
    shares = FairShares[Connection](max_connections, lambda connection: connection.is_idle)
    bounds = {"patience_seconds": patience_seconds, "shares": shares}
    return type("BoundedConnection", (Connection,), bounds)


def raise_open_files_limit(http: Http) -> int:
    """Raise the limit of open files as far as needed and permitted.

    Returns:
        Possible number of connections.
    """
    calls = http.max_concurrent_requests + http.max_waiting_requests
    connections = http.max_streams + calls
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return connections
    needed = connections + _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return connections
    is_enough = hard == resource.RLIM_INFINITY or hard >= needed
    permitted = needed if is_enough else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (permitted, hard))
    if not is_enough:
        logger.warning(
            "Only %s files may be open at once (ulimit -n), so clients beyond %s "
            "connections are refused. Set the limit to %s (systemd: LimitNOFILE=).",
            *(f"{hard:,}", f"{hard - _SPARE_FILES:,}", f"{needed:,}"),
        )
    return max(permitted - _SPARE_FILES, 1)


async def _refuse_connection(scope: Scope, receive: Receive, send: Send) -> None:
    message = "The server has as many connections as it takes. Try again in {seconds} s."
    close = {"Connection": "close"}
    answer = retry_response(503, "TOO_MANY_CONNECTIONS", message, (5, 5), close)
    await answer(scope, receive, send)


_Work: TypeAlias = Callable[[], Awaitable[object]]


class _UvicornServer(uvicorn.Server):
    """uvicorn server without signal handlers: the process has its own."""

    def __init__(self, config: uvicorn.Config, on_open: Callable[[], None] = lambda: None) -> None:
        super().__init__(config)
        self._on_open = on_open

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)
        self._on_open()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_http(
    serving: Serving,
    parts: Sequence[ServerPart] = (),
    *,
    on_open: Callable[[str], None] | None = None,
) -> None:
    """Serve until a signal, then stop everything.

    Exit code 0 after a signal; 1 after an error, for a restart by the supervisor.

    Content is loaded at once: load balancers wait for readiness before any client
    comes.

    Raises:
        ConfigError: A port cannot be opened, or the webhook has no secret.
    """
    library, store = serving.library, serving.store
    http, webhook = library.config.http, open_webhook(library, library.config.http)
    web = next((part for part in parts if isinstance(part, WebPart)), None)
    shutdown, draining, failed = anyio.Event(), anyio.Event(), anyio.Event()
    connections = create_connection_class(
        http.request_timeout_seconds, raise_open_files_limit(http)
    )
    health = Health(library)
    listening = open_listener(http.host, http.port, "http.port")
    operating = open_listener(http.operations_host, http.operations_port, "http.operations_port")
    metrics = Metrics(serving.read_condition)
    serving.measurements.add(metrics)
    for part in parts:
        await part.open()
    application = create_application(
        serving.server,
        library.config,
        shutdown=draining,
        webhook=webhook,
        events=open_events_endpoint(store, library.config, metrics) if store else None,
        web=web,
        outermost=(
            Middleware(RequestMetrics, metrics=metrics),
            Middleware(ConnectionCloseMiddleware, shutdown=shutdown),
        ),
    )
    port = _UvicornServer(_configure(application, http, connections), health.begin)
    # It answers until the process ends: a load balancer asks until then.
    answers = _configure(create_operations(http, health, metrics), http, connections)

    def close() -> None:
        draining.set()
        serving.server.end_streams()
        port.should_exit = True

    library.refresher.wake()
    async with anyio.create_task_group() as tasks:
        await tasks.start(watch_signals, shutdown)
        operate = partial(_UvicornServer(answers).serve, [operating])
        for work in _background_tasks(serving, parts, webhook, operate):
            tasks.start_soon(run_or_shut_down, work, shutdown, failed)
        _announce(operating, listening, has_pages=web is not None)
        tasks.start_soon(_call_on_open, on_open, _derive_url(listening, ""), library)
        tasks.start_soon(_drain, (shutdown, failed), health, http, close)
        await run_or_shut_down(partial(port.serve, [listening]), shutdown, failed)
        await stop_serving(serving, parts, shutdown)
        exit_process(exit_code=int(failed.is_set()))


def _announce(operating: socket.socket, listening: socket.socket, *, has_pages: bool) -> None:
    logger.info("Operations at %s", _derive_url(operating, ""))
    if has_pages:
        logger.info("Serving pages at %s", _derive_url(listening, "/"))
    logger.info("Serving MCP at %s", _derive_url(listening, MCP_PATH))


async def _call_on_open(
    on_open: Callable[[str], None] | None, url: str, library: SkillLibrary
) -> None:
    """Call `on_open` with the URL after the first content, or the timeout."""
    if on_open:
        with suppress(SkillsError):
            await library.refresher.wait_until_ready(_FIRST_CONTENT_SECONDS)
        on_open(url)


def _background_tasks(
    serving: Serving,
    parts: Sequence[ServerPart],
    webhook: Webhook | None,
    serve_operations: _Work,
) -> Iterator[_Work]:
    library, store = serving.library, serving.store
    yield from (*list_background_work(serving, parts), serve_operations)
    if webhook:
        yield webhook.run
    if store:
        logger.info("Events are kept in %s", store.address)
        prune = partial(prune_events, store, lambda: library.config.events.retention_days)
        yield partial(repeat_hourly, prune)


async def _drain(
    events: tuple[anyio.Event, anyio.Event],
    health: Health,
    http: Http,
    close: Callable[[], None],
) -> None:
    """Wait for shutdown, then for load balancers, then close streams and port."""
    shutdown, failed = events
    await shutdown.wait()
    _schedule_forced_exit(http, failed)
    health.end()
    await anyio.sleep(http.drain_seconds)
    close()


def _schedule_forced_exit(http: Http, failed: anyio.Event) -> None:
    """Schedule a forced exit in a thread, in case the event loop is late."""
    seconds = http.drain_seconds + http.shutdown_seconds + _LAST_SECONDS
    last = Timer(seconds, _force_exit, (failed,))
    last.daemon = True
    last.start()


def _force_exit(failed: anyio.Event) -> None:
    logger.warning("Ending although not everything has ended in time")
    exit_process(exit_code=int(failed.is_set()))


def _configure(application: ASGIApp, http: Http, connections: type[Connection]) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        access_log=False,
        backlog=_ACCEPTED_AT_ONCE,
        date_header=False,
        http=connections,
        lifespan="on",
        log_config=None,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=http.shutdown_seconds,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        ws="none",
    )


def open_listener(host: str, port: int, setting: str) -> socket.socket:
    """Open a listening socket, before anything else is started.

    Raises:
        ConfigError: It cannot be opened.
    """
    bare = host.removeprefix("[").removesuffix("]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    try:
        opened = socket.create_server((bare, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"{host}:{port} cannot be opened: {error.strerror}. Choose another {setting}, end the "
            f"program that uses it, or correct {setting.removesuffix('port')}host."
        ) from error
    # Head and body of an answer are two packets, and the second one would wait 40 ms
    # for the acknowledgement of the first. asyncio sets it for its own sockets only.
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def _derive_url(listening: socket.socket, path: str) -> str:
    host, port, *_ = listening.getsockname()
    return f"http://{bracket(host)}:{port}{path}"
