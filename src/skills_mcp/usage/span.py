"""The days of a report, and the periods that they are counted in.  Days are UTC."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

Period = Literal["day", "week", "month"]

# More bars than these cannot be distinguished on a telephone.
_MOST_DAYS = 45
_MOST_WEEKED_DAYS = 366

_BACK = re.compile(r"([1-9]\d{0,4})([dw])")
_DAYS = {"d": 1, "w": 7}


@dataclass(frozen=True, slots=True)
class Span:
    """The days from the first to the last, both included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """The number of days."""
        return (self.last - self.first).days + 1

    @property
    def period(self) -> Period:
        """The unit in which the span is counted: by day, week or month."""
        if self.days <= _MOST_DAYS:
            return "day"
        return "week" if self.days <= _MOST_WEEKED_DAYS else "month"

    def starting(self, day: date) -> "Span":
        """Return the part of the span from a day on."""
        return Span(min(max(self.first, day), self.last), self.last)

    def periods(self) -> Iterator[date]:
        """Iterate over the first days of the periods; a week begins on Monday."""
        start = self.start_of(self.first)
        while start <= self.last:
            yield start
            start = self.start_of(start + timedelta(days=_STEPS[self.period]))

    def start_of(self, day: date) -> date:
        """Return the first day of the period that a day is in."""
        match self.period:
            case "day":
                return day
            case "week":
                return day - timedelta(days=min(day.weekday(), day.toordinal() - 1))
            case "month":
                return day.replace(day=1)


_STEPS: dict[Period, int] = {"day": 1, "week": 7, "month": 31}


def parse_since(text: str, last: date) -> date:
    """Return the first day of a span: a date, or so many days or weeks.

    >>> parse_since("30d", date(2026, 11, 30)), parse_since("2026-11-01", date.max)
    (datetime.date(2026, 11, 1), datetime.date(2026, 11, 1))

    Raises:
        ValueError: It is neither; the message says what to write.
    """
    back = _BACK.fullmatch(text)
    try:
        if not back:
            return date.fromisoformat(text)
        days = int(back[1]) * _DAYS[back[2]]
        return last - timedelta(days=days - 1)
    except (ValueError, OverflowError):
        message = f"{text!r} is neither like 30d or 12w nor a date like 2026-11-01."
        raise ValueError(message) from None
