"""The JSON of an error and of the state of a source, in replies and for `--json`."""

from datetime import UTC, datetime
from typing import Any

from skills_mcp.content.source import SourceState
from skills_mcp.errors import SkillsError
from skills_mcp.text.redaction import redact
from skills_mcp.text.rendering import render_time


def render_state(state: SourceState) -> dict[str, Any]:
    """Return how a source is doing, without the keys that do not apply."""
    age = state.age_seconds
    data: dict[str, Any] = {
        "mount": state.mount,
        "name": state.name,
        "mode": state.mode,
        "commit": state.commit,
        "last_sync": render_time(state.synced_at) if state.synced_at else None,
        "age_seconds": None if age is None else int(age),
        "stale": state.is_stale,
    }
    if state.error:
        data["error"] = render_error(state.error)
    moments = {"failed_at": state.failed_at, "next_attempt_at": state.next_attempt_at}
    data |= {name: render_time(moment) for name, moment in moments.items() if moment}
    if state.verified_by:
        data["verified_by"] = state.verified_by
    if state.hold:
        since = render_time(datetime.fromtimestamp(state.hold.since, UTC))
        data["held"] = {"since": since, "instead_of": state.hold.instead_of}
    return data


def render_error(error: SkillsError) -> dict[str, str]:
    """Return an error as every reply shows it, without any secret."""
    return {"code": error.code, "message": redact(str(error))}
