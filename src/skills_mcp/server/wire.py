"""The two streams of the protocol, which nothing else in the process can reach.

Rule: every line on standard output is a message of MCP. So the streams are moved away
before anything else is loaded: what a library or a child process prints goes to
standard error, and standard input is empty for them.
"""

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

# An escape of JSON: a surrogate pair (12 characters), half of one (6), any other (2).
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
    r"|\\."
)
_HALF_PAIR_CHARACTERS = 6


@dataclass(frozen=True, slots=True)
class Wire:
    """The stream of the client's messages, and the stream of the answers."""

    reading: TextIO
    writing: TextIO


class _Lines(io.TextIOWrapper):
    """Lines in which half a surrogate pair becomes U+FFFD, as invalid UTF-8 does.

    Hosts in JavaScript send such halves when they cut a text inside an emoji. The SDK
    drops the whole line, and the client would wait for ever.
    """

    # TextIOWrapper's own types are those of text above a base of bytes, too.
    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        return _ESCAPE.sub(_mend, super().readline(size))


def _mend(escape: re.Match[str]) -> str:
    text = escape[0]
    return r"\ufffd" if len(text) == _HALF_PAIR_CHARACTERS else text


@contextmanager
def claimed_wire() -> Iterator[Wire]:
    """Take over standard input and output, and give them back at the end.

    Raises:
        OSError: The process was started without one of them.
    """
    own = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    reading = _Lines(os.fdopen(own[0], "rb"), encoding="utf-8", errors="replace")
    writing = io.TextIOWrapper(os.fdopen(own[1], "wb"), encoding="utf-8")
    with reading, writing:
        try:
            yield Wire(reading, writing)
        finally:
            os.dup2(own[0], 0)
            os.dup2(own[1], 1)
