"""Events that a receiver has written down: files with one JSON value per line.

A line holds an event, or what was posted as a whole: `{"events": […]}`.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from skills_mcp.analytics.lines import split_lines

_SUFFIX = ".jsonl"

# A request of ours has half a megabyte at most; a longer line is no event.
_MOST_LINE_BYTES = 4 * 1024 * 1024

UNREADABLE = None
"""Stands for a line that holds no JSON."""


class CollectedError(Exception):
    """A file of events is not there or must not be read; the message says which."""


def load_collected(places: Iterable[Path]) -> Iterator[object]:
    """Iterate over the events of files, and of folders with all below them.

    What is no event is among them, to be counted. Blocking; one line at a time.

    Raises:
        CollectedError: A file or folder is not there, or must not be read.
    """
    for place in places:
        for file in _find(place):
            try:
                with file.open("rb") as opened:
                    yield from _load(opened)
            except OSError as error:
                raise _refuse(file, error.strerror or "it cannot be read") from error


def _find(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    files = sorted(file for file in place.rglob(f"*{_SUFFIX}") if file.is_file())
    if not files:
        raise _refuse(place, f"no file in it ends in {_SUFFIX}")
    return files


def _refuse(place: Path, reason: str) -> CollectedError:
    return CollectedError(
        f"No events can be read from {place}: {reason}. Name a file with one event "
        f"per line, or a folder of such files that end in {_SUFFIX}."
    )


def _load(file: IO[bytes]) -> Iterator[object]:
    for line in split_lines(file, _MOST_LINE_BYTES):
        yield from (UNREADABLE,) if line is None else _parse(line)


def _parse(line: bytes) -> Iterator[object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        yield UNREADABLE
        return
    events = value.get("events") if isinstance(value, dict) else None
    if isinstance(events, list):
        yield from events
    else:
        yield value
