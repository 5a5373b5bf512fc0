"""Max-min fair shares."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


@dataclass(slots=True)
class _Holding(Generic[Item]):
    """Items of one client, least recently used first."""

    unused: dict[Item, None] = field(default_factory=dict)
    """Never used since they were added."""
    used: dict[Item, None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.unused) + len(self.used)

    def __iter__(self) -> Iterator[Item]:
        yield from self.unused
        yield from self.used


class FairShares(Generic[Item]):
    """Bounded set of items with owners, in max-min fair shares.

    Clients may use idle capacity. At the limit, the client with the most items loses
    one to
    a client with fewer (Bertsekas and Gallager, Data Networks, 6.5.2).

    Args:
        is_idle: Whether an item can be evicted.
        evicts_own: Whether the client with the most items evicts its own; otherwise it
        gets
            no more.
    """

    def __init__(
        self,
        capacity: int,
        is_idle: Callable[[Item], bool] = lambda _: True,
        *,
        evicts_own: bool = True,
    ) -> None:
        self.capacity = capacity
        self._is_idle = is_idle
        self._evicts_own = evicts_own
        self._holdings: dict[Hashable, _Holding[Item]] = {}
        self._owners: dict[Item, Hashable] = {}

    def __len__(self) -> int:
        return len(self._owners)

    @property
    def is_full(self) -> bool:
        return len(self) >= self.capacity

    def add(self, item: Item, client: Hashable) -> None:
        """Add an item, even beyond the capacity: `evict` makes room first."""
        self._owners[item] = client
        self._holdings.setdefault(client, _Holding()).unused[item] = None

    def use(self, item: Item, client: Hashable) -> None:
        """Mark an item as most recently used; the client becomes its owner."""
        if item in self._owners:
            self.remove(item)
            self._owners[item] = client
            self._holdings.setdefault(client, _Holding()).used[item] = None

    def remove(self, item: Item) -> None:
        if item not in self._owners:
            return
        client = self._owners.pop(item)
        holding = self._holdings[client]
        holding.unused.pop(item, None)
        holding.used.pop(item, None)
        if not holding:
            del self._holdings[client]

    def evict(self, client: Hashable) -> Item | None:
        """Evict an item of the client with the most: never used ones first, then LRU.

        Returns:
            The item; None if no other client has more, and none of its own is idle.
        """
        own = len(self._holdings.get(client, ()))
        largest_first = sorted(
            self._holdings, key=lambda owner: len(self._holdings[owner]), reverse=True
        )
        for other in largest_first:
            if other == client and not self._evicts_own:
                return None
            if other != client and len(self._holdings[other]) <= own:
                continue
            item = next(filter(self._is_idle, self._holdings[other]), None)
            if item is not None:
                self.remove(item)
                return item
        return None
