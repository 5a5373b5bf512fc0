"""Cuts a long Markdown text where a reader would: before a heading, if there is one.

Rule: the parts of a text, one behind the other, are the text to the last byte.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Literal

# Where a piece begins, from the best place for a cut to the worst.
_Border = Literal[0, 1, 2, 3]
_HEADING: _Border = 0
_BLOCK: _Border = 1
_LINE: _Border = 2
_INSIDE: _Border = 3

# How full a part has to be for a cut there; at a worse place it would be fuller.
_FULL_ENOUGH: Sequence[tuple[_Border, float]] = (
    (_HEADING, 0.5),
    (_BLOCK, 0.25),
    (_LINE, 0.0),
)

_LINES = re.compile(r"[^\n]*\n|[^\n]+")


def split_text(text: str, room: int, measure: Callable[[str], int]) -> tuple[str, ...]:
    """Return a text in parts.

    Args:
        text: Markdown.
        room: The most that one part measures; at least one character is in each part.
        measure: Returns what a piece of text uses of the room.
    """
    if measure(text) <= room:
        return (text,)
    pieces = list(_cut(text, room, measure))
    ends = list(accumulate(measure(piece) for piece, _ in pieces))
    borders = [border for _, border in pieces]
    parts, begin = [], 0
    while begin < len(pieces):
        end = _find_end(ends, borders, begin, room)
        parts.append("".join(piece for piece, _ in pieces[begin:end]))
        begin = end
    return tuple(parts)


def _find_end(
    ends: Sequence[int], borders: Sequence[_Border], begin: int, room: int
) -> int:
    """Return the piece that the next part begins with."""
    used = ends[begin - 1] if begin else 0
    last = begin + 1
    while last < len(ends) and ends[last] - used <= room:
        last += 1
    if last == len(ends):
        return last
    for wanted, share in _FULL_ENOUGH:
        for place in range(last, begin, -1):
            if ends[place - 1] - used < room * share:
                break
            if borders[place] <= wanted:
                return place
    return last


def _cut(
    text: str, room: int, measure: Callable[[str], int]
) -> Iterator[tuple[str, _Border]]:
    """Yield the lines of a text with their borders; one without room in pieces."""
    starts = _find_blocks(text)
    for number, line in enumerate(_LINES.findall(text)):
        border = starts.get(number, _LINE)
        while measure(line) > room and len(line) > 1:
            size = _find_fitting(line, room, measure)
            yield line[:size], border
            line, border = line[size:], _INSIDE  # noqa: PLW2901 - its rest
        yield line, border


def _find_fitting(line: str, room: int, measure: Callable[[str], int]) -> int:
    """Return how many characters of a line have room, one at least."""
    low, high = 1, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if measure(line[:middle]) <= room else (low, middle - 1)
        )
    return low


def _find_blocks(text: str) -> dict[int, _Border]:
    """Return the lines with which a block of Markdown begins, headings apart."""
    from markdown_it import MarkdownIt

    found: dict[int, _Border] = {}
    for token in MarkdownIt("commonmark").parse(text):
        if token.level == 0 and token.map and token.nesting >= 0:
            kind = _HEADING if token.type == "heading_open" else _BLOCK
            found[token.map[0]] = kind
    return found
