"""The views of a snapshot: one for all callers who see the same skills.

They share what is large, and many callers see the same, so a few are kept.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from skills_mcp.identity.access import Access
from skills_mcp.skills.index import SkillIndex

MOST_VIEWS = 64
"""Of one snapshot. More than an organisation has grants that differ, and few enough
for their memory; a request's scope is the caller's choice."""

_MOST_ACCESSES = 1024  # each is a digest; callers with other grants may see the same

View = TypeVar("View")


class Views(Generic[View]):
    """The views of one snapshot that were asked for last.  Any thread may ask."""

    def __init__(self) -> None:
        self._lock = Lock()
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
        self, access: Access, index: SkillIndex, build: Callable[[SkillIndex], View]
    ) -> View:
        """Return the view of a caller; `build` makes it of what the caller sees.

        Callers with other grants, who see the same skills, have one view.
        """
        view = self.get(access)
        if view is not None:
            return view
        shown = bytes(map(access.sees, index.rows))
        asked = bytes(map(access.asks_for, index.rows))
        digest = hashlib.sha256(shown + asked).digest()
        with self._lock:
            view = _take(self._views, digest)
        view = view or build(index.seen(map(bool, shown), map(bool, asked)))
        with self._lock:
            _put(self._digests, access, digest, _MOST_ACCESSES)
            # Two threads may have made it: all go on with the one that came first.
            return _put(self._views, digest, view, MOST_VIEWS)


Key = TypeVar("Key")
Value = TypeVar("Value")


def _take(kept: "OrderedDict[Key, Value]", key: Key) -> "Value | None":
    if key in kept:
        kept.move_to_end(key)
    return kept.get(key)


def _put(kept: "OrderedDict[Key, Value]", key: Key, value: Value, most: int) -> "Value":
    value = kept.setdefault(key, value)
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
    return value
