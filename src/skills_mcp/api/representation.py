"""Representations of results: one line for a terminal, a table for a notebook."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, TypeVar

from skills_mcp.text.rendering import render_time, truncate_text

MAX_CHARACTERS = 200
"""Of a `repr`: about two lines of a terminal."""

_MAX_VALUE = 60  # characters of one value
_MAX_CELL_CHARACTERS = 300  # of a description: its first sentences
_SHOWN_ITEMS = 3
_EMPTY: tuple[object, ...] = (None, "", (), {})
_MAX_ROWS = 200  # a notebook keeps what it shows

_Item_co = TypeVar("_Item_co", covariant=True)


def make_readable(*results: type[Any]) -> None:
    """Give dataclasses a short `repr`, and a table in a notebook."""
    for each in results:
        each.__repr__ = _render_result  # type: ignore[assignment]  # bound by the class
        each._repr_html_ = _render_result_html


class Rows(tuple[_Item_co, ...]):
    """A tuple of results, readable in a terminal and in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        return _shorten(_render_items(self))

    def _repr_html_(self) -> str:
        return _render_table(self)


def _render_result(result: object) -> str:
    shown = [(name, value) for name, value, is_shown in _list_values(result) if is_shown]
    body = ", ".join(f"{name}={_render_value(value)}" for name, value in shown)
    return _shorten(f"{type(result).__name__}({body})")


def _shorten(text: str, limit: int = MAX_CHARACTERS) -> str:
    return text if len(text) <= limit else f"{text[: limit - 2]}…{text[-1]}"


def _list_values(result: Any) -> Iterator[tuple[str, Any, bool]]:
    """Name and value of each field, and whether it belongs into one line."""
    score = getattr(type(result), "score", None)
    for each in fields(result):
        if each.name.startswith("_") or each.name == "exact_score":
            continue
        value = getattr(result, each.name)
        yield each.name, value, each.repr and value not in (each.default, *_EMPTY)
        if each.name == "skill" and isinstance(score, property):
            yield "score", result.score, True


def _render_value(value: Any) -> str:
    if is_dataclass(value):
        named = value if hasattr(value, "path") else getattr(value, "skill", value)
        values = (getattr(named, each.name) for each in fields(named))
        label = _render_value(getattr(named, "path", None) or next(filter(None, values), ""))
        score = getattr(value, "score", None)
        return f"{type(value).__name__}({label}{'' if score is None else f', {score:.4g}'})"
    if isinstance(value, Mapping):
        return f"{{{len(value):,} …}}" if value else "{}"
    if isinstance(value, tuple | list):
        return _render_items(value)
    if isinstance(value, datetime):
        return render_time(value)
    return _shorten(f"{value:.4g}" if isinstance(value, float) else repr(value), _MAX_VALUE)


def _render_items(items: Sequence[Any]) -> str:
    shown = [_render_value(item) for item in items[:_SHOWN_ITEMS]]
    rest = len(items) - len(shown)
    return f"({', '.join(shown)}{f', … {rest:,} more' if rest else ''})"


def _render_result_html(result: object) -> str:
    values = [(name, value) for name, value, _ in _list_values(result)]
    rows = "".join(
        f"<tr><th>{_escape(name)}</th><td>{_render_cell(value)}</td></tr>"
        for name, value in values
        if value not in _EMPTY and value is not False
    )
    return f"<table><caption>{_escape(type(result).__name__)}</caption>{rows}</table>"


def _render_cell(value: Any) -> str:
    if isinstance(value, str) and ("\n" in value or len(value) > _MAX_CELL_CHARACTERS):
        label = f"<summary>{len(value):,} characters</summary>"
        return f"<details>{label}<pre>{_escape(value)}</pre></details>"
    if isinstance(value, tuple | list) and value and is_dataclass(value[0]):
        if len(value) == 1 and not hasattr(getattr(value[0], "skill", value[0]), "description"):
            return _render_result_html(value[0])  # one record is read downwards
        return _render_table(value)
    return _escape(value if isinstance(value, str) else _render_value(value))


def _render_table(items: Sequence[Any]) -> str:
    rows = [_describe_row(item) for item in items[:_MAX_ROWS]]
    names = list(rows[0]) if rows else []
    head = "".join(f"<th>{_escape(name)}</th>" for name in names)
    cells = ["".join(f"<td>{_escape(row.get(name, ''))}</td>" for name in names) for row in rows]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    rest = len(items) - len(rows)
    more = f"<p>{rest:,} more</p>" if rest else ""
    return f"<table><tr>{head}</tr>{body}</table>{more}"


def _describe_row(item: Any) -> dict[str, str]:
    skill = getattr(item, "skill", item)
    if not is_dataclass(item):
        return {"": str(item)}
    if not hasattr(skill, "description"):
        return {name: _to_text(value) for name, value, _ in _list_values(item)}
    score = getattr(item, "score", None)
    scored = {} if score is None else {"score": f"{score:.4g}"}
    return {"path": str(skill.path), **scored, "description": _to_text(skill.description)}


def _to_text(value: object) -> str:
    text = value if isinstance(value, str) else _render_value(value)
    return "" if value is None else truncate_text(text, _MAX_CELL_CHARACTERS)


def _escape(text: str) -> str:
    from html import escape  # it brings the names of all entities, which a server never needs

    return escape(text)
