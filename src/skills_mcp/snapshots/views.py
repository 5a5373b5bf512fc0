"""The views of a snapshot: one for all callers who see the same skills.

They share what is large, and many callers see the same, so a few are kept.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from skills_mcp.skills.access import Access

MOST_GRANTED = 64
"""Views of grants. More than an organisation has grants that differ, and few enough for
their memory."""

MOST_NARROWED = 16
"""Views of the scopes of requests, which callers choose: as many as are in use at once.
They evict no view of grants."""

_MOST_ACCESSES = 8  # for each view: callers with other grants may see the same

View = TypeVar("View")


class Views(Generic[View]):
    """The views of one snapshot that were asked for last.  Any thread may ask.

    Args:
        most: How many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._building = Lock()
        self._digests: OrderedDict[Access, bytes] = OrderedDict()
        self._views: OrderedDict[bytes, View] = OrderedDict()

    def __len__(self) -> int:
        return len(self._views)

    def get(self, access: Access) -> View | None:
        """Return the view of a caller, if it is made already."""
        with self._lock:
            digest = _take(self._digests, access)
            return None if digest is None else _take(self._views, digest)

    def find(
        self,
        access: Access,
        derive_standing: Callable[[], bytes],
        build: Callable[[bytes], View],
    ) -> View:
        """Return the view of a caller; one thread at a time makes one.

        Callers with other grants, who see the same skills, have one view.

        Args:
            access: What the caller sees.
            derive_standing: Returns how each skill stands to the caller.
            build: Makes the view of that.
        """
        known = self.get(access)
        if known is not None:
            return known
        with self._building:  # threads share the interpreter: two would be no faster
            known = self.get(access)
            return (
                self._add(access, derive_standing(), build) if known is None else known
            )

    def _add(
        self, access: Access, standing: bytes, build: Callable[[bytes], View]
    ) -> View:
        digest = hashlib.sha256(standing).digest()
        with self._lock:
            view = _take(self._views, digest)
        view = view or build(standing)
        with self._lock:
            _put(self._digests, access, digest, self._most * _MOST_ACCESSES)
            _put(self._views, digest, view, self._most)
        return view


Key = TypeVar("Key")
Value = TypeVar("Value")


def _take(kept: "OrderedDict[Key, Value]", key: Key) -> "Value | None":
    if key in kept:
        kept.move_to_end(key)
    return kept.get(key)


def _put(kept: "OrderedDict[Key, Value]", key: Key, value: Value, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
