"""A source that is as far away as a test says."""

import math
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import Checkout, CommitCheck, Freshness, SyncAttempt
from skills_mcp.errors import SyncError
from tests.support import PATIENCE_SECONDS


def checkout_of(revision: str | None, directory: Path | None = None) -> Checkout:
    """Return a commit that was synced just now."""
    return Checkout(directory or Path("/nowhere"), revision, datetime.now(UTC))


class FakeSource(RemoteBranch):
    """A repository without Git, network and disk.

    Args:
        name: What a log calls it.
        outcome: How every sync ends.
    """

    doing = ""

    def __init__(
        self, name: str = "the source", outcome: Checkout | Exception | None = None
    ) -> None:
        super().__init__(Remote(name, "main"), Path("/nowhere"))
        self.name = name
        self.outcome = outcome
        self.here: Checkout | None = None
        """What any process has published."""
        self.last_attempt = SyncAttempt()
        self.due_at = math.inf
        """The answer of `next_sync_at`."""
        self.intervals: list[float | None] = []
        """What `next_sync_at` was asked with."""
        self.asked: list[Freshness] = []
        """What each sync was asked for, also one that is running."""
        self.is_closed = False

    @property
    def syncs(self) -> int:
        return len(self.asked)

    def open(self) -> Checkout | None:
        self._seen = self.here
        return self.here

    def sync(self, freshness: Freshness, accept: CommitCheck) -> Checkout:
        self.asked.append(freshness)
        outcome = self._await_outcome()
        if isinstance(outcome, Exception):
            raise outcome
        assert outcome is not None
        if outcome is not self.here:
            accept(self, outcome)
        self.here = self._seen = outcome
        return outcome

    def attempt(self) -> SyncAttempt:
        return self.last_attempt

    def next_sync_at(self, interval_seconds: float | None) -> float:
        self.intervals.append(interval_seconds)
        return self.due_at

    def has_update(self) -> bool:
        return self.here is not self._seen

    def is_check_due(self) -> bool:
        return False

    def content_ids(self, checkout: Checkout) -> Mapping[str, str]:
        """Return ten files, of which each revision changes the first."""
        same = {f"{number}.md": "same" for number in range(1, 10)}
        return {"0.md": str(checkout.revision), **same}

    def close(self) -> None:
        self.is_closed = True

    def _await_outcome(self) -> Checkout | Exception | None:
        return self.outcome


class ScriptedSource(FakeSource):
    """A source whose every sync waits for the test to say how it ends."""

    def __init__(self, here: Checkout | None = None, name: str = "the source") -> None:
        super().__init__(name)
        self.here = here
        self._outcomes: list[Checkout | Exception] = []
        self._go = threading.Semaphore(0)

    def finish(self, outcome: Checkout | Exception) -> None:
        """Let one sync end like this."""
        self._outcomes.append(outcome)
        self._go.release()

    def close(self) -> None:
        super().close()
        for _ in range(50):
            self._go.release()

    def _await_outcome(self) -> Checkout | Exception:
        self._go.acquire(timeout=PATIENCE_SECONDS)
        return self._outcomes.pop(0) if self._outcomes else SyncError("closed")


class MeetingSource(FakeSource):
    """A source whose sync ends only while another one is syncing, too."""

    def __init__(self, name: str, meet: Callable[[], object]) -> None:
        super().__init__(name, checkout_of(name))
        self._meet = meet

    def _await_outcome(self) -> Checkout | Exception | None:
        self._meet()
        return super()._await_outcome()
