"""Differences between two snapshots, and the result of a refresh.  Pure.

Served states are compared, not the commits between them, so it does not matter which
process has fetched the newer one. A skill has changed if its key has.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from skills_mcp.content.source import Mode, SourceState
from skills_mcp.errors import SkillsError
from skills_mcp.skills.model import SkillPath

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    from skills_mcp.snapshots.skill_table import SkillTable


@dataclass(frozen=True, slots=True)
class OfferedSkills:
    """The offered skills of one snapshot."""

    table: "SkillTable"
    numbers: Sequence[int]

    def by_path(self) -> dict[SkillPath, int]:
        listed = self.table.listed
        return {listed[number].path: number for number in self.numbers}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillChanges:
    """Differences between two snapshots, each list in path order."""

    added: tuple[SkillPath, ...] = ()
    changed: tuple[SkillPath, ...] = ()
    """Skills with different text, frontmatter or files of their own."""
    removed: tuple[SkillPath, ...] = ()
    broken: tuple[str, ...] = ()


def derive_changes(before: OfferedSkills | None, after: OfferedSkills | None) -> SkillChanges:
    """Compare two sets of offered skills; None for no content."""
    old = before.by_path() if before else {}
    new = after.by_path() if after else {}
    changed = _find_changed(before, after) if before and after else iter(())
    return SkillChanges(
        added=tuple(path for path in new if path not in old),
        changed=tuple(changed),
        removed=tuple(path for path in old if path not in new),
    )


def is_listing_changed(before: OfferedSkills | None, after: OfferedSkills) -> bool:
    """Whether a list of skills with their descriptions would look different."""
    if before is None:
        return len(after.numbers) > 0
    old, new = before.by_path(), after.by_path()
    if list(old) != list(new):
        return True
    return any(
        _read_label(before.table, old[path]) != _read_label(after.table, new[path])
        for path in _find_changed(before, after)
    )


def _find_changed(before: OfferedSkills, after: OfferedSkills) -> Iterator[SkillPath]:
    if before.table is after.table:
        return
    old, old_keys, keys = before.by_path(), before.table.keys, after.table.keys
    for path, number in after.by_path().items():
        was = old.get(path)
        if was is not None and old_keys[was] != keys[number]:
            yield path


def _read_label(table: "SkillTable", number: int) -> tuple[str, str]:
    text = table.text_of(number)
    return text.name, text.description


_NO_CHANGES = SkillChanges()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """Result of a refresh; `commit` and `synced_at` are the first repository's."""

    mode: Mode
    commit: str | None
    files_changed: int
    skills_reindexed: int
    synced_at: datetime | None
    error: SkillsError | None
    sources: tuple[SourceState, ...] = ()
    changes: SkillChanges = _NO_CHANGES
    """All changes since the request, also those fetched by another process."""


def derive_refreshed(
    states: Sequence[SourceState],
    *,
    files_changed: int,
    skills_reindexed: int,
    error: SkillsError | None,
    changes: SkillChanges = _NO_CHANGES,
) -> Refreshed:
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
