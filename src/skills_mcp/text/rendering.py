"""How values are written for a reader: wrong values in messages, and moments."""

from collections.abc import Sequence
from datetime import UTC, datetime

_MAX_NAMES = 2000  # characters of the names in one message
_PLURALS = {"person": "people", "refresh": "refreshes"}  # others get an s
_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60))
_MAX_SHOWN = 60  # a wrong value is shown, but does not bury what is said about it


def shorten(value: object) -> str:
    """Return how a wrong value is shown in a message.

    >>> shorten("a" * 100)[-10:]
    'aaaaaaa...'
    """
    try:
        text = repr(value)
    except ValueError:  # a number of more digits than Python prints
        return "a very long number"
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


def cut_text(text: str, most: int) -> str:
    """Return a text of at most so many characters; one that was cut ends in `…`.

    >>> cut_text("a long description", 7)
    'a long…'
    """
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def name_some(names: Sequence[str], most: int) -> str:
    """Return the first of some names for a message, and how many there are more.

    Long names are fewer, so that they do not bury what the message says about them.

    >>> name_some(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    room = _MAX_NAMES
    shown: list[str] = []
    for name in names[:most]:
        room -= len(name)
        if shown and room < 0:
            break
        shown.append(name)
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest:,} more" if rest else "")


def plural(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> plural(1, "person"), plural(2000, "pick")
    ('1 person', '2,000 picks')
    """
    many = _PLURALS.get(noun, f"{noun}s")
    return f"{number:,} {noun if number == 1 else many}"


def render_time(moment: datetime) -> str:
    """Return ISO 8601 in UTC with milliseconds.

    >>> render_time(datetime(2026, 2, 18, 14, 30, tzinfo=UTC))
    '2026-02-18T14:30:00.000Z'
    """
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def describe_age(seconds: float | None) -> str:
    """Return an age in its largest unit.

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
