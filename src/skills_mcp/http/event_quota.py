"""`POST /events`: stores events of other servers, within quotas.

200 means committed to the database, for all events of the request. Any other status
means nothing was stored, or it will be recognised on retry.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

logger = logging.getLogger(__name__)

QuotaName = Literal["sender_bytes_per_day", "total_bytes_per_day"]

_MINUTE_SECONDS, _DAY_SECONDS = 60.0, 86_400.0

# A quota of a day lasts for half an hour at least: machines that come back from a day
# without the server deliver in minutes, and a flood is seen before it has spent all.
_MINUTES_OF_A_DAY = 32

# A few megabytes. A sender beyond them begins anew; the quota of all still holds.
_MAX_SENDERS = 10_000

# A sender over its quota comes again for hours; the log says so once in an hour.
_LOG_SECONDS = 60 * 60.0


@dataclass(frozen=True, slots=True)
class QuotaExceeded:
    name: QuotaName
    retry_after_seconds: float


@dataclass(slots=True)
class _Bucket:
    """State of one quota: limits per minute and per day."""

    arrivals: list[float] = field(default_factory=lambda: [0.0, 0.0])
    logged_at: float = float("-inf")


class EventQuota:
    """Rate limiter for bytes of events, in memory, per process. Thread-safe.

    Generic cell rate algorithm (GCRA, ITU-T I.371, annex A): one theoretical arrival
    time
    replaces a leaky bucket. A request of any size conforms while this time is at most
    the
    tolerance ahead of now. So each request fits eventually, and a quota is exceeded by
    at
    most one request.

    Quotas refill evenly. After a silent day, a sender has the quota of a day.
    """

    def __init__(
        self,
        sender_bytes_per_day: int,
        total_bytes_per_day: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sender_bytes = sender_bytes_per_day
        self._total_bytes = total_bytes_per_day
        self._clock = clock
        self._guard = threading.Lock()
        self._total = _Bucket()
        self._senders: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, sender: str, size_bytes: int) -> QuotaExceeded | None:
        with self._guard:
            now, bucket = self._clock(), self._find(sender)
            if seconds := _seconds_until_conforming(bucket, now):
                exceeded = QuotaExceeded("sender_bytes_per_day", seconds)
                self._log(bucket, sender, exceeded, now)
                return exceeded
            if seconds := _seconds_until_conforming(self._total, now):
                exceeded = QuotaExceeded("total_bytes_per_day", seconds)
                self._log(self._total, "all senders", exceeded, now)
                return exceeded
            self._charge(sender, size_bytes, now)
            return None

    def charge(self, sender: str, size_bytes: int) -> None:
        """Charge costs beyond the body; a negative size is a refund."""
        with self._guard:
            self._charge(sender, size_bytes, self._clock())

    def __len__(self) -> int:
        return len(self._senders)

    def _find(self, sender: str) -> _Bucket:
        bucket = self._senders.setdefault(sender, _Bucket())
        self._senders.move_to_end(sender)
        if len(self._senders) > _MAX_SENDERS:
            self._senders.popitem(last=False)
        return bucket

    def _charge(self, sender: str, size_bytes: int, now: float) -> None:
        _advance(self._find(sender), size_bytes / self._sender_bytes, now)
        _advance(self._total, size_bytes / self._total_bytes, now)

    def _log(self, bucket: _Bucket, sender: str, exceeded: QuotaExceeded, now: float) -> None:
        if now - bucket.logged_at < _LOG_SECONDS:
            return
        bucket.logged_at = now
        logger.warning(
            "Events of %s are refused for the next %.0f s and stay with their senders: "
            "they are more than events.%s allows",
            sender,
            exceeded.retry_after_seconds,
            exceeded.name,
        )


_TOLERANCES = (_MINUTE_SECONDS, _DAY_SECONDS)

# The seconds that a whole quota takes at the rate of each limit.
_INTERVALS = (_MINUTE_SECONDS * _MINUTES_OF_A_DAY, _DAY_SECONDS)


def _seconds_until_conforming(bucket: _Bucket, now: float) -> float:
    """Seconds until a request conforms to both limits."""
    limits = zip(bucket.arrivals, _TOLERANCES, strict=True)
    return max(0.0, *(arrival - tolerance - now for arrival, tolerance in limits))


def _advance(bucket: _Bucket, share: float, now: float) -> None:
    bucket.arrivals = [
        max(arrival, now) + share * interval
        for arrival, interval in zip(bucket.arrivals, _INTERVALS, strict=True)
    ]
