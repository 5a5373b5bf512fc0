from datetime import UTC, datetime

import pytest

from skills_mcp.analytics.verdict import (
    Meaning,
    decide,
)

NOW = datetime(2026, 2, 18, 14, 30, tzinfo=UTC)


@pytest.mark.spec("10.3")
@pytest.mark.parametrize(
    "meaning, statuses",
    [
        (Meaning.ACCEPTED, [200, 201, 202, 204, 299]),
        (Meaning.LATER, [301, 302, 303, 307, 308]),
        (Meaning.CLOSED, [401, 403]),
        (Meaning.TOO_LARGE, [413]),
        (Meaning.REFUSED, [400, 422, 402, 404, 405, 409, 410, 415, 418, 451, 499]),
        (Meaning.LATER, [408, 425, 429, 500, 502, 503, 504, 599, 600, 999, 199]),
    ],
)
def test_every_status_has_a_meaning(meaning: Meaning, statuses: list[int]) -> None:
    assert {decide(status, None, NOW).meaning for status in statuses} == {meaning}


def test_a_verdict_says_what_the_status_is_called() -> None:
    assert decide(503, None, NOW).reason == "503 Service Unavailable"
    assert decide(599, None, NOW).reason == "599"


def test_a_redirect_says_what_to_change() -> None:
    assert "set analytics.endpoint to where it leads" in decide(307, None, NOW).reason


def test_a_receiver_may_say_when_it_wants_to_be_asked_again() -> None:
    assert decide(429, "120", NOW).retry_after_seconds == 120
    assert decide(429, "soon", NOW).retry_after_seconds is None


@pytest.mark.parametrize("status", [200, 400, 404])
def test_who_has_answered_is_not_waited_for(status: int) -> None:
    assert decide(status, "120", NOW).retry_after_seconds is None
