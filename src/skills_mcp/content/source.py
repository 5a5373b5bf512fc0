"""What every source of content promises, its state, and when it is tried again."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Literal, Protocol

from skills_mcp.errors import AccessRefusedError, SyncError
from skills_mcp.processes.retry import derive_pause
from skills_mcp.skills.homes import WHOLE, HomeFolder, Selection
from skills_mcp.skills.model import Problem, Scope

Mode = Literal["local", "git"]
"""What a source is: a folder on this machine, or a Git repository."""

_ERRORS = SyncError.__module__

# One interval may be missed by chance, and a second while a laptop wakes up.
_MISSED_INTERVALS = 3


ENDING = "the process is ending"


class EndingError(SyncError):
    """A sync was ended with its process, which says nothing about the source."""


@dataclass(frozen=True, slots=True)
class SurveyedPart:
    """What a walk over a whole commit has found, before it was written to a disk.

    Only files that can be served are written, so the rest is known from here alone.
    """

    homes: tuple[HomeFolder, ...]
    """Where the skills begin."""
    problems: tuple[Problem, ...]
    """What is not served; files are relative to the top of the source."""


Surveyed = Mapping[Selection, SurveyedPart]
"""By the part of the source that is served."""


LONGEST_PAUSE_SECONDS = 15 * 60.0
"""The longest pause after failures: a repaired network is found within this time.
A timer that runs more often shortens it."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """How new content has to be for a sync to leave the remote alone."""

    newer_than: float
    """In seconds since the epoch: content fetched since then is new enough."""
    is_urgent: bool = False
    """Whether the remote is asked even during the pause after a failure."""
    longest_pause_seconds: float = LONGEST_PAUSE_SECONDS
    """The longest pause after a failure of this sync."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A rollback: an older commit is served until `rollback --resume`."""

    since: float
    """When the rollback was, in seconds since the epoch."""
    instead_of: str
    """The newer commit that is not served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """How the last syncs of a source went, in all processes of this machine."""

    attempted_at: float = 0.0
    """When the last one was, in seconds since the epoch; 0 if there was none."""
    failures: int = 0
    """How many failed since the last success."""
    next_attempt_at: float = 0.0
    """When a sync that is not urgent may ask the remote again."""
    error_code: str = ""
    error_message: str = ""
    refused_commit: str = ""
    """The newest commit of the remote, if that was refused."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Checkout:
    """One revision of the content, complete; a commit's files never change."""

    directory: Path
    """The top folder of the content."""
    revision: str | None
    """The commit, or None for a plain folder."""
    synced_at: datetime
    """When this was last known to be the newest revision."""
    surveyed: Surveyed = field(default_factory=dict)
    """What is known of a commit; empty for a plain folder."""
    verified_by: str | None = None
    """The signer, if signatures are checked."""
    hold: Hold | None = None
    """The rollback to this commit, if there was one."""
    default_branch: str = ""
    """The remote's default branch, if that is followed because there is no `main`."""


Accept = Callable[["ContentSource", Checkout], None]
"""Reads a commit before it is published.

Raises:
    SyncError: It cannot be served.
"""


class ContentSource(Protocol):
    """What a folder and a repository have in common.

    What only a repository can do is in `RemoteBranch`.
    """

    @property
    def mode(self) -> Mode:
        """Which of the two kinds this is."""
        ...

    @property
    def name(self) -> str:
        """The folder or the repository's address, safe to log: without any secret."""
        ...

    def open(self) -> Checkout | None:
        """Return the content that this machine has, without any network.  Blocking.

        None if there is none, and that is not a failure.

        Raises:
            SyncError: It may not be served, or cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A source, and the place of its skills in the tree."""

    source: ContentSource
    at: str = ""
    """The prefix of its skills' paths, such as `teams/web`; empty for the top."""
    selection: Selection = WHOLE
    """Which part of the source is served."""
    scope: Scope = "org"

    @property
    def prefix(self) -> str:
        """What stands before every path of its skills, such as `teams/web/`."""
        at = self.at.strip("/")
        return f"{at}/" if at else ""


@dataclass(frozen=True, slots=True)
class Part:
    """One source's share of the content."""

    mount: Mount
    checkout: Checkout


@dataclass(frozen=True, slots=True)
class Failure:
    """A source whose sync failed.  Its previous content stays served."""

    mount: Mount
    error: SyncError


@dataclass(frozen=True, slots=True)
class Content:
    """The newest checkout of every source that has one, in the operator's order."""

    parts: tuple[Part, ...]
    failures: tuple[Failure, ...] = ()

    @property
    def commit(self) -> str | None:
        """The commit of the first source, for replies that are about no skill."""
        return self.parts[0].checkout.revision if self.parts else None

    @property
    def error(self) -> SyncError | None:
        """The failures as one error that names each source; None without failures."""
        if not self.failures:
            return None
        said = list(dict.fromkeys(map(_render, self.failures)))
        message = "; ".join([*(text.rstrip(".") for text in said[:-1]), said[-1]])
        kinds = {type(failure.error) for failure in self.failures}
        # Errors of several kinds share only the code of a sync.
        kind = kinds.pop() if len(kinds) == 1 else SyncError
        is_recalled = any(failure.error.is_recalled for failure in self.failures)
        return kind(message, is_recalled=is_recalled)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """What one source serves, how new that is, and how its last sync ended."""

    mount: str
    """The prefix of its skills' paths; empty for the top."""
    name: str
    mode: Mode
    commit: str | None
    synced_at: datetime | None
    error: SyncError | None
    age_seconds: float | None = None
    """How long ago `synced_at` was; None for a folder, which is always current."""
    is_stale: bool = False
    """Whether three intervals passed without a successful sync, or there is nothing."""
    verified_by: str | None = None
    """The signer of the commit, if signatures are checked."""
    hold: Hold | None = None
    """The rollback that is in force, if there is one."""
    default_branch: str = ""
    """The remote's default branch, if that is followed because there is no `main`."""
    failed_at: datetime | None = None
    next_attempt_at: datetime | None = None
    refused_commit: str | None = None
    """The newest commit of the remote, if it was refused."""
    is_failing: bool = False
    """Whether a commit was refused, or no sync succeeded for longer than an interval.

    False unless the last sync failed.
    """
    failed_syncs: int = 0
    """How many syncs have failed since this process began."""
    not_served: int = 0
    """How many packages lie outside of the folders that are served."""


def accept_all(source: ContentSource, checkout: Checkout) -> None:
    """Refuse no commit: an `Accept` for callers that read nothing."""


def recall(attempt: Attempt) -> SyncError | None:
    """Return the error that the last sync raised, or None if it succeeded."""
    if not attempt.failures:
        return None
    subclasses: list[type[SyncError]] = SyncError.__subclasses__()
    kinds = {kind.code: kind for kind in subclasses if kind.__module__ == _ERRORS}
    kind = kinds.get(attempt.error_code, SyncError)
    return kind(attempt.error_message, is_recalled=True)


def derive_state(  # noqa: PLR0913 - each of them is something that a source knows
    mount: Mount,
    checkout: Checkout | None,
    attempt: Attempt,
    *,
    next_sync_at: float,
    interval_seconds: float | None,
    now: float,
) -> SourceState:
    """Return what a source serves, how new that is, and how its last sync ended.

    Args:
        mount: The source, and its place.
        checkout: What it serves.
        attempt: How its last syncs went, on this machine.
        next_sync_at: When it is synced again, in seconds since the epoch; infinity if
            it never is, because it is held, pinned, offline, or a folder.
        interval_seconds: The pause between two syncs; None if there is no timer.
        now: In seconds since the epoch.
    """
    is_git = mount.source.mode == "git"
    age = _derive_age(checkout, now) if is_git else None
    is_missed = (
        age is not None
        and interval_seconds is not None
        and isfinite(next_sync_at)
        and age > _MISSED_INTERVALS * interval_seconds
    )
    interval = 0.0 if interval_seconds is None else interval_seconds
    is_retried = attempt.failures > 0 and isfinite(next_sync_at)
    return SourceState(
        mount=mount.at,
        name=mount.source.name,
        mode=mount.source.mode,
        commit=checkout.revision if checkout else None,
        synced_at=checkout.synced_at if checkout else None,
        error=recall(attempt),
        age_seconds=age,
        is_stale=checkout is None or is_missed,
        verified_by=checkout.verified_by if checkout else None,
        hold=checkout.hold if checkout else None,
        default_branch=checkout.default_branch if checkout else "",
        failed_at=_time(attempt.attempted_at) if attempt.failures else None,
        next_attempt_at=_time(attempt.next_attempt_at) if is_retried else None,
        refused_commit=attempt.refused_commit or None,
        is_failing=attempt.failures > 0
        and (bool(attempt.refused_commit) or age is None or age > interval),
    )


def _render(failure: Failure) -> str:
    """Return the message with the name of its source, which most have already."""
    name, message = failure.mount.source.name, str(failure.error)
    return message if name in message else f"{name}: {message}"


def _derive_age(checkout: Checkout | None, now: float) -> float | None:
    # A time in the future was written while the clock was wrong.
    return max(0.0, now - checkout.synced_at.timestamp()) if checkout else None


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


# A network that is back after a moment is found at once.
_FIRST_PAUSE_SECONDS = 5.0

# Hosts lock accounts that send a wrong token again and again; a person has to act
# anyway.
_REFUSED_SECONDS = 5 * 60.0


def derive_failure(
    before: Attempt,
    error: SyncError,
    now: float,
    *,
    longest_seconds: float,
    randomness: random.Random,
) -> Attempt:
    """Return the state after a failed sync, with the time of the next attempt.

    Args:
        before: The state until now.
        error: Its code and message are kept, and the pause that the host asks for.
        now: In seconds since the epoch.
        longest_seconds: The longest pause, unless the host asks for a longer one or
            refuses our token.
        randomness: The source of the jitter.
    """
    failures = before.failures + 1
    pause = derive_pause(
        failures,
        first_seconds=_FIRST_PAUSE_SECONDS,
        longest_seconds=longest_seconds,
        asked_seconds=error.retry_after_seconds,
        randomness=randomness,
    )
    if isinstance(error, AccessRefusedError):
        pause = max(pause, _REFUSED_SECONDS)
    return Attempt(
        attempted_at=now,
        failures=failures,
        next_attempt_at=now + pause,
        error_code=error.code,
        error_message=str(error),
    )


def derive_longest_pause(interval_seconds: float | None) -> float:
    """Return the longest pause after failures, by the timer's interval.

    >>> derive_longest_pause(60.0), derive_longest_pause(None)
    (60.0, 900.0)
    """
    return min(interval_seconds or LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
