import threading
from collections.abc import Iterator

from skills_mcp.errors import SkillsError
from skills_mcp.features.web.page import BackgroundCache
from tests.support import wait_for


class Clock:
    """A clock that a test turns."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_value_is_made_in_the_background_and_kept_until_it_is_old() -> None:
    clock, made = Clock(), [0, 1]
    value = BackgroundCache(lambda: made.pop(0), 60, clock)

    assert value.get_stale() is None
    wait_for(lambda: value.get_stale() == 0)
    clock.seconds = 59
    assert value.get_stale() == 0
    assert made == [1]
    clock.seconds = 60
    assert value.get_stale() == 0, "those who look do not wait"
    wait_for(lambda: value.get_stale() == 1)


def test_many_who_look_let_it_be_made_once() -> None:
    gate, calls = threading.Event(), []

    def make() -> int:
        calls.append(1)
        gate.wait()
        return len(calls)

    value = BackgroundCache(make, 60)
    for _ in range(50):
        assert value.get_stale() is None
    gate.set()

    wait_for(lambda: value.get_stale() == 1)


def test_a_failure_keeps_the_last_value_and_is_told() -> None:
    clock = Clock()

    def make() -> Iterator[int]:
        yield 1
        raise SkillsError("The disk is full.")

    made = make()
    value = BackgroundCache(lambda: next(made), 60, clock)
    wait_for(lambda: value.get_stale() == 1)
    clock.seconds = 60
    value.get_stale()
    wait_for(lambda: bool(value.failure))

    assert value.failure == "The disk is full."
    assert value.get_stale() == 1


def test_a_value_that_says_nothing_is_made_again_soon_and_waited_for() -> None:
    clock, made = Clock(), iter([0, 7, 8])
    value = BackgroundCache(
        lambda: next(made), 60, clock, is_empty=lambda number: number == 0, wait_seconds=30
    )

    assert value.get_stale() == 0, "the first waits"
    assert value.get_stale() == 0
    clock.seconds = 5
    assert value.get_stale() == 7
    clock.seconds = 10
    assert value.get_stale() == 7
