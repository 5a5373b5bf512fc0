"""Standard error of Git: messages, progress and HTTP response headers.

With `GIT_TRACE_CURL` the headers of every response stand between the messages.  They
carry details that Git omits: the status, and `Retry-After`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from skills_mcp.processes.retry import clamp_pause, parse_http_date, parse_retry_after

_MAX_RETAINED_BYTES = 32 * 1024  # of the beginning, and as much of the end
_LONGEST_LINE = 16 * 1024  # a server that never ends one must not fill our memory
_MAX_SUMMARY = 1_200  # characters of a message

_TRACE = re.compile(rb"\d\d:\d\d:\d\d\.\d+ \S+:\d+ +")
_HEADER = re.compile(rb"<= Recv header: ([^:\r\n]+):? ?([^\r\n]*)")
_STATUS = re.compile(rb"HTTP/[\d.]+ (\d{3})")
_PROGRESS = re.compile(rb"(?:remote: )?([A-Z][a-z ]+): +(\d{1,3})%")

# Lines of a fetch without a failure.
_CHATTER = re.compile(
    rb"remote: (?:Enumerating|Counting|Compressing|Total) |From | [*+=t-] |POST git-"
)
_RELAYED = re.compile("remote: |fatal: remote error: ")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


@dataclass(frozen=True, slots=True)
class Response:
    """The last HTTP response of a host, without its body."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def location(self) -> str:
        return self.headers.get("location", "")

    @property
    def is_throttled(self) -> bool:
        """Whether the host limits our requests, by 429 or by headers of a 403."""
        remaining = self.headers.get("x-ratelimit-remaining")
        asks_to_wait = "retry-after" in self.headers or remaining == "0"
        return self.status == 429 or (self.status == 403 and asks_to_wait)  # noqa: PLR2004

    def retry_after_seconds(self, now: datetime) -> float | None:
        """Parse the requested pause, up to an hour; None without a valid header."""
        sent_at = parse_http_date(self.headers.get("date", "")) or now
        if header := self.headers.get("retry-after", ""):
            return parse_retry_after(header, sent_at)
        reset = self.headers.get("x-ratelimit-reset", "")
        if self.is_throttled and re.fullmatch(r"[0-9]{1,18}", reset):
            return clamp_pause(float(reset) - sent_at.timestamp())
        return None


class Transcript:
    """Parser for the output of one command; fed by one thread."""

    def __init__(self) -> None:
        self._rest = b""
        self._head = bytearray()
        self._tail = bytearray()
        self._status = 0
        self._headers: dict[str, str] = {}
        self.progress: tuple[str, float] | None = None
        """Git's step and the share that is done, from 0 to 1."""

    def feed(self, data: bytes) -> None:
        """Add a chunk of output; it may end within a line."""
        *lines, self._rest = re.split(rb"[\r\n]", self._rest + data)
        for line in lines:
            self._add(line)
        if len(self._rest) > _LONGEST_LINE:
            self._rest = self._rest[:_LONGEST_LINE]

    def finish(self) -> None:
        if self._rest:
            self.feed(b"\n")

    @property
    def summary(self) -> str:
        """The messages on one line, shortened."""
        words = " ".join(_CONTROLS.sub(" ", self.text).split())
        if len(words) <= _MAX_SUMMARY:
            return words
        return f"{words[: _MAX_SUMMARY // 2]} … {words[-_MAX_SUMMARY // 2 :]}"

    @property
    def local_text(self) -> str:
        """Git's own messages, without those relayed from the host."""
        lines = self.text.splitlines()
        return " ".join(line for line in lines if not _RELAYED.match(line))

    @property
    def text(self) -> str:
        return bytes(self._head + self._tail).decode("utf-8", "replace")

    @property
    def response(self) -> Response | None:
        return Response(self._status, dict(self._headers)) if self._status else None

    def _add(self, line: bytes) -> None:
        if trace := _TRACE.match(line):
            self._read_header(line[trace.end() :])
        elif progress := _PROGRESS.match(line):
            share = min(int(progress[2]), 100) / 100
            self.progress = (progress[1].decode(), share)
        elif not _CHATTER.match(line):
            self._append(line + b"\n")

    def _append(self, line: bytes) -> None:
        capacity = _MAX_RETAINED_BYTES - len(self._head)
        self._head += line[:capacity]
        self._tail += line[capacity:]
        del self._tail[:-_MAX_RETAINED_BYTES]

    def _read_header(self, trace: bytes) -> None:
        if not (header := _HEADER.match(trace)):
            return
        if status := _STATUS.match(trace, header.start(1)):
            self._status, self._headers = int(status[1]), {}
            return
        name, value = header[1].decode("latin-1"), header[2].decode("latin-1")
        self._headers[name.strip().lower()] = value.strip()
