import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skills_mcp.events import publisher as receiver
from skills_mcp.events.publisher import (
    DeliveryResult,
    DeliveryStatus,
    SharedBackoff,
    classify_response,
)
from skills_mcp.files.locks import acquire_lock
from tests.support import write

URL = "https://example.com/events"
LATER = DeliveryResult(DeliveryStatus.RETRY, "503")
CLOSED = DeliveryResult(DeliveryStatus.UNAUTHORIZED, "401")
HOUR = 3600.0


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def window(tmp_path: Path, clock: Clock) -> SharedBackoff:
    return SharedBackoff(tmp_path / "spool", clock)


@pytest.fixture
def other(tmp_path: Path, clock: Clock) -> SharedBackoff:
    return SharedBackoff(tmp_path / "spool", clock)


def test_one_window_sends_at_a_time(window: SharedBackoff, other: SharedBackoff) -> None:
    assert window.claim(URL)
    assert not other.claim(URL)
    assert window.claim(URL)

    window.record(URL, None)

    assert other.claim(URL)


def test_a_window_that_was_stopped_does_not_keep_the_others_back_for_ever(
    window: SharedBackoff, other: SharedBackoff, clock: Clock
) -> None:
    window.claim(URL)

    clock.now += 61

    assert other.claim(URL)


def test_a_window_that_was_stopped_in_the_middle_of_a_claim_keeps_no_other_back(
    other: SharedBackoff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver, "_LOCK_SECONDS", 0.05)

    with acquire_lock(tmp_path / "spool" / "attempts.lock"):
        assert other.claim(URL)


def test_all_windows_leave_a_receiver_alone_that_has_failed(
    window: SharedBackoff, other: SharedBackoff, clock: Clock
) -> None:
    window.claim(URL)

    pause = window.record(URL, LATER)

    assert 0 <= pause <= 60
    assert not window.claim(URL) or pause == 0
    assert not other.claim(URL) or pause == 0
    clock.now += pause + 1
    assert other.claim(URL)


def test_pauses_double_up_to_a_quarter_of_an_hour_and_are_by_chance(
    window: SharedBackoff, clock: Clock
) -> None:
    longest = []
    for _ in range(60):
        window.claim(URL)
        longest.append(window.record(URL, LATER))
        clock.now += longest[-1] + 1

    assert all(pause <= min(30 * 2 ** (n + 1), 900) for n, pause in enumerate(longest))
    assert max(longest) > 450
    assert len(set(longest)) == 60


def test_success_forgets_the_failures(window: SharedBackoff, clock: Clock) -> None:
    for _ in range(9):
        window.claim(URL)
        clock.now += window.record(URL, LATER) + 1
    window.claim(URL)
    window.record(URL, None)
    window.claim(URL)

    assert window.record(URL, LATER) <= 60


def test_what_a_receiver_asks_for_is_the_least(window: SharedBackoff) -> None:
    window.claim(URL)

    assert window.record(URL, DeliveryResult(DeliveryStatus.RETRY, "429", 2000.0)) == 2000


def test_who_wants_nothing_is_left_alone_for_an_hour(
    window: SharedBackoff, other: SharedBackoff, clock: Clock
) -> None:
    window.claim(URL)

    assert window.record(URL, CLOSED) == HOUR

    clock.now += HOUR - 1
    assert not other.claim(URL)
    clock.now += 2
    assert other.claim(URL)


def test_another_address_is_tried_at_once(window: SharedBackoff, other: SharedBackoff) -> None:
    window.claim(URL)
    window.record(URL, CLOSED)

    assert other.claim("https://example.com/repaired")


def test_a_clock_that_was_wrong_keeps_nobody_back(
    window: SharedBackoff, other: SharedBackoff, clock: Clock
) -> None:
    clock.now += 10 * HOUR
    window.claim(URL)
    window.record(URL, CLOSED)

    clock.now -= 10 * HOUR

    assert other.claim(URL)


def test_the_address_is_not_written_down(window: SharedBackoff, tmp_path: Path) -> None:
    window.claim("https://example.com/events?key=canary")

    files = [path.read_text() for path in (tmp_path / "spool").iterdir()]
    assert files
    assert not any("example" in text or "canary" in text for text in files)


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"null",
        b"{}",
        b'{"endpoint": 1, "failures": "x", "next_attempt_at": 0, "claimed_by": ""}',
        b'{"endpoint": 1, "failures": 1e999, "next_attempt_at": 0, "claimed_by": ""}',
        b"[" * 100_000,
    ],
    ids=range(9),
)
def test_garbage_is_nothing(
    garbage: bytes, window: SharedBackoff, other: SharedBackoff, tmp_path: Path
) -> None:
    write(tmp_path / "spool" / "attempts.json", garbage)

    assert window.claim(URL)
    assert not other.claim(URL)


def test_a_time_that_is_none_keeps_nobody_back(
    window: SharedBackoff, other: SharedBackoff, tmp_path: Path
) -> None:
    window.claim(URL)
    file = tmp_path / "spool" / "attempts.json"
    state = json.loads(file.read_text()) | {"next_attempt_at": float("nan")}
    file.write_text(json.dumps(state))

    assert other.claim(URL)


def test_without_a_disk_every_window_remembers_for_itself(tmp_path: Path, clock: Clock) -> None:
    window = SharedBackoff(write(tmp_path / "blocked", "a file, no folder"), clock)

    assert window.claim(URL)
    assert window.record(URL, CLOSED) == HOUR
    assert not window.claim(URL)


NOW = datetime(2026, 2, 18, 14, 30, tzinfo=UTC)


@pytest.mark.spec("10.3")
@pytest.mark.parametrize(
    "meaning, statuses",
    [
        (DeliveryStatus.ACCEPTED, [200, 201, 202, 204, 299]),
        (DeliveryStatus.RETRY, [301, 302, 303, 307, 308]),
        (DeliveryStatus.UNAUTHORIZED, [401, 403]),
        (DeliveryStatus.NO_RECEIVER, [404, 405]),
        (DeliveryStatus.TOO_LARGE, [413]),
        (
            DeliveryStatus.REFUSED,
            [400, 422, 402, 409, 410, 415, 418, 451, 499],
        ),
        (DeliveryStatus.RETRY, [408, 425, 429, 500, 502, 503, 504, 599, 600, 999, 199]),
    ],
)
def test_every_status_has_a_meaning(meaning: DeliveryStatus, statuses: list[int]) -> None:
    assert {classify_response(status, None, NOW).status for status in statuses} == {meaning}


def test_a_verdict_says_what_the_status_is_called() -> None:
    assert classify_response(503, None, NOW).reason == "503 Service Unavailable"
    assert classify_response(599, None, NOW).reason == "599"


def test_a_redirect_says_what_to_change() -> None:
    assert "set analytics.endpoint to where it leads" in classify_response(307, None, NOW).reason


def test_a_receiver_may_say_when_it_wants_to_be_asked_again() -> None:
    assert classify_response(429, "120", NOW).retry_after_seconds == 120
    assert classify_response(429, "soon", NOW).retry_after_seconds is None


@pytest.mark.parametrize("status", [200, 400, 404])
def test_who_has_answered_is_not_waited_for(status: int) -> None:
    assert classify_response(status, "120", NOW).retry_after_seconds is None
