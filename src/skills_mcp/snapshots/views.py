"""Views of a snapshot, one for all callers with the same visible skills.

They share all large data, and many callers see the same, so a few are cached.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from skills_mcp.skills.access import Access

MAX_GRANT_VIEWS = 64
"""Views of grants: more than an organisation has, and few enough for memory."""

MAX_SCOPE_VIEWS = 16
"""Views of callers' scopes, in use at once; they evict no view of grants."""

_MAX_ACCESSES_PER_VIEW = 8  # for each view: callers with other grants may see the same

_View = TypeVar("_View")


class ViewCache(Generic[_View]):
    """Least-recently-used cache of one snapshot's views.  Thread-safe."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = Lock()
        self._building = Lock()
        self._digests: OrderedDict[Access, bytes] = OrderedDict()
        self._views: OrderedDict[bytes, _View] = OrderedDict()

    def __len__(self) -> int:
        return len(self._views)

    def get(self, access: Access) -> _View | None:
        """Look up the view of a caller; None if it is not built."""
        with self._lock:
            digest = _get_recent(self._digests, access)
            return None if digest is None else _get_recent(self._views, digest)

    def find(
        self,
        access: Access,
        derive_standing: Callable[[], bytes],
        build: Callable[[bytes], _View],
    ) -> _View:
        """Look up or build a view, shared by callers with the same visible skills."""
        known = self.get(access)
        if known is not None:
            return known
        with self._building:  # threads share the interpreter: two would be no faster
            known = self.get(access)
            return self._add(access, derive_standing(), build) if known is None else known

    def _add(self, access: Access, standing: bytes, build: Callable[[bytes], _View]) -> _View:
        digest = hashlib.sha256(standing).digest()
        with self._lock:
            view = _get_recent(self._views, digest)
        view = view or build(standing)
        with self._lock:
            _put_recent(self._digests, access, digest, self._capacity * _MAX_ACCESSES_PER_VIEW)
            _put_recent(self._views, digest, view, self._capacity)
        return view


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def _get_recent(cache: "OrderedDict[_Key, _Value]", key: _Key) -> "_Value | None":
    if key in cache:
        cache.move_to_end(key)
    return cache.get(key)


def _put_recent(
    cache: "OrderedDict[_Key, _Value]", key: _Key, value: _Value, capacity: int
) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > capacity:
        cache.popitem(last=False)
