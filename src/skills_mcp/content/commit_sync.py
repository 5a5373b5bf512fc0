"""One sync of a repository: fetch, check, export, publish.

Rule 1: after any failure the published commit stays published.
Rule 2: a commit is published only after all checks: limits, ancestry, signature, and
readability of its skills.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from skills_mcp.content import source
from skills_mcp.content.commit_store import CommitStore, LockLostError, PublishedCommit
from skills_mcp.content.exported_files import export_files, repair_files
from skills_mcp.content.git.diagnostics import DamagedStoreError, advise_pin
from skills_mcp.content.git.object_store import TreeListing
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.git.repository import FetchResult, GitRepository
from skills_mcp.content.git.signatures import verify_signature
from skills_mcp.errors import (
    HistoryRewrittenError,
    LimitExceededError,
    PowersExceededError,
    RemoteMissingError,
    SignatureError,
    SkillsRemovedError,
    SyncError,
    UnreadableContentError,
)
from skills_mcp.files.durable import replaced_with_rollback
from skills_mcp.processes.retry import is_backing_off

logger = logging.getLogger(__name__)

# A hundred lines more say nothing more.
_MAX_LOGGED = 10

# They are about a commit, and not about the way to it.
_REFUSALS = (
    HistoryRewrittenError,
    LimitExceededError,
    PowersExceededError,
    SignatureError,
    SkillsRemovedError,
    UnreadableContentError,
)

InspectCommit = Callable[[source.Checkout], source.Loss | None]


class CommitSync:
    """Syncs one repository into its store.

    All methods except `verify` require the store's lock.
    """

    def __init__(
        self,
        remote: Remote,
        store: CommitStore,
        repository: GitRepository,
        policy: source.SyncPolicy,
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

    def run(
        self,
        lock: IO[Any],
        freshness: source.Freshness,
        inspect: InspectCommit,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        """Publish the remote's commit, unless the published one is fresh enough.

        `prepare` is called before a fetch, and may raise as it does.

        Raises:
            SyncError: The sync failed; the published commit stays published.
        """
        current, pointer = self._store.current(), self._store.pointer()
        if pointer and pointer.hold:
            # A held commit is never replaced, even if its files are gone.
            self._restore_rolled_back(pointer)
            return
        now, attempt = time.time(), self._store.attempt()
        # A time in the future was written while the clock was wrong; it proves nothing.
        if current and freshness.newer_than <= current.fetched_at <= now:
            return
        if attempt.failures and _is_backing_off(attempt, freshness, now):
            self.repair_published(current)
            raise source.derive_last_error(attempt) or SyncError("the last sync failed")
        try:
            with source.translate_disk_errors(self._store.directory):
                prepare()
                self._store.publish(self._fetch(lock, inspect, pointer, now))
        except (source.ShutdownError, LockLostError):
            raise  # another process may ask the remote at once, or does so already
        except SyncError as error:
            self._record_failure(error, attempt, now, freshness.longest_pause_seconds)
            with suppress(SyncError, OSError):
                self._repository.refs.collect_garbage(lock)
            self.repair_published(current)
            raise
        self._record_success(lock, now)

    def fetch_commit(self, commit: str, lock: IO[Any], inspect: InspectCommit) -> PublishedCommit:
        """Fetch and check one commit, without publishing it.

        Raises:
            SyncError: It does not exist, or may not be served.
        """
        remote = replace(self._remote, pin=commit)
        if remote.commit is None:
            raise RemoteMissingError(f"{remote}: {advise_pin(commit)}")
        if self._policy.is_offline:
            raise SyncError(
                f"{self._remote}: {commit} is not on this machine, and sync.offline is "
                "on. Leave out --offline to fetch it"
            )
        pinned = GitRepository(self._store.objects, remote, self._policy)
        with source.translate_disk_errors(self._store.directory):
            staged = self._stage(lock, None, time.time(), pinned)
            self._inspect(staged, inspect)
        return staged

    def _restore_rolled_back(self, pointer: PublishedCommit) -> None:
        if self._store.is_complete(pointer.commit):
            self.repair_published(pointer)
            return
        try:
            self._write(pointer.commit, None)
        except DamagedStoreError as error:
            raise SyncError(
                f"{self._remote}: {pointer.commit} is held, and its files are lost. Run "
                "`skills-mcp rollback --resume` to follow the repository again"
            ) from error

    def _fetch(
        self,
        lock: IO[Any],
        inspect: InspectCommit,
        before: PublishedCommit | None,
        now: float,
    ) -> PublishedCommit:
        try:
            staged = self._stage(lock, before, now)
        except DamagedStoreError as error:
            self._store.require_lock()
            logger.info("Replacing the store of Git: %s", error)
            # The cause may be the remote after all; then the old store comes back.
            with replaced_with_rollback(self._store.objects):
                staged = self._stage(lock, before, now)
        if before and before.commit == staged.commit:
            return replace(staged, previous=before.previous, loss=before.loss)
        staged = replace(staged, loss=before.loss if before else None)
        return replace(staged, loss=self._inspect(staged, inspect))

    def _stage(
        self,
        lock: IO[Any],
        before: PublishedCommit | None,
        now: float,
        repository: GitRepository | None = None,
    ) -> PublishedCommit:
        """Export the remote's commit after all checks; `before` may lack its files."""
        served = before.commit if before else None
        known = None if self._policy.allow_non_fast_forward else served
        self.doing, self._newest = "Asking the repository", ""
        fetched = (repository or self._repository).fetch(
            lock,
            timeout_seconds=self._policy.timeout_seconds,
            known=known,
            served=served,
            on_progress=self._report_progress,
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
        is_gone = before is not None and not self._store.is_complete(before.commit)
        previous = before.previous if before and is_gone else served
        return PublishedCommit(
            commit, now, verified_by, previous, default_branch=fetched.default_branch
        )

    def _write(self, commit: str, served: str | None) -> None:
        listing = self._repository.list_served(commit)
        if self._store.is_complete(commit):
            self._repair(listing, commit)
            self._store.replace_survey(commit, listing.surveyed)
            return

        def fill(folder: Path) -> source.Surveyed:
            previous = self._find_previous(served)
            export_files(listing, self._repository, folder, previous, self._report_files)
            return listing.surveyed

        self._store.stage(commit, fill)
        self._store.mark_checked(commit)  # each file was written, or compared

    def _inspect(self, staged: PublishedCommit, inspect: InspectCommit) -> source.Loss | None:
        self.doing = "Reading the skills"
        checkout = self._store.open_commit(staged.commit, staged)
        if checkout is None:
            raise SyncError("the commit was deleted by another program")
        try:
            return inspect(checkout)
        except (PowersExceededError, SkillsRemovedError, UnreadableContentError) as error:
            if not isinstance(error, SkillsRemovedError):
                self._refused = {staged.commit: error}
            # While its traceback refers to the checkout, the commit cannot be deleted.
            del checkout
            raise error.with_traceback(None) from None

    def verify(self, commit: str) -> str | None:
        """Verify the signature of a commit again; None if no signature is required.

        Raises:
            SignatureError: Its signer is not trusted now, or there is none.
        """
        if self._policy.signers is None:
            return None
        return self._verify(FetchResult(commit, self._repository.refs.find_object(commit)))

    def _verify(self, fetched: FetchResult) -> str | None:
        if self._policy.signers is None:
            return None
        return verify_signature(
            self._repository.git,
            self._policy.signers,
            commit=fetched.commit,
            object=fetched.object,
            tag="" if self._remote.commit else self._remote.pin,
        )

    def repair_published(
        self, current: PublishedCommit | None, *, by_content: bool = False
    ) -> bool:
        """Repair edited files of the published commit, optionally by content.

        False if they could not be compared or written.
        """
        if current is None:
            return False
        with suppress(SyncError, OSError):  # the next fetch brings what is missing
            listing = self._repository.list_served(current.commit)
            self._repair(listing, current.commit, by_content=by_content)
            if by_content:
                self._store.mark_checked(current.commit)
            return True
        return False

    def _repair(self, listing: TreeListing, commit: str, *, by_content: bool = False) -> None:
        folder = self._store.folder(commit)
        wrong = repair_files(listing, self._repository, folder, by_content=by_content)
        for file in wrong[:_MAX_LOGGED]:
            logger.warning("%r differed from commit %s; it is repaired", file, commit)
        if others := len(wrong[_MAX_LOGGED:]):
            logger.warning("%d more files differed; they are repaired", others)

    def _find_previous(self, served: str | None) -> tuple[TreeListing, Path] | None:
        if served is None or not self._store.is_complete(served):
            return None
        try:
            entries = self._repository.list_files(served)
            return TreeListing(entries), self._store.folder(served)
        except SyncError:
            return None  # Git has deleted it

    def _record_failure(
        self, error: SyncError, attempt: source.SyncAttempt, now: float, longest_seconds: float
    ) -> None:
        failed = source.derive_failure(attempt, error, now, longest_seconds=longest_seconds)
        refused = self._newest if isinstance(error, _REFUSALS) else ""
        with suppress(SyncError, OSError):
            self._store.save_attempt(replace(failed, refused_commit=refused))
            self._store.delete_unreferenced()

    def _record_success(self, lock: IO[Any], now: float) -> None:
        """Save the state and collect garbage; a failure of either is harmless."""
        try:
            self._store.save_attempt(source.SyncAttempt(attempted_at=now))
            self._repository.refs.retain(self._store.delete_unreferenced(), lock)
        except DamagedStoreError as error:
            logger.info("The next sync replaces the store of Git: %s", error)
            self._repository.mark_damaged()
        except (SyncError, OSError) as error:
            logger.debug("Not cleaned up: %s", error)

    def _report_progress(self, verb: str, share: float) -> None:
        self.doing = f"{verb} {share:.0%}"

    def _report_files(self, done: int, total: int) -> None:
        self._report_progress("Writing files", done / total if total else 1)


def _is_backing_off(attempt: source.SyncAttempt, freshness: source.Freshness, now: float) -> bool:
    """Whether the last failure is recent enough, or its back-off has not elapsed."""
    if freshness.newer_than <= attempt.attempted_at <= now:
        return True
    return not freshness.is_urgent and is_backing_off(attempt.next_attempt_at, now)
