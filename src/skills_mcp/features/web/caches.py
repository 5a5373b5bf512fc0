"""Caches of expensive values: LRU in bytes, and refreshed in the background."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Event, Lock
from typing import Generic, TypeVar

from skills_mcp.errors import SkillsError

# An entry of the table and the objects of a key and a value.
_OVERHEAD_BYTES = 300

# How long a thread goes on waiting for another one after it was cancelled.
_CHECK_SECONDS = 0.1

CacheKey = TypeVar("CacheKey", bound=Hashable)
CacheValue = TypeVar("CacheValue")


class ByteCache(Generic[CacheKey, CacheValue]):
    """Thread-safe LRU cache of expensive values.

    Concurrent requests for a value share one computation; after a failure or
    cancellation
    (`check_cancelled` raises) the next one retries. A value larger than `max_bytes` is
    not
    stored.
    """

    def __init__(
        self,
        max_bytes: int,
        measure: Callable[[CacheValue], int],
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> None:
        self._max_bytes = max_bytes
        self._measure = measure
        self._check_cancelled = check_cancelled
        self._lock = Lock()
        self._values: OrderedDict[CacheKey, CacheValue] = OrderedDict()
        self._making: dict[CacheKey, Event] = {}
        self.size_bytes = 0
        """Of all that is kept."""

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: CacheKey, make: Callable[[], CacheValue]) -> CacheValue:
        while True:
            with self._lock:
                if key in self._values:
                    self._values.move_to_end(key)
                    return self._values[key]
                made = self._making.get(key)
                if made is None:
                    self._making[key] = Event()
            if made is None:
                return self._make(key, make)
            while not made.wait(_CHECK_SECONDS):
                self._check_cancelled()

    def _make(self, key: CacheKey, make: Callable[[], CacheValue]) -> CacheValue:
        try:
            value = make()
            self._keep(key, value)
        finally:
            with self._lock:
                self._making.pop(key).set()
        return value

    def _keep(self, key: CacheKey, value: CacheValue) -> None:
        size = self._size_of(value)
        with self._lock:
            if size > self._max_bytes:
                return
            self._values[key] = value
            self.size_bytes += size
            while self.size_bytes > self._max_bytes:
                _, oldest = self._values.popitem(last=False)
                self.size_bytes -= self._size_of(oldest)

    def _size_of(self, value: CacheValue) -> int:
        return self._measure(value) + _OVERHEAD_BYTES


logger = logging.getLogger(__name__)

CachedValue = TypeVar("CachedValue")


class BackgroundCache(Generic[CachedValue]):
    """Stale-while-revalidate cache of one value; readers never wait."""

    def __init__(
        self,
        make: Callable[[], CachedValue],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._seconds = seconds
        self._clock = clock
        self._gate = threading.Lock()
        self._value: CachedValue | None = None
        self._failure = ""
        self._made_at: float | None = None
        self._is_making = False

    def get_stale(self) -> CachedValue | None:
        """Newest value, None before the first; starts a refresh if stale."""
        with self._gate:
            if not self._is_making and self._is_old():
                self._is_making = True
                threading.Thread(target=self._run, daemon=True).start()
            return self._value

    @property
    def is_making(self) -> bool:
        return self._is_making

    @property
    def failure(self) -> str:
        return self._failure

    def _is_old(self) -> bool:
        made_at = self._made_at
        return made_at is None or self._clock() - made_at >= self._seconds

    def _run(self) -> None:
        value, failure = None, ""
        try:
            value = self._make()
        except SkillsError as error:
            failure = str(error)
            logger.warning("A value for the pages could not be made: %s", error)
        except Exception:
            logger.exception("A value for the pages could not be made")
            failure = "It failed for a reason that is in the server's log."
        with self._gate:
            self._value = self._value if failure else value
            self._failure = failure
            self._made_at = self._clock()
            self._is_making = False
