from datetime import datetime, timedelta, timezone

import pytest

from skills_mcp.text.rendering import abbreviate_value, render_time


@pytest.mark.spec("10.1")
def test_times_are_in_utc_wherever_the_server_is() -> None:
    in_kolkata = timezone(timedelta(hours=5, minutes=30))

    text = render_time(datetime(2026, 2, 18, 20, 0, 0, 123_456, tzinfo=in_kolkata))

    assert text == "2026-02-18T14:30:00.123Z"


def test_a_wrong_value_is_shown_but_does_not_bury_the_message() -> None:
    assert abbreviate_value("wrong") == "'wrong'"
    assert len(abbreviate_value("x" * 1000)) == 60
    assert abbreviate_value(10**5000) == "a very long number"
