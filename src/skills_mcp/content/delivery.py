"""From the remote's commit to a published folder: fetch, check, export, publish.

Rule 1: after any failure the published commit stays published.
Rule 2: a commit is published only after all checks: the limits, its descent, its
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
from skills_mcp.content.git.failures import DamagedStoreError, advise_pin
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.git.repository import Fetched, GitRepository
from skills_mcp.content.git.signatures import verify
from skills_mcp.content.git.tree_listing import TreeListing
from skills_mcp.content.source import (
    Attempt,
    Checkout,
    EndingError,
    Freshness,
    Surveyed,
    derive_failure,
    recall,
)
from skills_mcp.content.store.exported_files import export, repair
from skills_mcp.content.store.pointer import Current
from skills_mcp.content.store.snapshot_store import ClaimLostError, SnapshotStore
from skills_mcp.content.sync_policy import SyncPolicy
from skills_mcp.errors import (
    HistoryRewrittenError,
    LimitExceededError,
    SignatureError,
    SyncError,
    UnreadableContentError,
)
from skills_mcp.files.durable import made_anew
from skills_mcp.processes.retry import is_resting

logger = logging.getLogger(__name__)

_RANDOMNESS = random.Random()  # noqa: S311 - spreads load, guards nothing

# A hundred lines more say nothing more.
_MOST_LOGGED = 10

# They are about a commit, and not about the way to it.
_REFUSALS = (
    HistoryRewrittenError,
    LimitExceededError,
    SignatureError,
    UnreadableContentError,
)

Inspect = Callable[[Checkout], None]
"""Reads a commit before it is published, see `source.Accept`."""


class Delivery:
    """Brings commits of one repository into its store, one after the other.

    The caller of each method but `verify` and `last_attempt` holds the store's lock.
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
        self._newest = ""
        """The commit of the last fetch; empty until there is one."""
        self.doing = ""
        """See `RemoteBranch.doing`."""
        self.attempt = Attempt()
        """The last failure of this process, which a full disk cannot store."""

    def run(self, lock: IO[Any], freshness: Freshness, inspect: Inspect) -> None:
        """Publish the remote's commit, unless the published one is fresh enough.

        Raises:
            SyncError: What was published stays published.
        """
        current, pointer = self._store.current(), self._store.pointer()
        if pointer and pointer.hold:
            # A held commit is never replaced, even if its files are gone.
            self._restore_held(pointer)
            return
        now, attempt = time.time(), self.last_attempt()
        # A time in the future was written while the clock was wrong; it proves nothing.
        if current and freshness.newer_than <= current.fetched_at <= now:
            return
        if attempt.failures and _spares_remote(attempt, freshness, now):
            self.mend(current)
            raise recall(attempt) or SyncError("the last sync failed")
        try:
            with explained(self._store.directory):
                self._store.publish(self._fetch(lock, inspect, pointer, now))
        except (EndingError, ClaimLostError):
            raise  # another process may ask the remote at once, or does so already
        except SyncError as error:
            self._fail(error, attempt, now, freshness.longest_pause_seconds)
            self._tidy(lock)
            self.mend(current)
            raise
        self.attempt = Attempt()
        self._clean(lock, now)

    def bring(self, commit: str, lock: IO[Any], inspect: Inspect) -> Current:
        """Fetch one commit, and return what to publish.

        Raises:
            SyncError: It is not there, or not one that may be served.
        """
        remote = replace(self._remote, pin=commit)
        if remote.commit is None:
            raise SyncError(f"{self._remote}: {advise_pin(commit)}")
        if self._policy.is_offline:
            raise SyncError(
                f"{self._remote}: {commit} is not on this machine, and sync.offline is "
                "on. Leave out --offline to fetch it"
            )
        pinned = GitRepository(self._store.objects, remote, self._policy)
        with explained(self._store.directory):
            staged = self._stage(lock, None, time.time(), pinned)
            self._inspect(staged, inspect)
        return staged

    def last_attempt(self) -> Attempt:
        """Return how the last sync went, in any process on this machine."""
        last = max(self._store.attempt(), self.attempt, key=lambda it: it.attempted_at)
        with suppress(SyncError):
            pointer = self._store.pointer()
            if pointer and last.attempted_at < pointer.fetched_at <= time.time():
                # The process that published it died, or found the disk full, before it
                # could write its state.
                return Attempt(attempted_at=pointer.fetched_at)
        return last

    def _restore_held(self, held: Current) -> None:
        """Write again the deleted files of a commit that is held."""
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
        """Return what to publish; a damaged store is replaced once."""
        try:
            staged = self._stage(lock, before, now)
        except DamagedStoreError as error:
            self._store.require_claim()
            logger.info("Replacing the store of Git: %s", error)
            # The cause may be the remote after all; then the old store comes back.
            with made_anew(self._store.objects):
                staged = self._stage(lock, before, now)
        if before and before.commit == staged.commit:
            return replace(staged, previous=before.previous)
        self._inspect(staged, inspect)
        return staged

    def _stage(
        self,
        lock: IO[Any],
        before: Current | None,
        now: float,
        repository: GitRepository | None = None,
    ) -> Current:
        """Bring the remote's commit into a folder, if it passes the checks.

        Args:
            lock: The store's.
            before: What the pointer says; its files may be gone.
            now: In seconds since the epoch.
            repository: Another than the one that is followed, over the same store.
        """
        served = before.commit if before else None
        known = None if self._policy.allow_non_fast_forward else served
        self.doing, self._newest = "Asking the repository", ""
        fetched = (repository or self._repository).fetch(
            lock,
            timeout_seconds=self._policy.timeout_seconds,
            known=known,
            served=served,
            on_progress=self._tell,
        )
        commit = self._newest = fetched.commit
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
        return Current(
            commit, now, verified_by, previous, default_branch=fetched.default_branch
        )

    def _write(self, commit: str, served: str | None) -> None:
        listing = self._list(commit)
        if not self._is_gone(commit):
            self._repair(listing, commit)
            self._store.revise(commit, listing.surveyed)
            return

        def fill(folder: Path) -> Surveyed:
            previous = self._find_previous(served)
            export(listing, self._repository, folder, previous, self._count)
            return listing.surveyed

        self._store.stage(commit, fill)
        self._store.mark_checked(commit)  # each file was written, or compared

    def _inspect(self, staged: Current, inspect: Inspect) -> None:
        """Read a commit before it is served."""
        self.doing = "Reading the skills"
        checkout = self._store.open_commit(staged.commit, staged)
        if checkout is None:
            raise SyncError("the commit was deleted by another program")
        try:
            inspect(checkout)
        except UnreadableContentError as error:
            self._refused = {staged.commit: error}
            # While its traceback refers to the checkout, the commit cannot be deleted.
            del checkout
            raise error.with_traceback(None) from None

    def verify(self, commit: str) -> str | None:
        """Check the signature of a commit again, and return its signer.

        None if no signature is needed.

        Raises:
            SignatureError: Its signer is not trusted now, or there is none.
        """
        if self._policy.signers is None:
            return None
        return self._verify(Fetched(commit, self._repository.refs.find_object(commit)))

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

    def mend(self, current: Current | None, *, by_content: bool = False) -> None:
        """Repair the files of the published commit that were changed on disk.

        Args:
            current: The published commit.
            by_content: Whether each file is read, and compared with Git.
        """
        if current is None:
            return
        with suppress(SyncError, OSError):  # the next fetch brings what is missing
            listing = self._list(current.commit)
            self._repair(listing, current.commit, by_content=by_content)
            if by_content:
                self._store.mark_checked(current.commit)

    def _repair(
        self, listing: TreeListing, commit: str, *, by_content: bool = False
    ) -> None:
        folder = self._store.folder(commit)
        wrong = repair(listing, self._repository, folder, by_content=by_content)
        for file in wrong[:_MOST_LOGGED]:
            logger.warning("%r differed from commit %s; it is repaired", file, commit)
        if others := len(wrong[_MOST_LOGGED:]):
            logger.warning("%d more files differed; they are repaired", others)

    def _find_previous(self, served: str | None) -> tuple[TreeListing, Path] | None:
        """Return the commit and the folder that unchanged files are linked from."""
        if served is None or self._is_gone(served):
            return None
        try:
            entries = self._repository.list_files(served)
            return TreeListing(entries), self._store.folder(served)
        except SyncError:
            return None  # Git has deleted it

    def _fail(
        self, error: SyncError, attempt: Attempt, now: float, longest_seconds: float
    ) -> None:
        failed = derive_failure(
            attempt,
            error,
            now,
            longest_seconds=longest_seconds,
            randomness=_RANDOMNESS,
        )
        refused = self._newest if isinstance(error, _REFUSALS) else ""
        self.attempt = replace(failed, refused_commit=refused)
        with suppress(SyncError, OSError):
            self._store.remember(self.attempt)
            self._store.collect()

    def _clean(self, lock: IO[Any], now: float) -> None:
        """Write the state, and collect garbage; a failure of either does no harm."""
        try:
            self._store.remember(Attempt(attempted_at=now))
            self._repository.refs.keep(self._store.collect(), lock)
        except DamagedStoreError as error:
            logger.info("The next sync replaces the store of Git: %s", error)
            self._repository.condemn()
        except (SyncError, OSError) as error:
            logger.debug("Not cleaned up: %s", error)

    def _tidy(self, lock: IO[Any]) -> None:
        """Collect what was fetched and refused, if there is enough garbage."""
        with suppress(SyncError, OSError):
            self._repository.refs.collect(lock)

    def _is_gone(self, commit: str) -> bool:
        return commit not in self._store.commits()

    def _list(self, commit: str) -> TreeListing:
        return self._repository.list_served(commit)

    def _tell(self, verb: str, share: float) -> None:
        self.doing = f"{verb} {share:.0%}"

    def _count(self, done: int, total: int) -> None:
        self._tell("Writing files", done / total if total else 1)


def _spares_remote(attempt: Attempt, freshness: Freshness, now: float) -> bool:
    """Whether the last failure is recent enough, or its pause is not over."""
    if freshness.newer_than <= attempt.attempted_at <= now:
        return True
    return not freshness.is_urgent and is_resting(attempt.next_attempt_at, now)
