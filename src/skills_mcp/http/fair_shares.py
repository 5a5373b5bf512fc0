"""Max-min fair shares of what a server has a bounded number of.

A client may use everything that no other client wants. When all of it is in use, the
client with the most gives one up for a client with fewer (max-min fairness: Bertsekas
and Gallager, Data Networks, 6.5.2).
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


@dataclass(slots=True)
class _Holding(Generic[Item]):
    """The items of one client, the least recently used first."""

    unused: dict[Item, None] = field(default_factory=dict)
    """Items that have not been used since they were added."""
    used: dict[Item, None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.unused) + len(self.used)

    def __iter__(self) -> Iterator[Item]:
        yield from self.unused
        yield from self.used


class FairShares(Generic[Item]):
    """A bounded set of items, each held by a client.

    Args:
        capacity: The maximum number of items.
        is_idle: Whether an item can be displaced.
        displaces_own: Whether the client with the most displaces one of its own items;
            otherwise it gets no other one.
    """

    def __init__(
        self,
        capacity: int,
        is_idle: Callable[[Item], bool] = lambda _: True,
        *,
        displaces_own: bool = True,
    ) -> None:
        self.capacity = capacity
        self._is_idle = is_idle
        self._displaces_own = displaces_own
        self._holdings: dict[Hashable, _Holding[Item]] = {}
        self._owners: dict[Item, Hashable] = {}

    def __len__(self) -> int:
        return len(self._owners)

    @property
    def is_full(self) -> bool:
        """Whether an item has to be displaced before the next one is added."""
        return len(self) >= self.capacity

    def add(self, item: Item, client: Hashable) -> None:
        """Add an item, beyond the capacity, too: `displace` makes room."""
        self._owners[item] = client
        self._holdings.setdefault(client, _Holding()).unused[item] = None

    def use(self, item: Item, client: Hashable) -> None:
        """Make an item the most recently used one of a client, who now holds it."""
        if item in self._owners:
            self.remove(item)
            self._owners[item] = client
            self._holdings.setdefault(client, _Holding()).used[item] = None

    def remove(self, item: Item) -> None:
        """Remove an item; idempotent."""
        if item not in self._owners:
            return
        client = self._owners.pop(item)
        holding = self._holdings[client]
        holding.unused.pop(item, None)
        holding.used.pop(item, None)
        if not holding:
            del self._holdings[client]

    def displace(self, client: Hashable) -> Item | None:
        """Remove the item that has to make room for another one of a client.

        Of the client that holds the most, unused items go first, then the least
        recently used one.

        Returns:
            The item; None if no other client holds more, and none of its own is idle.
        """
        own = len(self._holdings.get(client, ()))
        greediest_first = sorted(
            self._holdings, key=lambda each: len(self._holdings[each]), reverse=True
        )
        for other in greediest_first:
            if other == client and not self._displaces_own:
                return None
            if other != client and len(self._holdings[other]) <= own:
                continue
            item = next(filter(self._is_idle, self._holdings[other]), None)
            if item is not None:
                self.remove(item)
                return item
        return None
