"""What YAML makes of a value, and how to write it so that it is a text."""

from datetime import date
from typing import Any

from skills_mcp.errors import shorten

_LONG = 200


_KINDS: tuple[tuple[type, str], ...] = (
    (str, ""),
    (bool, "true or false"),  # before int, which it is, too
    (int, "a number"),
    (float, "a number"),
    (date, "a date"),
    (list, "a list"),
    (dict, "a map"),
)


def name_kind(value: Any) -> str:
    """Say what a value is if it is no text; an empty text if it is one.

    >>> [name_kind(value) for value in ("a", True, 1.5, [], None)]
    ['', 'true or false', 'a number', 'a list', 'empty']
    """
    if value is None:
        return "empty"
    names = (name for kind, name in _KINDS if isinstance(value, kind))
    return next(names, "no text")


def write_as_text(key: str, value: Any, written: Any, *, separator: str = ", ") -> str:
    """Say what to write so that a value is a text.

    Args:
        key: Where it stands.
        value: What YAML makes of it.
        written: The same with every scalar as it was written.
        separator: What stands between the words of a list.
    """
    match value:
        case None:
            return f"write a text for {key}, or take it away"
        case list() if isinstance(written, list) and _is_flat(written):
            return f"write one text: {key}: {_cut(separator.join(written))}"
        case list() | dict():
            return f"write one text: {key}: …"
        case _:
            return f'put it in quotation marks: {key}: "{_cut(str(written))}"'


def _is_flat(items: list[Any]) -> bool:
    return all(isinstance(item, str) for item in items)


def _cut(text: str) -> str:
    plain = shorten(text)[1:-1] if not text.isprintable() else text
    return plain if len(plain) <= _LONG else f"{plain[: _LONG - 1]}…"
