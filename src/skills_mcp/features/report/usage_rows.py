"""Events as a report takes them: read from files, checked, safe to show.

Rule: nothing that an event says is believed or shown before it has passed here. An
agent may have written text that is hostile to a terminal or a page, and a file may hold
anything.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, TypeGuard

from skills_mcp.events.privacy import HASH_PREFIX
from skills_mcp.events.received_event import (
    MOST_NAME,
    InvalidEventError,
    check_event,
)
from skills_mcp.events.spool import split_lines
from skills_mcp.events.tracker import EventType

_SUFFIX = ".jsonl"

# The publisher posts half a megabyte at most; a longer line is no event.
_MOST_LINE_BYTES = 4 * 1024 * 1024

UNREADABLE = None
"""Stands for a line that is not JSON."""

MOST_TEXT = 500
"""Characters of a task or a comment: enough to understand it."""

_MOST_ITEMS = 20  # of a list; an ambiguous answer names a few candidates

_MOST_NUMBER = 1 << 53  # what every reader of JSON has as a whole number

_ANONYMOUS = "dev"
"""The `server_id` of all servers with `analytics.identity: none`."""

_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"  # spelling needs them


class EventFilesError(Exception):
    """A file of events is missing or cannot be read; the message names it."""


def load_event_files(places: Iterable[Path]) -> Iterator[object]:
    """Iterate over the events of files, and of folders with all below them.

    Values that are no events are among them, to be counted. A line holds an event, or
    a whole request: `{"events": […]}`. Blocking; reads one line at a time.

    Raises:
        EventFilesError: A file or folder is missing, or cannot be read.
    """
    for place in places:
        for file in _find_files(place):
            try:
                with file.open("rb") as opened:
                    yield from _load_lines(opened)
            except OSError as error:
                raise _refuse(file, error.strerror or "it cannot be read") from error


def _find_files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    files = sorted(file for file in place.rglob(f"*{_SUFFIX}") if file.is_file())
    if not files:
        raise _refuse(place, f"no file in it ends in {_SUFFIX}")
    return files


def _refuse(place: Path, reason: str) -> EventFilesError:
    return EventFilesError(
        f"No events can be read from {place}: {reason}. Name a file with one event "
        f"per line, or a folder of such files that end in {_SUFFIX}."
    )


def _load_lines(file: IO[bytes]) -> Iterator[object]:
    for line in split_lines(file, _MOST_LINE_BYTES):
        yield from (UNREADABLE,) if line is None else _parse_line(line)


def _parse_line(line: bytes) -> Iterator[object]:
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


@dataclass(frozen=True, slots=True)
class UsageRow:
    """An event whose type and time are valid; its data are checked field by field."""

    kind: EventType
    moment: datetime
    person: str
    """The pseudonym of a person; empty if people are not recorded."""
    commit: str
    """The commit that was served; empty if the event does not name it."""
    data: Mapping[str, Any]

    @property
    def group(self) -> str:
        """The group whose event it is; empty if none is named."""
        return self.text("group")

    def text(self, name: str, most: int = MOST_NAME) -> str:
        """Return a text of the data, safe to show; empty if there is none."""
        return tidy(self.data.get(name), most)

    def is_set(self, name: str) -> bool:
        """Whether a field of the data is true."""
        return self.data.get(name) is True

    def number(self, name: str) -> int | None:
        """Return a whole number of the data, from 0 up."""
        value = self.data.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            return None
        return value if 0 <= value <= _MOST_NUMBER else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of a list of the data."""
        return _tidy_all(self.data.get(name))

    def lists(self, name: str) -> tuple[tuple[str, ...], ...]:
        """Return the texts of a list of lists of the data."""
        value = self.data.get(name)
        return tuple(map(_tidy_all, value[:_MOST_ITEMS])) if _is_list(value) else ()


@dataclass(frozen=True, slots=True)
class AskedTask:
    """The task of an event, as far as it was recorded."""

    text: str
    """Empty if only a hash was recorded, or nothing."""
    mark: str
    """The text or its hash; empty if nothing was recorded."""


def parse_row(raw: object) -> UsageRow | None:
    """Return a checked event; None if it is no event, or of an unknown type."""
    if not isinstance(raw, Mapping):
        return None
    try:
        checked = check_event(raw)
    except InvalidEventError:
        return None
    person = tidy(raw.get("server_id"), MOST_NAME)
    commit = tidy(raw.get("content_commit"), MOST_NAME)
    return UsageRow(
        checked.kind,
        checked.moment,
        "" if person == _ANONYMOUS else person,
        commit,
        checked.data,
    )


def identify(raw: object) -> int:
    """Return a hash that identifies an event: of its `event_id`, or of all of it."""
    name = raw.get("event_id") if isinstance(raw, dict) else None
    if isinstance(name, str) and name:
        return hash(name)
    try:
        return hash(json.dumps(raw, sort_keys=True, default=str))
    except RecursionError:  # no real event is nested so deeply
        return hash(type(raw))


def parse_task(row: UsageRow) -> AskedTask:
    """Return the task of an event."""
    text = row.text("context", MOST_TEXT)
    return (
        AskedTask("", text) if text.startswith(HASH_PREFIX) else AskedTask(text, text)
    )


def tidy(value: object, most: int) -> str:
    r"""Return a text in one line, without control characters.

    >>> tidy("write a\n\x1b[31mskill\u202e", 80)
    'write a �[31mskill�'
    >>> tidy(7, 80)
    ''
    """
    if not isinstance(value, str):
        return ""
    cut = value[: most + 1]
    if not cut.isprintable():
        cut = "".join(map(_show, cut))
    cut = " ".join(cut.split())
    return cut if len(cut) <= most else f"{cut[: most - 1]}…"


def _show(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    return " " if character.isspace() else "\N{REPLACEMENT CHARACTER}"


def _tidy_all(value: object) -> tuple[str, ...]:
    if not _is_list(value):
        return ()
    found = (tidy(each, MOST_NAME) for each in value[:_MOST_ITEMS])
    return tuple(filter(None, found))


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)
