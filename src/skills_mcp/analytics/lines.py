"""Events as lines of a file, whatever else is in that file."""

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

MAX_LINE_BYTES = 256 * 1024
"""Longer lines are no events of ours: the longest task has 10,000 characters."""

MAX_FILE_BYTES = 8 * 1024 * 1024
"""Larger files are none of ours; to read them could take for ever."""


@dataclass(frozen=True, slots=True)
class Line:
    """One event, as it stands in a file."""

    raw: bytes
    """Valid JSON in UTF-8, without the end of the line."""
    event: dict[str, Any]


def is_plain(status: os.stat_result) -> bool:
    """Whether a file may be one of ours."""
    return stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES


def read_lines(handle: IO[bytes]) -> Iterator[Line | None]:
    """Iterate over the events of a file; None stands for a line that is none.

    A line that was cut off or is garbage never hides the others, and one without an
    end is not held in memory.
    """
    for raw in split_lines(handle, MAX_LINE_BYTES):
        yield raw if raw is None else parse_line(raw)


def split_lines(handle: IO[bytes], most_bytes: int) -> Iterator[bytes | None]:
    """Iterate over the lines of a file that are not blank, without their ends.

    None stands for one that is longer, which is never held in memory.
    """
    while data := handle.readline(most_bytes + 1):
        if len(data) > most_bytes:
            while data and not data.endswith(b"\n"):
                data = handle.readline(most_bytes)
            yield None
        elif raw := data.strip():
            yield raw


def parse_line(raw: bytes) -> Line | None:
    """Return the event that a line is; None if it is not an object of JSON."""
    try:
        event = json.loads(raw.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return Line(raw, event) if isinstance(event, dict) else None


def _refuse(constant: str) -> None:
    """Take `NaN` for what it is: no JSON, and nothing that could be posted."""
    raise ValueError(constant)
