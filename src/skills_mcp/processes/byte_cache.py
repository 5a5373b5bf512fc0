"""An LRU cache bounded in bytes, whose values are made once for all who wait."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Event, Lock
from typing import Generic, TypeVar

# An entry of the table and the objects of a key and a value.
_OVERHEAD_BYTES = 300

# How long a thread goes on waiting for another one after it was cancelled.
_CHECK_SECONDS = 0.1

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class ByteCache(Generic[Key, Value]):
    """Values that take long to make, those that were asked for last.  For threads.

    Of threads that want the same value at once one makes it (single-flight); if it
    fails, or is cancelled, the next one does.

    Args:
        max_bytes: Of all values together; a larger one is not kept.
        measure: Returns the size of a value in bytes.
        check_cancelled: Raises in a thread whose result is not wanted any more.
    """

    def __init__(
        self,
        max_bytes: int,
        measure: Callable[[Value], int],
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> None:
        self._max_bytes = max_bytes
        self._measure = measure
        self._check_cancelled = check_cancelled
        self._lock = Lock()
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._making: dict[Key, Event] = {}
        self.size_bytes = 0
        """Of all that is kept."""

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the value of a key; `make` makes it if it is not kept."""
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

    def _make(self, key: Key, make: Callable[[], Value]) -> Value:
        try:
            value = make()
            self._keep(key, value)
        finally:
            with self._lock:
                self._making.pop(key).set()
        return value

    def _keep(self, key: Key, value: Value) -> None:
        size = self._size_of(value)
        with self._lock:
            if size > self._max_bytes:
                return
            self._values[key] = value
            self.size_bytes += size
            while self.size_bytes > self._max_bytes:
                _, oldest = self._values.popitem(last=False)
                self.size_bytes -= self._size_of(oldest)

    def _size_of(self, value: Value) -> int:
        return self._measure(value) + _OVERHEAD_BYTES
