"""When a remote that has failed is asked again."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.content.source import Attempt
from skills_mcp.content.store.sync_state import (
    derive_failure,
)
from skills_mcp.errors import AccessRefusedError, SyncError
from skills_mcp.processes.retry import is_resting

NOW = 1_000_000.0
OUTAGE_SECONDS = 5 * 60
QUARTER_OF_AN_HOUR = 15 * 60.0


def failed(
    error: SyncError | None = None,
    *,
    failures: int = 0,
    longest: float = QUARTER_OF_AN_HOUR,
    seed: int = 1,
) -> Attempt:
    return derive_failure(
        Attempt(failures=failures),
        error or SyncError("no network"),
        NOW,
        longest_seconds=longest,
        randomness=random.Random(seed),  # noqa: S311 - spreads load, guards nothing
    )


def pause(attempt: Attempt) -> float:
    return attempt.next_attempt_at - attempt.attempted_at


def count_requests(seed: int, *, longest: float = QUARTER_OF_AN_HOUR) -> int:
    """Let ten windows, which look all the time, share what is remembered."""
    randomness = random.Random(seed)  # noqa: S311 - spreads load, guards nothing
    attempt, now, requests = Attempt(), NOW, 0
    while now < NOW + OUTAGE_SECONDS:
        for _window in range(10):
            if not is_resting(attempt.next_attempt_at, now):
                requests += 1
                attempt = derive_failure(
                    attempt,
                    SyncError("down"),
                    now,
                    longest_seconds=longest,
                    randomness=randomness,
                )
        now = attempt.next_attempt_at
    return requests


def test_a_failure_says_what_went_wrong_and_counts_on() -> None:
    attempt = failed(AccessRefusedError("wrong token"), failures=2)

    assert attempt.attempted_at == NOW
    assert attempt.failures == 3
    assert attempt.error_code == "AUTH_FAILED"
    assert attempt.error_message == "wrong token"


def test_a_success_forgets_the_failures() -> None:
    attempt = Attempt(attempted_at=NOW)

    assert attempt == Attempt(attempted_at=NOW)
    assert not is_resting(attempt.next_attempt_at, NOW)


def test_ten_windows_ask_a_remote_that_is_down_for_five_minutes_twelve_times() -> None:
    requests = [count_requests(seed) for seed in range(1000)]

    assert max(requests) <= 12


@given(st.integers(0, 10**9), st.integers(0, 2**32), st.floats(1, 3600))
def test_a_pause_is_between_a_second_and_the_longest(
    failures: int, seed: int, longest: float
) -> None:
    attempt = failed(failures=failures, seed=seed, longest=longest)

    assert 0.9 < pause(attempt) <= longest + 0.1


def test_the_pauses_become_longer_with_every_failure() -> None:
    means = [
        sum(pause(failed(failures=before, seed=seed)) for seed in range(200)) / 200
        for before in range(10)
    ]

    assert means == sorted(means)
    assert means[0] < 5
    assert 300 < means[9] < 600


def test_the_pauses_of_two_machines_differ() -> None:
    assert pause(failed(failures=5, seed=1)) != pause(failed(failures=5, seed=2))


@pytest.mark.parametrize(
    "wish, seconds",
    [(60, 60), (0, 1), (-5, 1), (3600, 3600), (1e9, 3600), (math.inf, 3600)],
)
def test_a_host_gets_the_rest_that_it_asks_for_up_to_an_hour(
    wish: float, seconds: float
) -> None:
    error = SyncError("429", retry_after_seconds=wish)

    assert pause(failed(error, longest=30)) == seconds


def test_a_wish_that_is_no_number_counts_as_none() -> None:
    error = SyncError("429", retry_after_seconds=math.nan)

    assert pause(failed(error)) == pause(failed())


def test_a_refused_token_is_not_tried_again_for_five_minutes() -> None:
    assert pause(failed(AccessRefusedError("no"))) == 300
    assert pause(failed(AccessRefusedError("no", retry_after_seconds=60))) == 300
    assert pause(failed(AccessRefusedError("no", retry_after_seconds=900))) == 900


def test_a_remote_rests_until_its_time_has_come() -> None:
    attempt = failed(SyncError("429", retry_after_seconds=60))

    assert is_resting(attempt.next_attempt_at, NOW)
    assert is_resting(attempt.next_attempt_at, NOW + 59)
    assert not is_resting(attempt.next_attempt_at, NOW + 60)


def test_a_clock_that_was_set_back_makes_nobody_wait() -> None:
    attempt = failed(SyncError("429", retry_after_seconds=3600))

    assert is_resting(attempt.next_attempt_at, NOW)
    assert not is_resting(attempt.next_attempt_at, NOW - 86_400)
    assert not is_resting(math.inf, NOW)
    assert not is_resting(math.nan, NOW)
