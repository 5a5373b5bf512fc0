"""Splitting of long Markdown texts."""

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
_MIN_FILL: Sequence[tuple[_Border, float]] = (
    (_HEADING, 0.5),
    (_BLOCK, 0.25),
    (_LINE, 0.0),
)

_LINES = re.compile(r"[^\n]*\n|[^\n]+")


def split_markdown(text: str, limit: int, measure: Callable[[str], int]) -> tuple[str, ...]:
    """Split Markdown into parts, at headings if possible.

    The concatenated parts equal the text, byte for byte. A part measures at most
    `limit`,
    but has at least one character.
    """
    if measure(text) <= limit:
        return (text,)
    pieces = list(_split_lines(text, limit, measure))
    ends = list(accumulate(measure(piece) for piece, _ in pieces))
    borders = [border for _, border in pieces]
    parts, begin = [], 0
    while begin < len(pieces):
        end = _find_end(ends, borders, begin, limit)
        parts.append("".join(piece for piece, _ in pieces[begin:end]))
        begin = end
    return tuple(parts)


def _find_end(ends: Sequence[int], borders: Sequence[_Border], begin: int, limit: int) -> int:
    used = ends[begin - 1] if begin else 0
    last = begin + 1
    while last < len(ends) and ends[last] - used <= limit:
        last += 1
    if last == len(ends):
        return last
    for border, share in _MIN_FILL:
        for index in range(last, begin, -1):
            if ends[index - 1] - used < limit * share:
                break
            if borders[index] <= border:
                return index
    return last


def _split_lines(
    text: str, limit: int, measure: Callable[[str], int]
) -> Iterator[tuple[str, _Border]]:
    """Yield lines with the borders before them; overlong lines in pieces."""
    starts = _find_blocks(text)
    for number, line in enumerate(_LINES.findall(text)):
        border = starts.get(number, _LINE)
        while measure(line) > limit and len(line) > 1:
            size = _fitting_length(line, limit, measure)
            yield line[:size], border
            line, border = line[size:], _INSIDE  # noqa: PLW2901 - its rest
        yield line, border


def _fitting_length(line: str, limit: int, measure: Callable[[str], int]) -> int:
    """Longest prefix of a line within the limit, at least one character (bisection)."""
    low, high = 1, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(line[:middle]) <= limit else (low, middle - 1)
    return low


def _find_blocks(text: str) -> dict[int, _Border]:
    from markdown_it import MarkdownIt

    found: dict[int, _Border] = {}
    for token in MarkdownIt("commonmark").parse(text):
        if token.level == 0 and token.map and token.nesting >= 0:
            kind = _HEADING if token.type == "heading_open" else _BLOCK
            found[token.map[0]] = kind
    return found
