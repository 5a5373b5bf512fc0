"""What an event is, and its form as a line of JSON."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from skills_mcp.text.rendering import render_time

EventType = Literal[
    "no_match",
    "ambiguous",
    "skill_served",
    "asset_served",
    "script_executed",
    "skill_feedback",
    "refresh",
    "events_dropped",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, with the fields that every event has."""

    type: EventType
    timestamp: datetime
    server_id: str
    data: Mapping[str, Any]
    event_id: str
    """Unique, so that a receiver can tell a repetition from a second event."""
    content_commit: str | None = None
    """The commit that was served; None for a folder, which has no commits."""

    def to_json(self) -> str:
        """Return the event as one line."""
        fields = {
            "type": self.type,
            "timestamp": render_time(self.timestamp),
            "server_id": self.server_id,
            "data": dict(self.data),
            "event_id": self.event_id,
        }
        if self.content_commit is not None:
            fields["content_commit"] = self.content_commit
        return json.dumps(fields, ensure_ascii=False)


def new_event_id() -> str:
    """Return an identifier that no other event has."""
    return uuid.uuid4().hex
