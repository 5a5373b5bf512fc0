"""What a source of content promises, whichever it is."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

Mode = Literal["local", "git"]


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

    def sync(self) -> Checkout:
        """Bring the newest content here and return it.

        Raises:
            SyncError: It could not be had. What was published stays published.
        """
        ...

    def count_changes(self, before: Checkout | None, after: Checkout) -> int:
        """Return how many files differ between two checkouts of this source."""
        ...

    def close(self) -> None:
        """Give up: end a sync that is running, and start none any more."""
        ...
