"""How a refresh ended, and what is served after it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from skills_mcp.content.source import Mode, SourceState
from skills_mcp.errors import SkillsError
from skills_mcp.snapshots.changes import SkillChanges

_NO_CHANGES = SkillChanges()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """How a refresh ended, and what is served now.

    With several sources, `commit` and `synced_at` are those of the first repository.
    """

    mode: Mode
    commit: str | None
    files_changed: int
    skills_reindexed: int
    synced_at: datetime | None
    error: SkillsError | None
    sources: tuple[SourceState, ...] = ()
    """The state of each source, in the operator's order."""
    changes: SkillChanges = _NO_CHANGES
    """All since the refresh was asked for, by whichever process they were fetched."""


def derive_refreshed(
    states: Sequence[SourceState],
    *,
    files_changed: int,
    skills_reindexed: int,
    error: SkillsError | None,
    changes: SkillChanges = _NO_CHANGES,
) -> Refreshed:
    """Return how a refresh ended, from the states of all sources."""
    repositories = [state for state in states if state.mode == "git"]
    first = next(iter([*repositories, *states]), None)
    return Refreshed(
        mode="git" if repositories else "local",
        commit=first.commit if first else None,
        files_changed=files_changed,
        skills_reindexed=skills_reindexed,
        synced_at=first.synced_at if first else None,
        error=error,
        sources=tuple(states),
        changes=changes,
    )
