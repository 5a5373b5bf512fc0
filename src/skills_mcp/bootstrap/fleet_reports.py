"""Heartbeats of a library."""

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from skills_mcp.about import __version__
from skills_mcp.config import is_tracking_refused
from skills_mcp.events.heartbeat import (
    Heartbeat,
    HeartbeatTimer,
    ServedSource,
    Transport,
)
from skills_mcp.events.privacy import Privacy
from skills_mcp.events.received_event import MAX_FIELD_LENGTH
from skills_mcp.library import SkillLibrary, SourceState

_MINUTE_SECONDS = 60.0


def open_heartbeat_timer(
    library: SkillLibrary,
    home: Path,
    environment: Mapping[str, str],
    transport: Transport,
) -> HeartbeatTimer | None:
    """Schedule the heartbeats of a library; None if `DO_NOT_TRACK` forbids them."""
    if is_tracking_refused(environment):
        return None
    privacy = Privacy(home / "analytics.key", environment)
    return HeartbeatTimer(
        partial(read_heartbeat, library, privacy, transport),
        lambda: library.config.refresh.interval_minutes * _MINUTE_SECONDS,
    )


def read_heartbeat(
    library: SkillLibrary, privacy: Privacy, transport: Transport
) -> Heartbeat | None:
    """The current heartbeat; None before the first content.  Blocking.

    It has commits and sync states, and nothing of a person, of a path or of a task.
    """
    if not library.is_ready:
        return None
    states = library.states()
    # Servers of one machine with the same sources are one of the fleet.
    served = (f"{state.mount}={state.name}" for state in states)
    distinction = "\0".join((platform.node(), transport, *served))
    return Heartbeat(
        server_id=privacy.server_pseudonym(library.config.analytics, distinction),
        happened_at=datetime.now(UTC),
        version=__version__,
        transport=transport,
        sources=tuple(map(_describe_source, states)),
    )


def _describe_source(state: SourceState) -> ServedSource:
    return ServedSource(
        mount=state.mount[:MAX_FIELD_LENGTH],
        repository=derive_repository(state.name) if state.mode == "git" else "",
        commit=state.commit,
        age_seconds=state.age_seconds,
        last_error=state.error.code if state.error else None,
    )


def derive_repository(name: str) -> str:
    """Host and path of a repository, without credentials.

    >>> derive_repository("https://ada:1234@git.example.com/team/skills.git (main)")
    'git.example.com/team/skills'
    >>> derive_repository("file:///home/ada/skills")
    ''
    """
    address = name.split(maxsplit=1)[0] if name else ""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return ""
    if not host or parts.scheme == "file":
        return ""
    path = parts.path.removesuffix("/").removesuffix(".git")
    return f"{host}{path}"[:MAX_FIELD_LENGTH] if path.isprintable() else host
