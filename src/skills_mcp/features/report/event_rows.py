"""Events as rows of a report: read from files, validated, safe to display.

Rule: no data of an event are believed or displayed before they are validated here. An
agent may have written text hostile to a terminal or a page, and a file may hold
anything.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeGuard

from skills_mcp.events.privacy import HASH_PREFIX
from skills_mcp.events.received_event import (
    MAX_FIELD_LENGTH,
    InvalidEventError,
    validate_event,
)
from skills_mcp.events.spool import split_lines
from skills_mcp.events.tracker import EventType

_SUFFIX = ".jsonl"

# The publisher posts half a megabyte at most; a longer line is no event.
_MOST_LINE_BYTES = 4 * 1024 * 1024

UNREADABLE = None
"""Stands for an invalid line."""

MAX_TEXT_LENGTH = 500
"""Characters of a task or a comment: enough to understand it."""

_MAX_ITEMS = 20  # of a list; an ambiguous answer names a few candidates

_MOST_NUMBER = 1 << 53  # what every reader of JSON has as a whole number

_ANONYMOUS = "dev"
"""The `server_id` of all servers with `analytics.identity: none`."""

_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"  # spelling needs them


class EventFilesError(Exception):
    """A file of events is missing or cannot be read; the message names it."""


def load_event_files(paths: Iterable[Path]) -> Iterator[object]:
    """Iterate over the events of files, and of folders recursively.  Blocking.

    Invalid values are included, to be counted. A line holds an event, or a whole
    request:
    `{"events": […]}`.

    Raises:
        EventFilesError: A file or folder is missing, or cannot be read.
    """
    for path in paths:
        for file in _find_files(path):
            try:
                with file.open("rb") as opened:
                    for line in split_lines(opened, _MOST_LINE_BYTES):
                        yield from (UNREADABLE,) if line is None else _parse_line(line)
            except OSError as error:
                raise _file_error(file, error.strerror or "it cannot be read") from error


def _find_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob(f"*{_SUFFIX}") if file.is_file())
    if not files:
        raise _file_error(path, f"no file in it ends in {_SUFFIX}")
    return files


def _file_error(path: Path, reason: str) -> EventFilesError:
    return EventFilesError(
        f"No events can be read from {path}: {reason}. Name a file with one event "
        f"per line, or a folder of such files that end in {_SUFFIX}."
    )


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
    """An event with a valid type and time; its data are checked field by field."""

    kind: EventType
    moment: datetime
    person: str
    """Pseudonym of a person; empty for an agent, and if people are not recorded."""
    commit: str
    """The served commit; empty if unknown."""
    data: Mapping[str, Any]

    @property
    def group(self) -> str:
        """The agent, or else the group of a person."""
        return self.text("agent") or self.text("group")

    def text(self, name: str, limit: int = MAX_FIELD_LENGTH) -> str:
        """A text safe to display; empty if there is none."""
        return clean_line(self.data.get(name), limit)

    def is_set(self, name: str) -> bool:
        return self.data.get(name) is True

    def number(self, name: str) -> int | None:
        """A non-negative integer."""
        value = self.data.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            return None
        return value if 0 <= value <= _MOST_NUMBER else None

    def texts(self, name: str) -> tuple[str, ...]:
        return _clean_lines(self.data.get(name))

    def lists(self, name: str) -> tuple[tuple[str, ...], ...]:
        value = self.data.get(name)
        return tuple(map(_clean_lines, value[:_MAX_ITEMS])) if _is_list(value) else ()


@dataclass(frozen=True, slots=True)
class RecordedTask:
    """The task of an event, as far as it was recorded."""

    text: str
    """Empty if only a hash was recorded, or nothing."""
    mark: str
    """The text or its hash; empty if nothing was recorded."""


def parse_row(raw: object) -> UsageRow | None:
    """Validate an event; None if it is invalid, or of an unknown type."""
    if not isinstance(raw, Mapping):
        return None
    try:
        checked = validate_event(raw)
    except InvalidEventError:
        return None
    person = clean_line(raw.get("server_id"), MAX_FIELD_LENGTH)
    commit = clean_line(raw.get("content_commit"), MAX_FIELD_LENGTH)
    return UsageRow(
        checked.kind,
        checked.moment,
        "" if person == _ANONYMOUS or "agent" in checked.data else person,
        commit,
        checked.data,
    )


def identify(raw: object) -> int:
    """A hash of the `event_id`, or else of the whole event."""
    name = raw.get("event_id") if isinstance(raw, dict) else None
    if isinstance(name, str) and name:
        return hash(name)
    try:
        return hash(json.dumps(raw, sort_keys=True, default=str))
    except RecursionError:  # no real event is nested so deeply
        return hash(type(raw))


def parse_task(row: UsageRow) -> RecordedTask:
    text = row.text("context", MAX_TEXT_LENGTH)
    return RecordedTask("", text) if text.startswith(HASH_PREFIX) else RecordedTask(text, text)


def clean_line(value: object, limit: int) -> str:
    r"""A text in one line, without control characters.

    >>> clean_line("write a\n\x1b[31mskill\u202e", 80)
    'write a �[31mskill�'
    >>> clean_line(7, 80)
    ''
    """
    if not isinstance(value, str):
        return ""
    cut = value[: limit + 1]
    if not cut.isprintable():
        cut = "".join(map(_visible_character, cut))
    cut = " ".join(cut.split())
    return cut if len(cut) <= limit else f"{cut[: limit - 1]}…"


def _visible_character(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    return " " if character.isspace() else "\N{REPLACEMENT CHARACTER}"


def _clean_lines(value: object) -> tuple[str, ...]:
    if not _is_list(value):
        return ()
    found = (clean_line(item, MAX_FIELD_LENGTH) for item in value[:_MAX_ITEMS])
    return tuple(filter(None, found))


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)
