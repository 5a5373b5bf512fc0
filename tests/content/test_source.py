"""Promise 50: whoever asks can see how old the content is, and why."""

import math
import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.content.source import (
    Checkout,
    Hold,
    LocalFolder,
    Mount,
    SourceState,
    SyncAttempt,
    derive_failure,
    derive_state,
)
from skills_mcp.errors import AccessRefusedError, SyncError
from skills_mcp.processes.retry import is_backing_off
from tests.content.sources import FakeSource

_NOW = 1_800_000_000.0
_INTERVAL = 900.0
_MINUTE = 60.0
_DAY = 86_400.0


def synced(seconds_ago: float, **known: Any) -> Checkout:
    """Return a commit that was the newest there was, so long ago."""
    checkout = Checkout(Path("/nowhere"), "1", moment(_NOW - seconds_ago))
    return replace(checkout, **known)


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def failed(seconds_ago: float, *, again_in: float = 30.0) -> SyncAttempt:
    return SyncAttempt(
        attempted_at=_NOW - seconds_ago,
        failures=3,
        next_attempt_at=_NOW + again_in,
        error_code="SYNC_FAILED",
        error_message="no network",
    )


def state_of(
    checkout: Checkout | None,
    attempt: SyncAttempt | None = None,
    *,
    next_sync_at: float = _NOW + 30,
    interval_seconds: float | None = _INTERVAL,
) -> SourceState:
    return derive_state(
        Mount(source=FakeSource(), at="teams/web"),
        checkout,
        attempt or SyncAttempt(),
        next_sync_at=next_sync_at,
        interval_seconds=interval_seconds,
        now=_NOW,
    )


@pytest.mark.parametrize(
    "checkout, attempt, age, is_stale, error",
    [
        pytest.param(None, SyncAttempt(), None, True, None, id="never-tried"),
        pytest.param(None, failed(10), None, True, "no network", id="offline-at-first"),
        pytest.param(synced(60), failed(10), 60, False, "no network", id="just-lost"),
        pytest.param(
            synced(3 * _INTERVAL),
            failed(10),
            3 * _INTERVAL,
            False,
            "no network",
            id="three-intervals-are-about-to-be-missed",
        ),
        pytest.param(
            synced(3 * _INTERVAL + 1),
            failed(10),
            3 * _INTERVAL + 1,
            True,
            "no network",
            id="three-intervals-are-missed",
        ),
        pytest.param(synced(_DAY), SyncAttempt(), _DAY, True, None, id="a-laptop-that-has-slept"),
        pytest.param(synced(0), SyncAttempt(), 0, False, None, id="back-again"),
    ],
)
def test_an_outage_can_be_seen(
    checkout: Checkout | None,
    attempt: SyncAttempt,
    age: float | None,
    is_stale: bool,  # noqa: FBT001
    error: str | None,
) -> None:
    state = state_of(checkout, attempt)

    assert (state.age_seconds, state.is_stale) == (age, is_stale)
    assert (state.error and str(state.error)) == error
    assert state.commit == (checkout and checkout.revision)
    assert state.synced_at == (checkout and checkout.synced_at)


def test_a_failure_says_when_it_was_and_when_it_is_tried_again() -> None:
    state = state_of(synced(60), failed(10, again_in=50))

    assert state.failed_at == moment(_NOW - 10)
    assert state.next_attempt_at == moment(_NOW + 50)


def test_without_a_failure_nothing_is_said_of_the_next_attempt() -> None:
    state = state_of(synced(60), SyncAttempt(attempted_at=_NOW - 60))

    assert (state.error, state.failed_at, state.next_attempt_at) == (None, None, None)


def test_a_clock_that_was_set_back_makes_no_negative_age() -> None:
    state = state_of(synced(-3600))

    assert (state.age_seconds, state.is_stale) == (0, False)


def test_without_a_timer_nothing_is_stale_however_old_it_is() -> None:
    state = state_of(synced(_DAY), interval_seconds=None)

    assert (state.age_seconds, state.is_stale) == (_DAY, False)


@pytest.mark.parametrize(
    "why",
    [
        pytest.param({"hold": Hold(_NOW - _DAY, "2")}, id="held"),
        pytest.param({}, id="pinned-or-offline"),
    ],
)
def test_what_is_not_synced_on_purpose_is_old_but_not_stale(why: Any) -> None:
    state = state_of(synced(_DAY, **why), failed(_DAY), next_sync_at=math.inf)

    assert (state.age_seconds, state.is_stale, state.is_followed) == (_DAY, False, False)
    assert state.hold == why.get("hold")
    assert state.next_attempt_at is None
    assert state.failed_at


def test_nothing_at_all_is_stale_also_where_nobody_syncs() -> None:
    assert state_of(None, next_sync_at=math.inf, interval_seconds=None).is_stale


def test_who_has_signed_is_said() -> None:
    assert state_of(synced(1, verified_by="ada")).verified_by == "ada"


@pytest.mark.parametrize("is_there", [True, False])
def test_a_folder_is_always_of_now_or_missing(
    tmp_path: Path,
    is_there: bool,  # noqa: FBT001
) -> None:
    checkout = Checkout(tmp_path, None, moment(_NOW - _DAY)) if is_there else None

    state = derive_state(
        Mount(source=LocalFolder(tmp_path)),
        checkout,
        SyncAttempt(),
        next_sync_at=math.inf,
        interval_seconds=_INTERVAL,
        now=_NOW,
    )

    assert (state.mode, state.age_seconds, state.commit) == ("local", None, None)
    assert state.is_stale is not is_there


NOW = 1_000_000.0
OUTAGE_SECONDS = 5 * 60
QUARTER_OF_AN_HOUR = 15 * 60.0


def after_failure(
    error: SyncError | None = None,
    *,
    failures: int = 0,
    longest: float = QUARTER_OF_AN_HOUR,
    seed: int = 1,
) -> SyncAttempt:
    return derive_failure(
        SyncAttempt(failures=failures),
        error or SyncError("no network"),
        NOW,
        longest_seconds=longest,
        randomness=random.Random(seed),  # noqa: S311 - spreads load, guards nothing
    )


def pause(attempt: SyncAttempt) -> float:
    return attempt.next_attempt_at - attempt.attempted_at


def count_requests(seed: int, *, longest: float = QUARTER_OF_AN_HOUR) -> int:
    """Let ten windows, which look all the time, share what is remembered."""
    randomness = random.Random(seed)  # noqa: S311 - spreads load, guards nothing
    attempt, now, requests = SyncAttempt(), NOW, 0
    while now < NOW + OUTAGE_SECONDS:
        for _window in range(10):
            if not is_backing_off(attempt.next_attempt_at, now):
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
    attempt = after_failure(AccessRefusedError("wrong token"), failures=2)

    assert attempt.attempted_at == NOW
    assert attempt.failures == 3
    assert attempt.error_code == "AUTH_FAILED"
    assert attempt.error_message == "wrong token"


def test_a_success_forgets_the_failures() -> None:
    attempt = SyncAttempt(attempted_at=NOW)

    assert attempt == SyncAttempt(attempted_at=NOW)
    assert not is_backing_off(attempt.next_attempt_at, NOW)


def test_ten_windows_ask_a_remote_that_is_down_for_five_minutes_twelve_times() -> None:
    requests = [count_requests(seed) for seed in range(1000)]

    assert max(requests) <= 12


@given(st.integers(0, 10**9), st.integers(0, 2**32), st.floats(1, 3600))
def test_a_pause_is_between_a_second_and_the_longest(
    failures: int, seed: int, longest: float
) -> None:
    attempt = after_failure(failures=failures, seed=seed, longest=longest)

    assert 0.9 < pause(attempt) <= longest + 0.1


def test_the_pauses_become_longer_with_every_failure() -> None:
    means = [
        sum(pause(after_failure(failures=before, seed=seed)) for seed in range(200)) / 200
        for before in range(10)
    ]

    assert means == sorted(means)
    assert means[0] < 5
    assert 300 < means[9] < 600


def test_the_pauses_of_two_machines_differ() -> None:
    assert pause(after_failure(failures=5, seed=1)) != pause(after_failure(failures=5, seed=2))


@pytest.mark.parametrize(
    "wish, seconds",
    [(60, 60), (0, 1), (-5, 1), (3600, 3600), (1e9, 3600), (math.inf, 3600)],
)
def test_a_host_gets_the_rest_that_it_asks_for_up_to_an_hour(wish: float, seconds: float) -> None:
    error = SyncError("429", retry_after_seconds=wish)

    assert pause(after_failure(error, longest=30)) == seconds


def test_a_wish_that_is_no_number_counts_as_none() -> None:
    error = SyncError("429", retry_after_seconds=math.nan)

    assert pause(after_failure(error)) == pause(after_failure())


def test_a_refused_token_is_not_tried_again_for_five_minutes() -> None:
    assert pause(after_failure(AccessRefusedError("no"))) == 300
    assert pause(after_failure(AccessRefusedError("no", retry_after_seconds=60))) == 300
    assert pause(after_failure(AccessRefusedError("no", retry_after_seconds=900))) == 900


def test_a_remote_rests_until_its_time_has_come() -> None:
    attempt = after_failure(SyncError("429", retry_after_seconds=60))

    assert is_backing_off(attempt.next_attempt_at, NOW)
    assert is_backing_off(attempt.next_attempt_at, NOW + 59)
    assert not is_backing_off(attempt.next_attempt_at, NOW + 60)


def test_a_clock_that_was_set_back_makes_nobody_wait() -> None:
    attempt = after_failure(SyncError("429", retry_after_seconds=3600))

    assert is_backing_off(attempt.next_attempt_at, NOW)
    assert not is_backing_off(attempt.next_attempt_at, NOW - 86_400)
    assert not is_backing_off(math.inf, NOW)
    assert not is_backing_off(math.nan, NOW)


@pytest.mark.parametrize(
    "at, prefix", [("", ""), ("/", ""), ("teams/web", "teams/web/"), ("/web/", "web/")]
)
def test_a_mount_stands_before_the_paths_of_its_skills(at: str, prefix: str) -> None:
    assert Mount(source=LocalFolder(Path()), at=at).prefix == prefix
