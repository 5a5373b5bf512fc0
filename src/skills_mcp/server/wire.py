"""Exclusive standard streams for the protocol.

Each line on standard output is an MCP message. So the streams are moved away before
anything else is loaded: output of libraries and child processes goes to standard error,
and their standard input is empty.
"""

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from select import select
from typing import Any, BinaryIO, NamedTuple, TextIO

MAX_LINE_BYTES = 16 * 2**20
"""Maximum length of a message; longer ones are discarded.

The arguments of the largest call are far below 1 MiB, and clients must not fill the
memory of the server.
"""

SEPARATOR_ESCAPES = {"\x85": r"\u0085", "\u2028": r"\u2028", "\u2029": r"\u2029"}
"""JSON escapes of separators at which many clients split a line, against the standard."""

# What is read at once of a line that is thrown away.
_SKIPPED_BYTES = 65_536

# An escape of JSON: a surrogate pair (12 characters), half of one (6), any other (2).
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
    r"|\\."
)
_HALF_PAIR_CHARACTERS = 6
_HALF_PAIR = re.compile(r"\\u[dD]")


class IncomingLines:
    """Lines of text, with U+FFFD for invalid UTF-8 and lone surrogates.

    Hosts in JavaScript send lone surrogates when they cut a text inside an emoji.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readline(self) -> str | None:
        """Next line; "" at the end, None for an overlong one."""
        line = self._stream.readline(MAX_LINE_BYTES + 1)
        if len(line) > MAX_LINE_BYTES:
            while line and not line.endswith(b"\n"):  # its rest is discarded
                line = self._stream.readline(_SKIPPED_BYTES)
            return None
        return decode_line(line)


def decode_line(line: bytes) -> str:
    """Text of a line, with U+FFFD for invalid UTF-8 and lone surrogates."""
    text = line.decode(errors="replace")
    # Few messages have one, and looking at each escape takes longer than parsing.
    return _ESCAPE.sub(_replace_lone_surrogate, text) if _HALF_PAIR.search(text) else text


class Wire(NamedTuple):
    """Streams of incoming messages and outgoing responses."""

    reading: IncomingLines
    writing: TextIO


def _replace_lone_surrogate(escape: re.Match[str]) -> str:
    text = escape[0]
    return r"\ufffd" if len(text) == _HALF_PAIR_CHARACTERS else text


def escape_separators(line: str) -> str:
    """Escape line separators in a message, which are in strings only."""
    for separator, escape in SEPARATOR_ESCAPES.items():
        line = line.replace(separator, escape)
    return line


class WaitingFile(io.FileIO):
    """File that waits for data or room, although a host has made it non-blocking.

    The flag is not changed: the host may share it.
    """

    def readinto(self, buffer: Any, /) -> int:
        while (count := super().readinto(buffer)) is None:
            select([self], [], [])
        return count

    def write(self, data: Any, /) -> int:
        while (count := super().write(data)) is None:
            select([], [self], [])
        return count


@contextmanager
def claimed_wire() -> Iterator[Wire]:
    """Take over standard input and output; restore them at the end.

    Raises:
        OSError: The process was started without standard input or output.
    """
    own = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    reading = io.BufferedReader(WaitingFile(own[0], "rb"))
    output = io.BufferedWriter(WaitingFile(own[1], "wb"))
    writing = io.TextIOWrapper(output, encoding="utf-8")
    with reading, writing:
        try:
            yield Wire(IncomingLines(reading), writing)
        finally:
            os.dup2(own[0], 0)
            os.dup2(own[1], 1)
