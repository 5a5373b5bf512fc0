"""What a source of content promises, whichever it is."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from skills_mcp.errors import SyncError
from skills_mcp.skills.model import Scope

Mode = Literal["local", "git"]

TOP = "."
"""As a `subfolder`: the source itself, and not the `skills/` that it may have."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Checkout:
    """One revision of the content: complete, and not about to change."""

    directory: Path
    """The top of the content, as its authors see it."""
    revision: str | None
    """The commit, or None for a plain folder."""
    synced_at: datetime
    """When this was last known to be the newest there is."""
    left_out: tuple[str, ...] = ()
    """Files of the revision that are not in the directory, see `git.Listing`."""


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

    def published(self) -> Checkout | None:
        """Return what is here already, without touching any network."""
        ...

    def sync(self) -> Checkout | None:
        """Bring the newest content here and return it.

        None says that there is nothing, and that this is no failure.

        Raises:
            SyncError: It could not be had. What was published stays published.
        """
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
    def error(self) -> SyncError | None:
        """What some sources could not do, each with its name; None if all could."""
        if not self.failures:
            return None
        said = dict.fromkeys(map(_render, self.failures))
        return SyncError("; ".join(text.rstrip(".") for text in said))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """What one source offers, and how its last sync ended."""

    mount: str
    """Where its skills stand; empty for the top."""
    name: str
    mode: Mode
    commit: str | None
    synced_at: datetime | None
    error: SyncError | None


def _render(failure: Failure) -> str:
    """Return the message; most of them name their source already."""
    name, message = failure.mount.source.name, str(failure.error)
    return message if name in message else f"{name}: {message}"
