"""A cache that is bounded in bytes, and makes a value once for all who wait."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.features.web.page import ByteCache
from tests.support import PATIENCE_SECONDS


def test_threads_that_want_the_same_value_make_it_once() -> None:
    cache: ByteCache[str, str] = ByteCache(10_000, len)
    begun, released, made = Event(), Event(), []

    def make() -> str:
        made.append(1)
        begun.set()
        released.wait(PATIENCE_SECONDS)
        return "value"

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(cache.get, "key", make)
        begun.wait(PATIENCE_SECONDS)
        others = [pool.submit(cache.get, "key", make) for _ in range(7)]
        released.set()
        values = {each.result() for each in (first, *others)}

    assert values == {"value"}
    assert len(made) == 1


def test_a_value_that_could_not_be_made_is_made_by_the_next_who_wants_it() -> None:
    cache: ByteCache[str, str] = ByteCache(10_000, len)

    with pytest.raises(ZeroDivisionError):
        cache.get("key", lambda: str(1 // 0))

    assert cache.get("key", lambda: "value") == "value"
    assert cache.get("key", lambda: "other") == "value"


def test_a_thread_that_waits_stops_when_it_is_cancelled() -> None:
    begun, released = Event(), Event()

    def stop() -> None:
        raise TimeoutError

    def make() -> str:
        begun.set()
        released.wait(PATIENCE_SECONDS)
        return "value"

    cache: ByteCache[str, str] = ByteCache(10_000, len, check_cancelled=stop)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(cache.get, "key", make)
        begun.wait(PATIENCE_SECONDS)

        with pytest.raises(TimeoutError):
            cache.get("key", make)

        released.set()
        assert first.result() == "value"


def test_what_was_asked_for_last_stays() -> None:
    cache: ByteCache[str, str] = ByteCache(3_000, len)

    for key in "abac":
        cache.get(key, lambda: "x" * 1_000)

    assert cache.get("a", lambda: "new") != "new"
    assert cache.get("b", lambda: "new") == "new"


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5_000)), max_size=60))
def test_it_never_keeps_more_bytes_than_its_bound(asked: list[tuple[int, int]]) -> None:
    cache: ByteCache[int, str] = ByteCache(4_000, len)

    for key, size in asked:
        cache.get(key, lambda size=size: "x" * size)  # type: ignore[misc]

        assert 0 <= cache.size_bytes <= 4_000
