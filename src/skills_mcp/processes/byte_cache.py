"""Caches of expensive values: LRU in bytes, and refreshed in the background."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Event, Lock
from typing import Generic, TypeVar

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
