import threading
from collections.abc import Callable

import numpy as np
import pytest

from skills_mcp.embeddings.client import EmbeddingError, Vector
from skills_mcp.embeddings.task_vectors import (
    _REMEMBERED,
    PAUSE_SECONDS,
    TaskVectors,
    compose_task_text,
)
from tests.support import wait_for

VECTOR: Vector = np.ones(1, np.float32)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Provider:
    """Answers, or fails as it is told."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.error: Exception | None = None

    def __call__(self, text: str) -> Vector:
        self.asked.append(text)
        if self.error:
            raise self.error
        return VECTOR


def questions(ask: Callable[[str], Vector], clock: Clock | None = None) -> TaskVectors:
    return TaskVectors(ask, timeout_seconds=20, clock=clock or Clock())


def test_the_same_task_is_sent_once() -> None:
    provider = Provider()
    asking = questions(provider)

    vectors = [asking.embed("a"), asking.embed("a")]

    assert provider.asked == ["a"]
    assert vectors == [VECTOR, VECTOR]


def test_only_so_many_tasks_are_remembered_and_the_last_used_are() -> None:
    provider = Provider()
    asking = questions(provider)
    asking.embed("first")
    for number in range(_REMEMBERED - 1):
        asking.embed(str(number))
    asking.embed("first")
    asking.embed("one more")
    provider.asked.clear()

    asking.embed("first")
    asking.embed("0")

    assert provider.asked == ["0"]


def test_after_a_failure_nobody_waits_until_the_pause_is_over() -> None:
    provider, clock = Provider(), Clock()
    asking = questions(provider, clock)
    provider.error = EmbeddingError("down")

    assert asking.embed("a") is None
    provider.error = None
    clock.now = PAUSE_SECONDS - 1
    assert asking.embed("b") is None
    clock.now = PAUSE_SECONDS
    assert asking.embed("c") is VECTOR
    assert provider.asked == ["a", "c"]


def test_what_is_remembered_is_answered_in_the_pause_too() -> None:
    provider = Provider()
    asking = questions(provider)
    asking.embed("a")
    provider.error = EmbeddingError("down")
    asking.embed("b")

    assert asking.embed("a") is VECTOR


def test_the_provider_may_ask_for_a_longer_pause() -> None:
    provider, clock = Provider(), Clock()
    asking = questions(provider, clock)
    provider.error = EmbeddingError("busy", retry_after_seconds=PAUSE_SECONDS * 3)
    asking.embed("a")
    provider.error = None

    clock.now = PAUSE_SECONDS * 2

    assert asking.embed("b") is None


def test_each_cause_is_told_once_and_that_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    provider, clock = Provider(), Clock()
    asking = questions(provider, clock)

    for cause in ("down", "down", "wrong key", "", ""):
        provider.error = EmbeddingError(cause) if cause else None
        clock.now += PAUSE_SECONDS
        asking.embed(f"{clock.now}")

    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "Tasks are compared by their words alone: down",
        "Tasks are compared by their words alone: wrong key",
        "Tasks are compared by their meanings again",
    ]


def test_nobody_waits_longer_than_the_operator_allows_and_a_late_answer_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    released = threading.Event()

    def ask(_text: str) -> Vector:
        released.wait(60)
        return VECTOR

    asking = TaskVectors(ask, timeout_seconds=0.05, clock=Clock())

    first = asking.embed("a")
    released.set()
    wait_for(lambda: asking.embed("a") is VECTOR)

    assert first is None
    assert "no vector in 0.05 seconds" in caplog.text


def test_a_fault_of_ours_costs_the_meaning_and_not_the_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider = Provider()
    provider.error = RuntimeError("a fault of ours")

    assert questions(provider).embed("a") is None
    assert "a fault of ours" in caplog.text


def test_a_task_without_words_is_not_sent() -> None:
    provider = Provider()

    assert questions(provider).embed("") is None
    assert provider.asked == []


def test_a_lone_surrogate_in_a_task_does_not_break_the_request() -> None:
    assert compose_task_text("\ud83d bill") == "? bill"


def test_a_long_task_is_cut() -> None:
    assert len(compose_task_text("word " * 10_000)) <= 4_000
