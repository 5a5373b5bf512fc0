"""All events of this machine, wherever they are: waiting, sent, or refused."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from skills_mcp.analytics.lines import MAX_FILE_BYTES, read_lines
from skills_mcp.files.durable import open_regular

SPOOL = "spool"
"""The folder of what waits to be sent."""

DEAD_LETTERS = "dead-letters"
"""The folder of what a receiver has refused for what is in it."""

ARCHIVE = "archive"
"""The folder of what was sent, or has nobody to be sent to."""

# In the order in which an event moves: one that moves while we read is met later.
_FOLDERS = (SPOOL, DEAD_LETTERS, ARCHIVE)


class Record:
    """What was counted on this machine, for whoever wants to read it.

    Args:
        home: The folder that everything of ours lies in, `~/.skills-mcp`.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self.skipped = 0
        """Lines that are no events and files that cannot be read, up to now."""

    def events(self) -> Iterator[Mapping[str, Any]]:
        """Iterate over the events, each once, in no particular order.  Blocking.

        Servers may go on writing and sending meanwhile.
        """
        seen: set[str] = set()
        for event in self._all():
            event_id = event.get("event_id")
            if isinstance(event_id, str):
                if event_id in seen:
                    continue
                seen.add(event_id)
            yield event

    def _all(self) -> Iterator[Mapping[str, Any]]:
        for name in _FOLDERS:
            for path in sorted((self._home / name).glob("*.jsonl")):
                yield from self._read(path)

    def _read(self, path: Path) -> Iterator[Mapping[str, Any]]:
        try:
            handle = open_regular(path, max_bytes=MAX_FILE_BYTES)
        except FileNotFoundError:
            return  # it has moved on, and is met there
        except OSError:
            handle = None
        if handle is None:
            self.skipped += 1
            return
        with handle:
            for line in read_lines(handle):
                if line is None:
                    self.skipped += 1
                else:
                    yield line.event
