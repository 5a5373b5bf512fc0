"""Posts spooled events to the operator's endpoint (001 §10.3).  The only HTTP here."""

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from skills_mcp.analytics.spool import Segment, Spool
from skills_mcp.config import Analytics

if TYPE_CHECKING:  # imported late: nothing is sent before the first answer
    import httpx

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 30.0
_TIMEOUT_SECONDS = 5.0
_REFUSED = frozenset({400, 413, 422})
_JSON = {"Content-Type": "application/json"}


class Publisher:
    """Sends what the spool holds, and removes only what was accepted.

    Args:
        spool: Where the events are.
        rules: Read before every attempt; without an endpoint events stay here.
        transport: Stands in for the network in tests.
        interval_seconds: Between two attempts (001 §10.3).
    """

    def __init__(
        self,
        spool: Spool,
        rules: Callable[[], Analytics],
        transport: "httpx.AsyncBaseTransport | None" = None,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self._spool = spool
        self._rules = rules
        self._transport = transport
        self._interval_seconds = interval_seconds

    async def run(self) -> None:
        """Publish now and again until cancelled."""
        while True:
            await anyio.sleep(self._interval_seconds)
            try:
                await self.publish()
            except Exception:
                logger.exception("Publishing failed")

    async def publish(self) -> int:
        """Send everything that can be sent now; return how many events were.

        An endpoint that is down ends the attempt; one that refuses a segment for
        what is in it does not keep the others back.
        """
        rules = self._rules()
        if not rules.enabled or not rules.endpoint:
            return 0
        import httpx

        self._spool.rotate()
        sent = 0
        async with httpx.AsyncClient(
            timeout=_TIMEOUT_SECONDS, transport=self._transport
        ) as client:
            for segment in self._spool.take():
                try:
                    await _post(client, rules.endpoint, segment)
                except (httpx.HTTPError, httpx.InvalidURL) as error:
                    logger.warning("Events stay here for now: %s", _describe(error))
                    if _is_about_the_content(error):
                        continue
                    break
                self._spool.remove(segment)
                sent += len(segment.events)
        return sent


async def _post(client: "httpx.AsyncClient", endpoint: str, segment: Segment) -> None:
    if segment.events:
        body = _render(segment)
        answer = await client.post(endpoint, content=body, headers=_JSON)
        answer.raise_for_status()


def _is_about_the_content(error: Exception) -> bool:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status in _REFUSED


def _render(segment: Segment) -> bytes:
    """Return the body of 001 §10.3 in ASCII, which carries any text there is."""
    return json.dumps({"events": segment.events}).encode("ascii")


def _describe(error: Exception) -> str:
    """One line; some of httpx's errors have an empty message."""
    return " ".join(str(error).split()) or type(error).__name__
