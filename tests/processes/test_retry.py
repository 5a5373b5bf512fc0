"""When a host is asked again."""

import math
import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.processes.retry import (
    MAX_PAUSE_SECONDS,
    derive_backoff,
    is_backing_off,
    parse_retry_after,
)

NOW = datetime(2026, 2, 18, 14, 30, tzinfo=UTC)


def pause(failures: int, seed: int = 1, asked: float | None = None) -> float:
    return derive_backoff(
        failures,
        first_seconds=5,
        longest_seconds=900,
        retry_after_seconds=asked,
        randomness=random.Random(seed),  # noqa: S311 - spreads load, guards nothing
    )


@given(st.integers(0, 10**9), st.integers(0, 2**32))
def test_a_pause_is_between_a_second_and_its_limit(failures: int, seed: int) -> None:
    limit = min(5 * 2 ** min(max(failures - 1, 0), 20), 900)

    assert 1 <= pause(failures, seed) <= limit


def test_pauses_grow_with_each_failure_and_use_the_whole_range() -> None:
    means = [sum(pause(n, seed) for seed in range(200)) / 200 for n in range(1, 12)]

    assert means == sorted(means)
    assert means[0] < 4
    assert 300 < means[-1] < 600


def test_machines_that_fail_together_come_back_apart() -> None:
    assert len({pause(6, seed) for seed in range(50)}) == 50


@pytest.mark.parametrize(
    "asked, seconds",
    [(60, 60), (0, 1), (-5, 1), (3600, 3600), (1e9, 3600), (math.inf, 3600)],
)
def test_a_host_gets_the_pause_that_it_asks_for_within_an_hour(
    asked: float, seconds: float
) -> None:
    assert pause(9, asked=asked) == seconds


def test_a_wish_that_is_no_number_counts_as_none() -> None:
    assert pause(9, asked=math.nan) == pause(9)


def test_a_time_that_a_wrong_clock_has_written_keeps_nothing_back() -> None:
    assert is_backing_off(3600, 0)
    assert not is_backing_off(3601, 0)
    assert not is_backing_off(math.inf, 0)
    assert not is_backing_off(math.nan, 0)
    assert not is_backing_off(0, 0)


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("120", 120),
        (" 7 ", 7),
        ("0", 0),
        ("-5", None),
        ("60.5", None),
        ("1e9", None),
        ("99999999999999999999", MAX_PAUSE_SECONDS),
        ("9" * 5000, None),
        ("inf", None),
        ("nan", None),
        ("\u0666\u0660", None),
        ("Wed, 18 Feb 2026 14:31:00 GMT", 60),
        ("Wednesday, 18-Feb-26 14:31:00 GMT", 60),
        ("Wed, 18 Feb 2026 14:31:00 -0000", 60),
        ("Wed, 18 Feb 2026 15:31:00 +0100", 60),
        ("Wed, 18 Feb 2026 14:29:00 GMT", 0),
        ("Wed, 18 Feb 9999 14:29:00 GMT", MAX_PAUSE_SECONDS),
        ("Wed, 32 Feb 2026 14:29:00 GMT", None),
        ("Wed, 18 Feb 99999 14:29:00 GMT", None),
        ("date", None),
        ("", None),
        ("\ud800", None),
        (None, None),
    ],
)
def test_retry_after_is_whole_seconds_or_a_date_or_nothing(
    text: str | None, seconds: float | None
) -> None:
    assert parse_retry_after(text, NOW) == seconds
