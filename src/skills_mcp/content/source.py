"""What a source of content promises, whichever it is."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from skills_mcp.errors import SyncError
from skills_mcp.skills.model import Scope

Mode = Literal["local", "git"]

_ERRORS = SyncError.__module__

TOP = "."
"""As a `subfolder`: the source itself, and not the `skills/` that it may have."""


LeftOutKind = Literal["link", "submodule", "name", "collision", "size"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file of a commit that is not written to a disk, and why."""

    file: str
    kind: LeftOutKind


LONGEST_PAUSE_SECONDS = 15 * 60.0
"""A remote that fails is asked again after this long, or a repaired network would be
found late; sooner where the timer is quicker."""


@dataclass(frozen=True, slots=True)
class Demand:
    """How new content has to be for a sync not to ask the remote."""

    newer_than: float
    """In seconds since the epoch: what was fetched since then will do."""
    is_urgent: bool = False
    """Whether the remote is asked although it was promised a rest."""
    longest_pause_seconds: float = LONGEST_PAUSE_SECONDS
    """If it fails, how long it is left alone at most."""


ANYTHING = Demand(0.0)
"""Whatever is here will do."""


@dataclass(frozen=True, slots=True)
class Hold:
    """An older commit is served until somebody says otherwise."""

    since: float
    """In seconds since the epoch."""
    instead_of: str
    """The commit that was taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """How the last syncs of a source went, on this machine, by whichever process."""

    attempted_at: float = 0.0
    """In seconds since the epoch; 0 if there was none."""
    failures: int = 0
    """In a row."""
    next_attempt_at: float = 0.0
    """When the remote may be asked again without being told to."""
    error_code: str = ""
    error_message: str = ""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Checkout:
    """One revision of the content: complete, and not about to change."""

    directory: Path
    """The top of the content, as its authors see it."""
    revision: str | None
    """The commit, or None for a plain folder."""
    synced_at: datetime
    """When this was last known to be the newest there is."""
    left_out: tuple[LeftOut, ...] = ()
    """Files of the revision that are not in the directory."""
    verified_by: str | None = None
    """Who has signed it, if that was checked."""
    hold: Hold | None = None
    """Whether somebody has gone back to it."""


Accept = Callable[["ContentSource", Checkout], None]
"""Reads a commit before it is published.

Raises:
    SyncError: It cannot be served.
"""


class ContentSource(Protocol):
    """Brings content to this machine.  Blocking: call it on a worker thread."""

    @property
    def mode(self) -> Mode:
        """How a person would tell the two kinds apart."""
        ...

    @property
    def name(self) -> str:
        """The folder or repository, fit for a log: without any secret."""
        ...

    @property
    def is_final(self) -> bool:
        """Whether what it offers can never become something else."""
        ...

    @property
    def doing(self) -> str:
        """What a sync is at, such as `Receiving objects 45 %`; empty if it is not."""
        ...

    def published(self) -> Checkout | None:
        """Return what is here already, without touching any network.

        Raises:
            SyncError: It may not be served, or cannot be read.
        """
        ...

    def sync(self, demand: Demand, accept: Accept) -> Checkout | None:
        """Bring content here that is as new as demanded, and return it.

        None says that there is nothing, and that this is no failure.

        Args:
            demand: What will do, so that the remote need not be asked.
            accept: Called with a commit that was not published before.

        Raises:
            SyncError: It could not be had. What was published stays published.
                If the remote failed a moment ago, it is not asked again.
        """
        ...

    def attempt(self) -> Attempt:
        """Return how the last syncs on this machine went."""
        ...

    def next_sync_at(self, interval_seconds: float | None) -> float:
        """Return when it is time to sync again, in seconds since the epoch.

        Infinity if it never is.

        Args:
            interval_seconds: The pause after a success; None without a timer.
        """
        ...

    def has_news(self) -> bool:
        """Whether another process has published since this one has looked."""
        ...

    def go_back(self) -> Checkout:
        """Publish the commit before, and hold it until `follow` is called.

        Raises:
            SyncError: There is none.
        """
        ...

    def follow(self) -> None:
        """Publish what was taken back, and follow the remote again."""
        ...

    def count_changes(self, before: Checkout | None, after: Checkout) -> int:
        """Return how many files differ between two checkouts of this source."""
        ...

    def find_changes(
        self, before: str | None, after: Checkout
    ) -> frozenset[str] | None:
        """Return the files that differ between a revision of this source and another.

        None if nobody can tell: a folder does not remember what it was, and a
        commit may be forgotten.
        """
        ...

    def close(self) -> None:
        """Give up: end a sync that is running, and start none any more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A source, and where its skills stand in the tree."""

    source: ContentSource
    at: str = ""
    """The prefix of its skills' paths, such as `teams/web`; empty for the top."""
    subfolder: str = ""
    """The part of the source that is served; empty for the usual places, see `TOP`."""
    scope: Scope = "org"


@dataclass(frozen=True, slots=True)
class Part:
    """One source's share of the content."""

    mount: Mount
    checkout: Checkout


@dataclass(frozen=True, slots=True)
class Failure:
    """A source that could not be synced.  What it had before is served on."""

    mount: Mount
    error: SyncError


@dataclass(frozen=True, slots=True)
class Content:
    """The newest checkout of every source that has one, in the operator's order."""

    parts: tuple[Part, ...]
    failures: tuple[Failure, ...] = ()

    @property
    def commit(self) -> str | None:
        """What the first source serves, for what is about no skill of any."""
        return self.parts[0].checkout.revision if self.parts else None

    @property
    def error(self) -> SyncError | None:
        """What some sources could not do, each with its name; None if all could."""
        if not self.failures:
            return None
        said = list(dict.fromkeys(map(_render, self.failures)))
        message = "; ".join([*(text.rstrip(".") for text in said[:-1]), said[-1]])
        kinds = {type(failure.error) for failure in self.failures}
        # Several causes have no code in common but that of a sync.
        kind = kinds.pop() if len(kinds) == 1 else SyncError
        is_recalled = any(failure.error.is_recalled for failure in self.failures)
        return kind(message, is_recalled=is_recalled)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """What one source offers, how new that is, and how its last sync ended."""

    mount: str
    """Where its skills stand; empty for the top."""
    name: str
    mode: Mode
    commit: str | None
    synced_at: datetime | None
    error: SyncError | None
    age_seconds: float | None = None
    """How long ago `synced_at` was; None for a folder, which is always of now."""
    is_stale: bool = False
    """Whether more than three intervals passed without success, or nothing is here."""
    verified_by: str | None = None
    """Who has signed the commit, if that was checked."""
    hold: Hold | None = None
    """Whether an older commit is served on purpose."""
    failed_at: datetime | None = None
    next_attempt_at: datetime | None = None


def accept_all(source: ContentSource, checkout: Checkout) -> None:
    """Publish whatever arrives."""


def recall(attempt: Attempt) -> SyncError | None:
    """Return how the last sync failed, if it did, as it was said then."""
    if not attempt.failures:
        return None
    subclasses: list[type[SyncError]] = SyncError.__subclasses__()
    kinds = {kind.code: kind for kind in subclasses if kind.__module__ == _ERRORS}
    kind = kinds.get(attempt.error_code, SyncError)
    return kind(attempt.error_message, is_recalled=True)


def _render(failure: Failure) -> str:
    """Return the message; most of them name their source already."""
    name, message = failure.mount.source.name, str(failure.error)
    return message if name in message else f"{name}: {message}"
