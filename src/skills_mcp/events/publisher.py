"""Posts spooled events to the operator's endpoint.  The only HTTP of analytics.

An event is settled only when the receiver has accepted it, or refused it for its
content. All others stay where they are, for a later round of any process. Files are
read, moved and locked on threads, never on the event loop.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from skills_mcp.config import Analytics
from skills_mcp.config.loopback import is_loopback
from skills_mcp.config.values import SAFE_ADDRESS
from skills_mcp.events.heartbeat import Pulse
from skills_mcp.events.outbox import Outbox
from skills_mcp.events.receiver import Meaning, ReceiverState, Verdict, decide
from skills_mcp.events.spool import MAX_BATCH_EVENTS, Line, Segment

if TYPE_CHECKING:  # imported late: nothing is sent before the first answer
    import httpx

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 30.0
TIMEOUT_SECONDS = 5.0
_CONNECT_SECONDS = 2.0

MAX_BATCH_BYTES = 475_000
"""As much as usual receivers of events take in one request."""

_KEY_DIGITS = 32

# The text of an answer is not used. A little of it is read, so that the connection can
# be used again.
_MAX_ANSWER_BYTES = 4096
_ANSWER_SECONDS = 0.5

# One bad event among 500 is found with 18 requests. A receiver that refuses all events
# is not asked about each of them.
_MAX_DIVISIONS = 64

_Result = TypeVar("_Result")


@dataclass(slots=True)
class _Round:
    """One round of requests, and its result."""

    client: "httpx.AsyncClient"
    endpoint: str
    divisions: int = _MAX_DIVISIONS
    sent: int = 0
    ended_by: Verdict | None = None


@dataclass(slots=True)
class _Tally:
    """What became of the events of one segment."""

    accepted: list[Line] = field(default_factory=list)
    refused: list[Line] = field(default_factory=list)


class Publisher:
    """Sends events, and forgets only those that a receiver has accepted or refused.

    Args:
        outbox: Where the events are, and where they go.
        rules: Read before every round; without an endpoint events are only kept.
        is_offline: Read before every round; nothing is sent while it is true.
        read_token: Returns the token for an endpoint, or an empty text; called on a
            thread, before every round.
        pulse: Has the reports of this server about itself; None for no reports.
        transport: Stands in for the network in tests.
        interval_seconds: Between two rounds.
    """

    def __init__(  # noqa: PLR0913 - the last two are for tests
        self,
        outbox: Outbox,
        rules: Callable[[], Analytics],
        *,
        is_offline: Callable[[], bool] = lambda: False,
        read_token: Callable[[str], str] = lambda _: "",
        pulse: Pulse | None = None,
        transport: "httpx.AsyncBaseTransport | None" = None,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self.outbox = outbox
        """Where the events are."""
        self._rules = rules
        self._is_offline = is_offline
        self._read_token = read_token
        self._pulse = pulse
        self._transport = transport
        self._interval_seconds = interval_seconds
        self._receiver = ReceiverState(outbox.spool.directory)

    async def run(self) -> None:
        """Publish now and again until cancelled."""
        while True:
            await anyio.sleep(self._interval_seconds)
            try:
                await self.publish()
            except Exception:
                logger.exception("Publishing failed")

    async def publish(self) -> int:
        """Send everything that can be sent now; return how many events were accepted.

        It may be cancelled at any moment, and loses nothing by that.
        """
        rules = self._rules()
        # Also while nothing is counted: older events are not kept longer.
        await _in_thread(lambda: self.outbox.prune(rules.keep_days))
        if not rules.enabled or self._is_offline():
            return 0
        if not rules.endpoint:
            await _in_thread(lambda: self.outbox.keep_all(rules.keep_days))
            return 0
        if not is_safe_endpoint(rules.endpoint):
            logger.error(
                "analytics.endpoint is not https:// and not on this machine, or holds "
                "a password: nothing is sent there"
            )
            return 0
        if not await _in_thread(lambda: self._begin(rules)):
            return 0
        return await self._send_all(rules)

    def _begin(self, rules: Analytics) -> bool:
        """Whether there is something to send, and it may be sent.  Blocking."""
        is_told = self._pulse is None or not rules.heartbeats or not self._pulse.is_due
        if self.outbox.spool.is_empty and is_told:
            return False
        if not self._receiver.claim(rules.endpoint):
            return False
        self.outbox.spool.rotate()
        return True

    async def _send_all(self, rules: Analytics) -> int:
        opened = await _in_thread(lambda: self._open(rules.endpoint))
        if isinstance(opened, Verdict):
            await _in_thread(lambda: self._end(rules.endpoint, opened))
            return 0
        segments = self.outbox.spool.take()
        try:
            async with opened as client:
                current = _Round(client, rules.endpoint)
                while current.ended_by is None:
                    segment = await _in_thread(lambda: next(segments, None))
                    if segment is None:
                        break
                    await self._send(segment, current, rules.keep_days)
                if rules.heartbeats:
                    await self._report(current)
        finally:
            with suppress(ValueError):  # an abandoned thread still runs in it
                segments.close()
        await _in_thread(lambda: self._end(rules.endpoint, current.ended_by))
        return current.sent

    async def _report(self, current: _Round) -> None:
        """Say what this server serves, if that is due.

        A report is never kept: the next one says it anew.
        """
        pulse = self._pulse
        if pulse is None or current.ended_by:
            return
        if (beat := await _in_thread(pulse.read)) is None:
            return
        line = Line(beat.to_json().encode(), {})
        verdict = await _post(current.client, current.endpoint, [line])
        match verdict.meaning:
            case Meaning.ACCEPTED:
                pulse.settle()
            case Meaning.LATER | Meaning.CLOSED:
                current.ended_by = verdict
            case _:
                logger.info("The receiver takes no heartbeats: %s", verdict.reason)
                pulse.stop()

    def _end(self, endpoint: str, ended_by: Verdict | None) -> None:
        """Record how the round ended.  Blocking."""
        pause = self._receiver.settle(endpoint, ended_by)
        if ended_by:
            logger.warning(
                "Events were not sent and stay on this machine. The next attempt is in "
                "%.0f seconds at the earliest: %s",
                pause,
                ended_by.reason,
            )

    async def _send(self, segment: Segment, current: _Round, keep_days: int) -> None:
        tally = _Tally()
        for lines in split_batches(segment.lines):
            await self._deliver(lines, current, tally)
        current.sent += len(tally.accepted)
        await _in_thread(
            lambda: self.outbox.settle(
                segment, tally.accepted, tally.refused, keep_days
            )
        )

    async def _deliver(
        self, lines: Sequence[Line], current: _Round, tally: _Tally
    ) -> None:
        """Send events together, and in halves if one of them is refused."""
        if current.ended_by:
            return
        verdict = await _post(current.client, current.endpoint, lines)
        match verdict.meaning:
            case Meaning.ACCEPTED:
                tally.accepted += lines
            case Meaning.LATER | Meaning.CLOSED:
                current.ended_by = verdict
            case Meaning.TOO_LARGE if len(lines) > 1:
                await self._halve(lines, current, tally)
            case Meaning.REFUSED if len(lines) > 1 and current.divisions:
                current.divisions -= 1
                await self._halve(lines, current, tally)
            case _:
                logger.warning("Events refused: %d, by %s", len(lines), verdict.reason)
                tally.refused += lines

    async def _halve(
        self, lines: Sequence[Line], current: _Round, tally: _Tally
    ) -> None:
        middle = len(lines) // 2
        await self._deliver(lines[:middle], current, tally)
        await self._deliver(lines[middle:], current, tally)

    def _open(self, endpoint: str) -> "httpx.AsyncClient | Verdict":
        """Return a client, or why there can be none.  Blocking: certificates are read.

        A request to this machine goes through no proxy of the environment.
        """
        import httpx

        try:
            return self._open_client(httpx.URL(endpoint), self._read_token(endpoint))
        except (httpx.InvalidURL, ImportError, OSError, ValueError) as error:
            return Verdict(
                Meaning.LATER,
                "analytics.endpoint, or the proxy or the certificates that the "
                f"environment names, cannot be used: {_describe(error)}",
            )

    def _open_client(self, address: "httpx.URL", token: str) -> "httpx.AsyncClient":
        import httpx

        is_local = is_loopback(address.host)
        return httpx.AsyncClient(
            timeout=httpx.Timeout(TIMEOUT_SECONDS, connect=_CONNECT_SECONDS),
            transport=self._transport,
            headers={"Authorization": f"Bearer {token}"} if token else None,
            mounts={f"all://{address.netloc.decode()}": None} if is_local else None,
            follow_redirects=False,
        )


def split_batches(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Yield events in their order, as many together as one request may hold.

    An event that is larger than a request goes alone: whether it is too large is for
    the receiver to decide.
    """
    begin = size = 0
    for number, line in enumerate(lines):
        more = len(line.raw) + 1
        if number > begin and (
            size + more > MAX_BATCH_BYTES or number - begin >= MAX_BATCH_EVENTS
        ):
            yield lines[begin:number]
            begin, size = number, 0
        size += more
    if lines:
        yield lines[begin:]


def compose_body(lines: Sequence[Line]) -> bytes:
    """Return the body of a request: the events exactly as they were written."""
    return b'{"events": [%s]}' % b",".join(line.raw for line in lines)


def derive_idempotency_key(lines: Sequence[Line]) -> str:
    """Return the same key for the same events, so that a repetition is recognised."""
    digest = hashlib.sha256(b"\n".join(line.raw for line in lines))
    return digest.hexdigest()[:_KEY_DIGITS]


def is_safe_endpoint(endpoint: str) -> bool:
    """Return whether events may be sent there: https, or this machine."""
    return bool(endpoint) and re.fullmatch(SAFE_ADDRESS, endpoint) is not None


async def _post(
    client: "httpx.AsyncClient", endpoint: str, lines: Sequence[Line]
) -> Verdict:
    """Send events, and return what the answer means, or why there is none."""
    import httpx

    headers = {
        "Content-Type": "application/json",
        "Idempotency-Key": derive_idempotency_key(lines),
    }
    try:
        with anyio.fail_after(TIMEOUT_SECONDS):
            async with client.stream(
                "POST", endpoint, content=compose_body(lines), headers=headers
            ) as answer:
                verdict = decide(
                    answer.status_code,
                    answer.headers.get("Retry-After"),
                    datetime.now(UTC),
                )
                await _skim(answer)
    except TimeoutError:
        return Verdict(Meaning.LATER, f"no answer within {TIMEOUT_SECONDS:.0f} seconds")
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        return Verdict(Meaning.LATER, _describe(error))
    return verdict


async def _skim(answer: "httpx.Response") -> None:
    """Read the beginning of an answer, if it comes at once."""
    import httpx

    read = 0
    with suppress(httpx.HTTPError, httpx.StreamError):
        with anyio.move_on_after(_ANSWER_SECONDS):
            async for part in answer.aiter_raw():
                read += len(part)
                if read > _MAX_ANSWER_BYTES:
                    return


async def _in_thread(work: Callable[[], _Result]) -> _Result:
    """Run work that touches files; the end of the process does not wait for it."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


def _describe(error: Exception) -> str:
    """Return one line about an error; some of httpx have an empty message."""
    return " ".join(str(error).split()) or type(error).__name__
