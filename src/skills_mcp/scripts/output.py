"""What is kept of a stream: its beginning, its end, and how long it was.

The first lines say what a program did, the last ones why it failed.  What lies
between costs no memory.
"""

import itertools

import anyio
from anyio.abc import ByteReceiveStream

CHUNK_BYTES = 64 * 1024
"""As much as a pipe holds: more is never there to be read at once."""

_HEAD_SHARE = 0.75  # of the limit; the rest is for the end

# A character has at most four bytes, so at most three of it are before or behind a cut.
_MOST_REST_BYTES = 3


class KeptOutput:
    """The head and the tail of a stream, together up to a limit."""

    def __init__(self, limit_bytes: int) -> None:
        self._head_bytes = int(limit_bytes * _HEAD_SHARE)
        self._tail_bytes = limit_bytes - self._head_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0
        self.ended = anyio.Event()

    async def read(self, stream: ByteReceiveStream | None) -> None:
        """Read a stream to its end, or until it is closed."""
        try:
            while stream is not None:
                self.add(await stream.receive(CHUNK_BYTES))
        except (
            anyio.EndOfStream,
            anyio.ClosedResourceError,
            anyio.BrokenResourceError,
        ):
            pass
        finally:
            self.ended.set()

    def add(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total_bytes += len(chunk)
        room = self._head_bytes - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        surplus = len(self._tail) - self._tail_bytes
        if surplus > 0:
            del self._tail[:surplus]

    @property
    def is_truncated(self) -> bool:
        """Whether something was left out."""
        return self.total_bytes > len(self._head) + len(self._tail)

    def text(self) -> str:
        """Return what is kept; where bytes are left out, a line says how many."""
        if not self.is_truncated:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = _end_at_a_character(self._head), _begin_at_a_character(self._tail)
        left_out = self.total_bytes - len(head) - len(tail)
        said = f"[skills-mcp] Output truncated: {left_out:,} bytes are left out here."
        before = head.decode("utf-8", "replace")
        line_end = "\n" if before and not before.endswith("\n") else ""
        return f"{before}{line_end}{said}\n{tail.decode('utf-8', 'replace')}"


def _end_at_a_character(data: bytearray) -> bytearray:
    """Leave out the first bytes of a character whose last ones were cut off."""
    for rest in range(1, min(_MOST_REST_BYTES, len(data)) + 1):
        if not _is_inside_a_character(data[-rest]):
            return data[:-rest] if rest < _length(data[-rest]) else data
    return data


def _begin_at_a_character(data: bytearray) -> bytearray:
    """Leave out the last bytes of a character whose first ones were cut off."""
    inside = itertools.takewhile(_is_inside_a_character, data[:_MOST_REST_BYTES])
    return data[len(list(inside)) :]


def _is_inside_a_character(byte: int) -> bool:
    return byte & 0b1100_0000 == 0b1000_0000  # noqa: PLR2004 - as UTF-8 has it


def _length(first: int) -> int:
    """Return how many bytes a character has that begins with this one."""
    for length, least in ((4, 0b1111_0000), (3, 0b1110_0000), (2, 0b1100_0000)):
        if first >= least:
            return length
    return 1
