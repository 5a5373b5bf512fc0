"""From the remote's commit to a published folder, past every gate on the way.

Rule 1: whatever fails, what was published stays published.
Rule 2: nothing is published before all have let it pass: the limits, its descent, its
signature, and whether its skills can be read.
"""

import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from skills_mcp.content.disk import explained
from skills_mcp.content.git.failures import DamagedStoreError
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.git.repository import Fetched, GitRepository
from skills_mcp.content.git.signatures import verify
from skills_mcp.content.git.tree_listing import TreeListing
from skills_mcp.content.source import Attempt, Checkout, Freshness, LeftOut, recall
from skills_mcp.content.store.export import export, repair
from skills_mcp.content.store.pointer import Current
from skills_mcp.content.store.snapshot_store import SnapshotStore
from skills_mcp.content.store.sync_state import (
    derive_failure,
    derive_success,
    is_resting,
)
from skills_mcp.content.sync_policy import SyncPolicy
from skills_mcp.errors import (
    HistoryRewrittenError,
    SyncError,
    UnreadableContentError,
)
from skills_mcp.files.durable import made_anew

logger = logging.getLogger(__name__)

_RANDOMNESS = random.Random()  # noqa: S311 - spreads load, guards nothing

Inspect = Callable[[Checkout], None]
"""Reads a commit before it is published, see `source.Accept`."""


class Delivery:
    """Brings commits of one repository into its store, one after the other.

    Every method but `verify` wants the store's lock to be held.
    """

    def __init__(
        self,
        remote: Remote,
        store: SnapshotStore,
        repository: GitRepository,
        policy: SyncPolicy,
    ) -> None:
        self._remote = remote
        self._store = store
        self._repository = repository
        self._policy = policy
        self._refused: dict[str, SyncError] = {}
        self.doing = ""
        """See `RemoteBranch.doing`."""
        self.attempt = Attempt()
        """How the last failure of ours went: a full disk has no memory of its own."""

    def run(self, lock: IO[Any], freshness: Freshness, inspect: Inspect) -> None:
        """Publish what the remote has, unless what is known will do.

        Raises:
            SyncError: What was published stays published.
        """
        current, pointer = self._store.current(), self._store.pointer()
        if pointer and pointer.hold:
            # Not to be replaced by what was taken back, whatever became of its files.
            self._restore_held(pointer)
            return
        now, attempt = time.time(), self.last_attempt()
        # A time to come was written while the clock was wrong; it proves nothing.
        if current and freshness.newer_than <= current.fetched_at <= now:
            return
        if attempt.failures and _spares_remote(attempt, freshness, now):
            self.mend(current)
            raise recall(attempt) or SyncError("the last sync failed")
        try:
            with explained(self._store.directory):
                self._store.publish(self._fetch(lock, inspect, pointer, now))
        except SyncError as error:
            self._fail(error, attempt, now, freshness.longest_pause_seconds)
            self._tidy(lock)
            self.mend(current)
            raise
        self.attempt = Attempt()
        self._clean(lock, now)

    def last_attempt(self) -> Attempt:
        """Return how the last sync went, of whichever process on this machine."""
        last = max(self._store.attempt(), self.attempt, key=lambda it: it.attempted_at)
        with suppress(SyncError):
            pointer = self._store.pointer()
            if pointer and last.attempted_at < pointer.fetched_at <= time.time():
                # Who has published it died, or found no room, before it could say so.
                return derive_success(pointer.fetched_at)
        return last

    def _restore_held(self, held: Current) -> None:
        """Bring back what somebody has deleted of a commit that is held."""
        if not self._is_gone(held.commit):
            self.mend(held)
            return
        try:
            self._write(held.commit, None)
        except DamagedStoreError as error:
            raise SyncError(
                f"{self._remote}: {held.commit} is held, and its files are lost. Run "
                "`skills-mcp rollback --resume` to follow the repository again"
            ) from error

    def _fetch(
        self, lock: IO[Any], inspect: Inspect, before: Current | None, now: float
    ) -> Current:
        """Return what to publish; a damaged store is made anew once."""
        try:
            staged = self._stage(lock, before, now)
        except DamagedStoreError as error:
            logger.info("Making Git's store anew: %s", error)
            # The cause may be the remote after all, and then the old one is as good.
            with made_anew(self._store.objects):
                staged = self._stage(lock, before, now)
        if before and before.commit == staged.commit:
            return replace(staged, previous=before.previous)
        self._inspect(staged, inspect)
        return staged

    def _stage(self, lock: IO[Any], before: Current | None, now: float) -> Current:
        """Bring the remote's commit into a folder, if it passes.

        Args:
            lock: The store's.
            before: What the pointer says, whatever has become of the files.
            now: In seconds since the epoch.
        """
        served = before.commit if before else None
        known = None if self._policy.allow_non_fast_forward else served
        self.doing = "Asking the repository"
        fetched = self._repository.fetch(
            lock,
            timeout_seconds=self._policy.timeout_seconds,
            known=known,
            served=served,
            on_progress=self._tell,
        )
        commit = fetched.commit
        if refused := self._refused.get(commit):
            raise refused.with_traceback(None)
        if known and not self._repository.is_ancestor(known, commit):
            raise HistoryRewrittenError(
                f"{self._remote}: {commit} does not descend from {known}, which is "
                "served on. If the change is right, run `skills-mcp sync "
                "--allow-rewrite` once, or set sync.allow_non_fast_forward to true"
            )
        verified_by = self._verify(fetched)
        self._write(commit, served)
        is_gone = before is not None and self._is_gone(before.commit)
        previous = before.previous if before and is_gone else served
        return Current(commit, now, verified_by, previous)

    def _write(self, commit: str, served: str | None) -> None:
        listing = self._list(commit)
        if not self._is_gone(commit):
            self._repair(listing, commit)
            self._store.revise(commit, listing.left_out)
            return

        def fill(folder: Path) -> tuple[LeftOut, ...]:
            previous = self._find_previous(served)
            export(listing, self._repository, folder, previous, self._count)
            return listing.left_out

        self._store.stage(commit, fill)

    def _inspect(self, staged: Current, inspect: Inspect) -> None:
        """Read a commit before anybody is served from it."""
        self.doing = "Reading the skills"
        checkout = self._store.open_commit(staged.commit, staged)
        if checkout is None:
            raise SyncError("the commit was deleted by somebody else")
        try:
            inspect(checkout)
        except UnreadableContentError as error:
            self._refused = {staged.commit: error}
            # As long as its traceback knows the checkout, nobody may delete it.
            del checkout
            raise error.with_traceback(None) from None

    def verify(self, commit: str) -> str | None:
        """Look again who has signed a commit that was let through before.

        None if nobody has to.

        Raises:
            SignatureError: Nobody has who is trusted now.
        """
        if self._policy.signers is None:
            return None
        return self._verify(Fetched(commit, self._repository.find_object(commit)))

    def _verify(self, fetched: Fetched) -> str | None:
        if self._policy.signers is None:
            return None
        return verify(
            self._repository.git,
            self._policy.signers,
            commit=fetched.commit,
            object=fetched.object,
            tag="" if self._remote.commit else self._remote.pin,
        )

    def mend(self, current: Current | None) -> None:
        """Put right what somebody has done to the files that are served on."""
        if current is None:
            return
        with suppress(SyncError, OSError):  # the next fetch brings what it takes
            self._repair(self._list(current.commit), current.commit)

    def _repair(self, listing: TreeListing, commit: str) -> None:
        for file in repair(listing, self._repository, self._store.folder(commit)):
            logger.warning("%r was not as commit %s has it; it is again", file, commit)

    def _find_previous(self, served: str | None) -> tuple[TreeListing, Path] | None:
        """Return what unchanged files can be taken from."""
        if served is None or self._is_gone(served):
            return None
        try:
            return self._list(served), self._store.folder(served)
        except SyncError:
            return None  # Git has forgotten it

    def _fail(
        self, error: SyncError, attempt: Attempt, now: float, longest_seconds: float
    ) -> None:
        self.attempt = derive_failure(
            attempt,
            error,
            now,
            longest_seconds=longest_seconds,
            randomness=_RANDOMNESS,
        )
        with suppress(SyncError, OSError):
            self._store.remember(self.attempt)
            self._store.collect()

    def _clean(self, lock: IO[Any], now: float) -> None:
        """Tell the others, and delete what nobody needs; both can wait."""
        try:
            self._store.remember(derive_success(now))
            self._repository.keep(self._store.collect(), lock)
        except DamagedStoreError as error:
            logger.info("Git's store is made anew at the next sync: %s", error)
            self._repository.condemn()
        except (SyncError, OSError) as error:
            logger.debug("Not cleaned up: %s", error)

    def _tidy(self, lock: IO[Any]) -> None:
        """Let Git forget what was fetched and refused, when it is time."""
        with suppress(SyncError, OSError):
            self._repository.collect(lock)

    def _is_gone(self, commit: str) -> bool:
        return commit not in self._store.commits()

    def _list(self, commit: str) -> TreeListing:
        return self._repository.list_files(commit, self._policy.subfolders)

    def _tell(self, verb: str, share: float) -> None:
        self.doing = f"{verb} {share:.0%}"

    def _count(self, done: int, total: int) -> None:
        self._tell("Writing files", done / total if total else 1)


def _spares_remote(attempt: Attempt, freshness: Freshness, now: float) -> bool:
    """Whether a failure that is known already will do."""
    is_answer = freshness.newer_than <= attempt.attempted_at <= now
    return is_answer or (not freshness.is_urgent and is_resting(attempt, now))
