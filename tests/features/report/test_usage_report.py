from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.features.report.usage_report import Span, parse_since

days = st.dates(date(1, 1, 1), date(2200, 1, 1))


@pytest.mark.parametrize(
    "text, first",
    [
        ("1d", date(2026, 11, 30)),
        ("30d", date(2026, 11, 1)),
        ("2w", date(2026, 11, 17)),
        ("2026-02-03", date(2026, 2, 3)),
    ],
)
def test_a_span_begins_on_a_day_or_some_days_back(text: str, first: date) -> None:
    assert parse_since(text, date(2026, 11, 30)) == first


@pytest.mark.parametrize("text", ["", "0d", "d", "30", "1y", "2026-13-01"])
def test_anything_else_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match=r"like 30d or 12w nor a date like 2026-11-01"):
        parse_since(text, date(2026, 11, 30))


@pytest.mark.parametrize(
    "first, period, count",
    [
        (date(2026, 11, 30), "day", 1),
        (date(2026, 10, 17), "day", 45),
        (date(2026, 10, 16), "week", 8),
        (date(2025, 11, 30), "week", 54),
        (date(2025, 11, 29), "month", 13),
    ],
)
def test_the_longer_the_span_the_longer_its_periods(first: date, period: str, count: int) -> None:
    span = Span(first, date(2026, 11, 30))

    assert span.period == period
    assert len(list(span.periods())) == count


@given(st.tuples(days, days).map(sorted))
def test_every_day_is_in_one_of_the_periods(ends: list[date]) -> None:
    span = Span(*ends)

    periods = list(span.periods())

    assert periods == sorted(set(periods))
    assert {span.start_of(ends[0]), span.start_of(ends[1])} <= set(periods)
    assert len(periods) <= 12 * 2200


def test_before_the_first_year_there_is_nothing() -> None:
    with pytest.raises(ValueError, match="like 30d"):
        parse_since("99999w", date(1000, 1, 1))
