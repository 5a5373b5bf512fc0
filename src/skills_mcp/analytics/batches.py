"""Events as the body of one request (001 §10.3).  Pure."""

import hashlib
import re
from collections.abc import Iterator, Sequence

from skills_mcp.analytics.lines import Line
from skills_mcp.analytics.spool import MAX_BATCH_EVENTS
from skills_mcp.config.values import SAFE_ADDRESS

MAX_BATCH_BYTES = 475_000
"""As many as usual receivers of events take at once."""

_KEY_DIGITS = 32


def split(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Yield events in their order, as many together as one request may have.

    One that is larger than a request goes alone: whether it is too large is for the
    receiver to say.
    """
    begin = size = 0
    for number, line in enumerate(lines):
        more = len(line.raw) + 1
        if number > begin and (
            size + more > MAX_BATCH_BYTES or number - begin >= MAX_BATCH_EVENTS
        ):
            yield lines[begin:number]
            begin, size = number, 0
        size += more
    if lines:
        yield lines[begin:]


def compose(lines: Sequence[Line]) -> bytes:
    """Return the body: the events exactly as they were written down."""
    return b'{"events": [%s]}' % b",".join(line.raw for line in lines)


def derive_key(lines: Sequence[Line]) -> str:
    """Return what these events have in common with a repetition of the same request."""
    digest = hashlib.sha256(b"\n".join(line.raw for line in lines))
    return digest.hexdigest()[:_KEY_DIGITS]


def is_safe(endpoint: str) -> bool:
    """Whether events may be sent there, whoever has set it."""
    return bool(endpoint) and re.fullmatch(SAFE_ADDRESS, endpoint) is not None
