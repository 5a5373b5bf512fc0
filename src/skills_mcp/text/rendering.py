"""Rendering of values in messages, and of times."""

from collections.abc import Sequence
from datetime import UTC, datetime

_MAX_NAMES = 2000  # characters of the names in one message
_PLURALS = {"person": "people", "refresh": "refreshes"}  # others get an s
_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60))
_MAX_VALUE_CHARACTERS = 60  # a wrong value is shown, but does not bury what is said about it


def abbreviate_value(value: object) -> str:
    """Representation of an invalid value in a message.

    >>> abbreviate_value("a" * 100)[-10:]
    'aaaaaaa...'
    """
    try:
        text = repr(value)
    except ValueError:  # a number of more digits than Python prints
        return "a very long number"
    return text if len(text) <= _MAX_VALUE_CHARACTERS else f"{text[: _MAX_VALUE_CHARACTERS - 3]}..."


def truncate_text(text: str, limit: int) -> str:
    """Truncate a text with `…`.

    >>> truncate_text("a long description", 7)
    'a long…'
    """
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def join_names(names: Sequence[str], limit: int) -> str:
    """First names with the number of others, also limited in characters.

    >>> join_names(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    budget = _MAX_NAMES
    listed: list[str] = []
    for name in names[:limit]:
        budget -= len(name)
        if listed and budget < 0:
            break
        listed.append(name)
    rest = len(names) - len(listed)
    return ", ".join(listed) + (f" and {rest:,} more" if rest else "")


def count_noun(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count_noun(1, "person"), count_noun(2000, "pick")
    ('1 person', '2,000 picks')
    """
    many = _PLURALS.get(noun, f"{noun}s")
    return f"{number:,} {noun if number == 1 else many}"


def render_time(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds.

    >>> render_time(datetime(2026, 2, 18, 14, 30, tzinfo=UTC))
    '2026-02-18T14:30:00.000Z'
    """
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def describe_age(seconds: float | None) -> str:
    """An age in its largest unit.

    >>> describe_age(125.0), describe_age(59.9), describe_age(None)
    ('2 minutes ago', 'just now', 'never')
    """
    if seconds is None:
        return "never"
    for unit, size in _UNITS:
        number = int(seconds // size)
        if number:
            return f"{number} {unit}{'' if number == 1 else 's'} ago"
    return "just now"
