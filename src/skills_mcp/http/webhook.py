"""The webhook `POST /hooks/git`: a forge says that something was pushed.

Rule 1: the signature is checked over the raw body before a byte of it is parsed.
Rule 2: a delivery can only have the newest content fetched. So the worst that a replay
does is a fetch too many: the signatures of GitHub and Gitea hold no time, and nothing
else tells a repeated delivery from a new one.
Rule 3: no push is lost. One that comes during a fetch causes another fetch after it,
which all pushes until then share.
"""

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
    ForgeDelivery,
    has_signature,
    open_delivery,
)
from skills_mcp.http.refusals import refuse
from skills_mcp.http.secret_file import find_secret_file
from skills_mcp.http.webhook_secrets import WebhookSecrets
from skills_mcp.library import Push, SkillLibrary

logger = logging.getLogger(__name__)

PATH = "/hooks/git"
"""Where forges find it."""

# A captured delivery is known for as long as this many others come; one is 32 bytes.
_MAX_SEEN = 4096

# An organisation whose repositories all report here stays below it.
_BURST = 120
_PER_SECOND = 2.0

# Between two fetches, so that a flood of pushes does not become one of fetches.
_PAUSE_SECONDS = 1.0


class Webhook:
    """Verifies deliveries and has the content refreshed, without waiting for that.

    Args:
        secrets: What a forge has to know.
        refresh: Brings the newest content here, and logs its own failures.
        may_move: Whether a push could bring something new.
        clock: The time, in seconds since the epoch.
        pause_seconds: The pause between two fetches.
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
        self._allowance = _Allowance(clock)
        self._seen: dict[bytes, None] = {}
        self._is_refusing = False
        self._wanted = anyio.Event()

    def in_front_of(self, app: ASGIApp) -> ASGIApp:
        """Return an application that has the route besides all of another's."""
        route = Route(PATH, self.answer, methods=["POST"])

        async def choose(scope: Scope, receive: Receive, send: Send) -> None:
            is_ours = scope["type"] == "http" and scope["path"] == PATH
            await (route.handle if is_ours else app)(scope, receive, send)

        return choose

    async def run(self) -> None:
        """Refresh after pushes, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()  # a push from here on needs another refresh
            try:
                await self._refresh()
            except Exception:
                logger.exception("The refresh after a push has failed")
            await anyio.sleep(self._pause_seconds)

    async def answer(self, request: Request) -> Response:
        """Answer a delivery at once; what it says about sources stays in the log."""
        if not has_signature(request.headers):
            return self._refuse("it has no signature")
        body = await request.body()  # `BodyBuffer` bounds it
        delivery = await anyio.to_thread.run_sync(
            lambda: open_delivery(
                request.headers, body, self._secrets.current(), self._clock()
            )
        )
        if delivery is None:
            return self._refuse("its signature is wrong, or too old")
        self._is_refusing = False
        return self._take(delivery)

    def _take(self, delivery: ForgeDelivery) -> Response:
        if delivery.is_ping:
            return JSONResponse({"status": "pong"})
        if delivery.identity in self._seen:
            return _say("repeated")
        self._remember(delivery.identity)
        if wait_seconds := self._allowance.take():
            self._wanted.set()  # one fetch covers all that are turned away
            after = {"Retry-After": str(wait_seconds)}
            return refuse(429, "TOO_MANY_DELIVERIES", _TOO_MANY, after)
        if delivery.push is None:
            return _say("ignored")
        if self._may_move(delivery.push):
            self._wanted.set()
        else:
            logger.info("A push that the webhook reports is of no source: ignored")
        return _say("accepted")

    def _remember(self, identity: bytes) -> None:
        self._seen[identity] = None
        if len(self._seen) > _MAX_SEEN:
            del self._seen[next(iter(self._seen))]

    def _refuse(self, reason: str) -> Response:
        """Refuse a forgery; only the first of several is worth a line in the log."""
        if not self._is_refusing:
            logger.warning("A delivery to the webhook was refused: %s", reason)
        self._is_refusing = True
        return refuse(403, "DELIVERY_REFUSED", _REFUSED)


def open_webhook(library: SkillLibrary, http: Http) -> Webhook | None:
    """Return the webhook of a library; None if no secret is configured.

    Raises:
        ConfigError: The secret cannot be used.
    """
    if not http.webhook_secret_file:
        return None
    file = find_secret_file(WebhookSecrets.setting, http.webhook_secret_file)
    secrets = WebhookSecrets(file)
    secrets.load()
    return Webhook(secrets, library.refresh, library.may_move)


class _Allowance:
    """How many deliveries may come: a token bucket."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tokens = float(_BURST)
        self._counted_at = clock()

    def take(self) -> int:
        """Take a token; if there is none, return in how many seconds there is one."""
        now = self._clock()
        grown = max(0.0, now - self._counted_at) * _PER_SECOND
        self._tokens = min(float(_BURST), self._tokens + grown)
        self._counted_at = now
        if self._tokens < 1:
            return 1 + int((1 - self._tokens) / _PER_SECOND)
        self._tokens -= 1
        return 0


def _say(status: str) -> Response:
    return JSONResponse({"status": status}, status_code=202)


_REFUSED = (
    "The delivery has no signature, or none that this server accepts. Write the same "
    "secret into the webhook of your forge and into http.webhook_secret_file."
)
_TOO_MANY = (
    "More deliveries than this server takes. Nothing is lost: what was pushed is "
    "fetched once for all of them."
)
