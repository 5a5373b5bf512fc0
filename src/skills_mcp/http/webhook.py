"""Webhook endpoint."""

import logging
import time
from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from skills_mcp.config import Http
from skills_mcp.http.forge_delivery import (
    WebhookDelivery,
    has_signature,
    verify_delivery,
)
from skills_mcp.http.refusals import error_response
from skills_mcp.http.secret_file import find_secret_file
from skills_mcp.http.webhook_secrets import WebhookSecrets
from skills_mcp.library import Push, SkillLibrary

logger = logging.getLogger(__name__)

WEBHOOK_PATH = "/hooks/git"

# A captured delivery is known for as long as this many others come; one is 32 bytes.
_MAX_SEEN = 4096

# An organisation whose repositories all report here stays below it.
_BURST = 120
_PER_SECOND = 2.0

# Between two fetches, so that a flood of pushes does not become one of fetches.
_PAUSE_SECONDS = 1.0


class Webhook:
    """Endpoint for deliveries; refreshes the content in the background.

    Args:
        refresh: Fetches the newest content, and logs its own failures.
        may_move: Whether a push affects a configured source.
        clock: Seconds since the epoch.
        pause_seconds: Pause between two fetches.
    """

    def __init__(
        self,
        secrets: WebhookSecrets,
        refresh: Callable[[], Awaitable[object]],
        may_move: Callable[[Push], bool],
        *,
        clock: Callable[[], float] = time.time,
        pause_seconds: float = _PAUSE_SECONDS,
    ) -> None:
        self._secrets = secrets
        self._refresh = refresh
        self._may_move = may_move
        self._clock = clock
        self._pause_seconds = pause_seconds
        self._bucket = _TokenBucket(clock)
        self._seen: dict[bytes, None] = {}
        self._is_refusing = False
        self._refresh_requested = anyio.Event()

    def wrap(self, app: ASGIApp) -> ASGIApp:
        route = Route(WEBHOOK_PATH, self.answer, methods=["POST"])

        async def choose(scope: Scope, receive: Receive, send: Send) -> None:
            is_ours = scope["type"] == "http" and scope["path"] == WEBHOOK_PATH
            await (route.handle if is_ours else app)(scope, receive, send)

        return choose

    async def run(self) -> None:
        while True:
            await self._refresh_requested.wait()
            self._refresh_requested = anyio.Event()  # a push from here on needs another refresh
            try:
                await self._refresh()
            except Exception:
                logger.exception("The refresh after a push has failed")
            await anyio.sleep(self._pause_seconds)

    async def answer(self, request: Request) -> Response:
        """Respond without waiting for the refresh; names of sources stay in the log."""
        if not has_signature(request.headers):
            return self._refuse("it has no signature")
        body = await request.body()  # `BodyBuffer` bounds it
        delivery = await anyio.to_thread.run_sync(
            lambda: verify_delivery(request.headers, body, self._secrets.current(), self._clock())
        )
        if delivery is None:
            return self._refuse("its signature is wrong, or too old")
        self._is_refusing = False
        return self._take(delivery)

    def _take(self, delivery: WebhookDelivery) -> Response:
        if delivery.is_ping:
            return JSONResponse({"status": "pong"})
        if delivery.identity in self._seen:
            return _status_response("repeated")
        self._remember(delivery.identity)
        if wait_seconds := self._bucket.take():
            self._refresh_requested.set()  # one fetch covers all that are turned away
            after = {"Retry-After": str(wait_seconds)}
            return error_response(429, "TOO_MANY_DELIVERIES", _TOO_MANY, after)
        if delivery.push is None:
            return _status_response("ignored")
        if self._may_move(delivery.push):
            self._refresh_requested.set()
        else:
            logger.info("A push that the webhook reports is of no source: ignored")
        return _status_response("accepted")

    def _remember(self, identity: bytes) -> None:
        self._seen[identity] = None
        if len(self._seen) > _MAX_SEEN:
            del self._seen[next(iter(self._seen))]

    def _refuse(self, reason: str) -> Response:
        """Reject a delivery; log only the first of consecutive rejections."""
        if not self._is_refusing:
            logger.warning("A delivery to the webhook was refused: %s", reason)
        self._is_refusing = True
        return error_response(403, "DELIVERY_REFUSED", _REFUSED)


def open_webhook(library: SkillLibrary, http: Http) -> Webhook | None:
    """Webhook of a library; None without a configured secret.

    Raises:
        ConfigError: The secret cannot be used.
    """
    if not http.webhook_secret_file:
        return None
    file = find_secret_file(WebhookSecrets.setting, http.webhook_secret_file)
    secrets = WebhookSecrets(file)
    secrets.load()
    return Webhook(secrets, library.refresh, library.may_move)


class _TokenBucket:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tokens = float(_BURST)
        self._counted_at = clock()

    def take(self) -> int:
        """Take a token; 0, or the seconds until one is available."""
        now = self._clock()
        refill = max(0.0, now - self._counted_at) * _PER_SECOND
        self._tokens = min(float(_BURST), self._tokens + refill)
        self._counted_at = now
        if self._tokens < 1:
            return 1 + int((1 - self._tokens) / _PER_SECOND)
        self._tokens -= 1
        return 0


def _status_response(status: str) -> Response:
    return JSONResponse({"status": status}, status_code=202)


_REFUSED = (
    "The delivery has no signature, or none that this server accepts. Write the same "
    "secret into the webhook of your forge and into http.webhook_secret_file."
)
_TOO_MANY = (
    "More deliveries than this server takes. Nothing is lost: what was pushed is "
    "fetched once for all of them."
)
