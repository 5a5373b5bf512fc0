"""One server over HTTP, from the first socket to a clean end.

Rule: a request that was accepted is answered. At the end, a load balancer is told
first; then the port is closed, and what was accepted has some seconds to end. Soon
after them the process has ended, with whichever threads go on.
"""

import logging
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Timer
from typing import TypeAlias

import anyio
import uvicorn
from starlette.types import ASGIApp

from skills_mcp.config import Http
from skills_mcp.errors import ConfigError, SkillsError
from skills_mcp.events.collector.upkeep import prune_events, repeat_hourly
from skills_mcp.http.application import WebPart, create_application
from skills_mcp.http.closing import Closing
from skills_mcp.http.connections import Connection, bounded, open_files_for
from skills_mcp.http.event_intake import open_intake
from skills_mcp.http.health import Health
from skills_mcp.http.metrics import Metrics, RequestMetrics
from skills_mcp.http.operations import create_operations
from skills_mcp.http.protected_resource import PATH
from skills_mcp.http.webhook import Webhook, open_webhook
from skills_mcp.library import SkillLibrary
from skills_mcp.server.ending import leave, run_or_end, watch_signals
from skills_mcp.server.parts import ServerPart, Serving

logger = logging.getLogger(__name__)

_BACKLOG = 2048  # connections that wait to be accepted; the kernel may allow fewer

# asyncio accepts as many in one round of its loop. Each costs half a millisecond until
# it is refused, and in a flood of connections all other clients wait for the round.
_ACCEPTED_AT_ONCE = 32

_LAST_PUBLISH_SECONDS = 1.0

# For what ends after the requests. Threads that take turns from the event loop may
# make it wait for minutes, and nothing can interrupt them.
_LAST_SECONDS = 5.0

# A person who waits longer wants to see what the pages say of it.
_FIRST_CONTENT_SECONDS = 30.0

# Longer than proxies keep a connection (nginx: 60): the side that sends requests has to
# be the one that closes, or a request meets a connection that is being closed.
_KEEP_ALIVE_SECONDS = 75


_Work: TypeAlias = Callable[[], Awaitable[object]]


class _Port(uvicorn.Server):
    """A port with its application; the process has signal handlers of its own.

    Args:
        config: Of uvicorn.
        on_open: Called as soon as requests are answered.
    """

    def __init__(
        self, config: uvicorn.Config, on_open: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(config)
        self._on_open = on_open

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the port."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_BACKLOG)
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
    """Serve until a signal comes, then end everything that was started.

    The exit code is 0 after a signal. After an error it is 1, so that the process is
    started again.

    Content is loaded at once: a load balancer waits for it before any client comes.

    Raises:
        ConfigError: A port cannot be opened, or the webhook has no secret.
    """
    library, store = serving.library, serving.store
    http, webhook = library.config.http, open_webhook(library, library.config.http)
    web = next((part for part in parts if isinstance(part, WebPart)), None)
    ending, draining, failed = anyio.Event(), anyio.Event(), anyio.Event()
    connections = bounded(http.request_timeout_seconds, open_files_for(http))
    (listening, operating), health = _listen(http), Health(library)
    metrics = Metrics(serving.read_condition)
    serving.measurements.add(metrics)
    for part in parts:
        await part.open()
    application = create_application(
        serving.server,
        library.config,
        ending=draining,
        webhook=webhook,
        intake=open_intake(store, library.config, metrics) if store else None,
        web=web,
    )
    measured = RequestMetrics(Closing(application, ending=ending), metrics=metrics)
    port = _Port(_configure(measured, http, connections), health.begin)
    # It answers until the process ends: a load balancer asks until then.
    answers = _configure(create_operations(http, health, metrics), http, connections)

    def close() -> None:
        draining.set()
        serving.server.end_streams()
        port.should_exit = True

    library.wake()
    async with anyio.create_task_group() as tasks:
        await tasks.start(watch_signals, ending)
        operate = partial(_Port(answers).serve, [operating])
        for work in _works(serving, parts, webhook, operate):
            tasks.start_soon(run_or_end, work, ending, failed)
        _announce(operating, listening, has_pages=web is not None)
        tasks.start_soon(_tell, on_open, _derive_url(listening, ""), library)
        tasks.start_soon(_drain, (ending, failed), health, http, close)
        await run_or_end(partial(port.serve, [listening]), ending, failed)
        await _end(serving, parts, ending)
        leave(exit_code=int(failed.is_set()))


def _announce(
    operating: socket.socket, listening: socket.socket, *, has_pages: bool
) -> None:
    logger.info("Operations at %s", _derive_url(operating, ""))
    if has_pages:
        logger.info("Serving pages at %s", _derive_url(listening, "/"))
    logger.info("Serving MCP at %s", _derive_url(listening, PATH))


async def _tell(
    on_open: Callable[[str], None] | None, url: str, library: SkillLibrary
) -> None:
    """Say where the server is as soon as it has skills to show, or has none."""
    if on_open:
        with suppress(SkillsError):
            await library.wait_until_ready(_FIRST_CONTENT_SECONDS)
        on_open(url)


def _works(
    serving: Serving,
    parts: Sequence[ServerPart],
    webhook: Webhook | None,
    serve_operations: _Work,
) -> Iterator[_Work]:
    """Background tasks, some of them only if the settings ask for them."""
    library, store = serving.library, serving.store
    yield from (library.run, serving.publisher.run, serve_operations)
    yield from (part.run for part in parts)
    if webhook:
        yield webhook.run
    if store:
        logger.info("Events are kept in %s", store.address)
        prune = partial(
            prune_events, store, lambda: library.config.events.retention_days
        )
        yield partial(repeat_hourly, prune)


async def _end(
    serving: Serving, parts: Sequence[ServerPart], ending: anyio.Event
) -> None:
    """End everything that was started, and send the last events."""
    serving.library.close()
    for part in parts:
        await part.close()
    with anyio.move_on_after(_LAST_PUBLISH_SECONDS):
        await run_or_end(serving.publisher.publish, ending)


async def _drain(
    events: tuple[anyio.Event, anyio.Event],
    health: Health,
    http: Http,
    close: Callable[[], None],
) -> None:
    """Wait for the end, then for load balancers; then end the streams and the port."""
    ending, failed = events
    await ending.wait()
    _leave_in_time(http, failed)
    health.end()
    await anyio.sleep(http.drain_seconds)
    close()


def _leave_in_time(http: Http, failed: anyio.Event) -> None:
    """Let a thread end the process if the event loop has not done so in time."""
    seconds = http.drain_seconds + http.shutdown_seconds + _LAST_SECONDS
    last = Timer(seconds, _leave_now, (failed,))
    last.daemon = True
    last.start()


def _leave_now(failed: anyio.Event) -> None:
    logger.warning("Ending although not everything has ended in time")
    leave(exit_code=int(failed.is_set()))


def _configure(
    application: ASGIApp, http: Http, connections: type[Connection]
) -> uvicorn.Config:
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


def _listen(http: Http) -> tuple[socket.socket, socket.socket]:
    """Open both ports.

    Raises:
        ConfigError: One of them cannot be opened.
    """
    return (
        listen(http.host, http.port, "http.port"),
        listen(http.operations_host, http.operations_port, "http.operations_port"),
    )


def listen(host: str, port: int, setting: str) -> socket.socket:
    """Open a port before anything else is started.

    Raises:
        ConfigError: It cannot be opened.
    """
    bare = host.removeprefix("[").removesuffix("]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    try:
        opened = socket.create_server((bare, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"{host}:{port} cannot be opened: {error.strerror}. Choose another "
            f"{setting}, or end the program that uses it."
        ) from error
    # Head and body of an answer are two packets, and the second one would wait 40 ms
    # for the acknowledgement of the first. asyncio sets it for its own sockets only.
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def _derive_url(listening: socket.socket, path: str) -> str:
    host, port, *_ = listening.getsockname()
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}{path}"
