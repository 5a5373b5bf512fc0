from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.http.admission import FairShares

CAPACITY = 6

arrivals = st.lists(st.sampled_from("abcd"), max_size=40)


def fill(shares: FairShares[int], clients: str) -> list[int | None]:
    """Add an item for each client, and return what was displaced for it."""
    displaced = []
    for number, client in enumerate(clients):
        gone = shares.evict(client) if shares.is_full else None
        displaced.append(gone)
        if not shares.is_full:
            shares.add(number, client)
    return displaced


def test_a_client_alone_uses_everything() -> None:
    assert fill(FairShares(3), "aaa") == [None] * 3


def test_the_client_with_the_most_gives_up_its_oldest_unused_item() -> None:
    shares = FairShares[int](3)
    fill(shares, "aab")
    shares.use(0, "a")

    assert shares.evict("c") == 1
    assert shares.evict("c") == 0


def test_a_client_with_as_many_as_the_others_displaces_its_own() -> None:
    shares = FairShares[int](2)

    assert fill(shares, "abab") == [None, None, 0, 1]


def test_where_items_are_not_replaced_the_greediest_gets_no_other_one() -> None:
    shares = FairShares[int](3, evicts_own=False)

    assert fill(shares, "aaaab") == [None, None, None, None, 0]


def test_an_item_in_use_is_not_displaced() -> None:
    busy = {0, 1}
    shares = FairShares[int](3, lambda item: item not in busy)
    fill(shares, "aaa")

    assert shares.evict("b") == 2
    assert shares.evict("b") is None


def test_an_item_belongs_to_its_last_user() -> None:
    shares = FairShares[int](3)
    fill(shares, "aaa")
    for item in (0, 1):
        shares.use(item, "b")

    assert shares.evict("c") == 0


@given(arrivals)
def test_every_client_gets_its_max_min_fair_share(clients: list[str]) -> None:
    shares = FairShares[int](CAPACITY)
    held: dict[int, str] = {}
    for number, client in enumerate(clients):
        gone = shares.evict(client) if shares.is_full else None
        if gone is not None:
            del held[gone]
        if not shares.is_full:
            shares.add(number, client)
            held[number] = client

    wanted, counted = Counter(clients), Counter(held.values())

    assert len(shares) == min(len(clients), CAPACITY)
    # No client is left with less than it wants while another one has two more.
    for client, number in wanted.items():
        if counted[client] < number:
            assert max(counted.values()) <= counted[client] + 1
