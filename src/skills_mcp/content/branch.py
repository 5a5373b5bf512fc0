"""A Git repository as a source: a followed branch or tag, or a pinned commit."""

import hashlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

from skills_mcp.content.git.remote import DEFAULT_BRANCH, Push, Remote
from skills_mcp.content.source import (
    Checkout,
    CommitCheck,
    Freshness,
    Hold,
    SyncAttempt,
    SyncPolicy,
    accept_any_commit,
    translate_disk_errors,
)
from skills_mcp.errors import SignatureError, SyncError
from skills_mcp.processes.retry import is_backing_off
from skills_mcp.skills.source_layout import DEFAULT_SELECTION, Selection
from skills_mcp.text.rendering import abbreviate_value

if TYPE_CHECKING:  # more modules than the first answer may wait for
    from skills_mcp.content.commit_store import CommitStore, PublishedCommit
    from skills_mcp.content.commit_sync import CommitSync
    from skills_mcp.content.git.proposal import FolderChange, Proposal, TextReplacement
    from skills_mcp.content.git.repository import CommitHistory, GitRepository, RemoteRef

logger = logging.getLogger(__name__)


_DEFAULT_POLICY = SyncPolicy()

# Older versions wrote every file of a repository into a folder of format 1; they would
# bring back what this one leaves out.
_FORMAT = "2"


# How long other bytes may be served than the commit's (docs/explanation/sync.md).
_CHECK_SECONDS = 24 * 60 * 60.0
_CHECK_PAUSE_SECONDS = 60 * 60.0


class _Components(NamedTuple):
    """Lazily imported collaborators of a branch, created at its first use."""

    repository: "GitRepository"
    delivery: "CommitSync"
    history: "CommitHistory"

    @classmethod
    def open(
        cls,
        store: "CommitStore",
        remote: Remote,
        policy: SyncPolicy,
        find_base: Callable[[], str],
    ) -> "_Components":
        from skills_mcp.content.commit_sync import CommitSync
        from skills_mcp.content.git.repository import CommitHistory, GitRepository

        repository = GitRepository(store.objects, remote, policy)
        delivery = CommitSync(remote, store, repository, policy)
        history_git = repository.git.with_directory(store.directory / "history.git")
        return cls(repository, delivery, CommitHistory(history_git, policy, find_base))


class RemoteBranch:
    """A branch or tag, followed with one folder per commit.  Blocking."""

    # 001 §9, DESIGN §3.7 to §3.11

    mode: Literal["git"] = "git"

    def __init__(self, remote: Remote, cache: Path, policy: SyncPolicy = _DEFAULT_POLICY) -> None:
        self._directory = cache / _store_name(remote, policy)
        self._remote = remote
        self._policy = policy
        self._is_pinned = remote.commit is not None
        self._seen: object = None
        self._rests_until = 0.0
        self.name = str(remote)
        self._opened_store: CommitStore | None = None
        self._opened: _Components | None = None
        self._gate = threading.Lock()

    @property
    def _parts(self) -> _Components:
        store = self._store
        with self._gate:
            if self._opened is None:
                self._opened = _Components.open(store, self._remote, self._policy, self._find_base)
            return self._opened

    @property
    def _store(self) -> "CommitStore":
        from skills_mcp.content.commit_store import CommitStore

        with self._gate:  # alone: what is served already needs nothing of Git
            self._opened_store = self._opened_store or CommitStore(self._directory)
            return self._opened_store

    @property
    def _delivery(self) -> "CommitSync":
        return self._parts.delivery

    @property
    def url(self) -> str:
        """Repository URL without credentials."""
        return self._remote.url

    @property
    def doing(self) -> str:
        return self._opened.delivery.doing if self._opened else ""

    def open(self) -> Checkout | None:
        """Open the published commit of this machine, without network access.

        Raises:
            SyncError: It may not be served, or cannot be read.
        """
        self._seen = self._store.stamp()  # before: what comes later is news
        checkout = self._store.open_current(self._find_verifier())
        self._log_default_branch(checkout.default_branch if checkout else "")
        if checkout and not os.access(checkout.directory, os.R_OK | os.X_OK):
            raise SyncError(
                f"{self.name}: no permission to read {checkout.directory}. Give it to "
                "the user who runs this server (chmod -R a+rX)"
            )
        return checkout

    def _find_verifier(self) -> Callable[[str], str | None] | None:
        # A key that was trusted at the fetch may have been revoked since.
        return self._delivery.verify if self._policy.signers else None

    def sync(self, freshness: Freshness, accept: CommitCheck) -> Checkout:
        """Fetch, check, stage and publish the remote's commit.

        A fresh result of another process is reused, and so is its failure: many windows
        at once ask the remote at most twice.

        Raises:
            SyncError: The sync failed; the published commit stays published.
        """
        if self._policy.is_offline:
            self._repair_published()
            return self._require_published()
        if self._is_pinned:
            with suppress(SyncError):  # a fetch may heal what cannot be verified
                if (checkout := self.open()) and self._repair_published():
                    return checkout
        with self._exclusive() as lock:
            self._delivery.run(lock, freshness, partial(accept, self), self._prepare)
        published = self._require_published()
        self._delete_unused_stores()
        return published

    def _prepare(self) -> None:
        """Nothing: a repository is there."""

    def attempt(self) -> SyncAttempt:
        return self._store.attempt()

    def next_sync_at(self, interval_seconds: float | None) -> float:
        """Time of the next sync, in seconds since the epoch; infinity for never.

        After a failure it is the end of the back-off, shared by all processes of this
        machine.
        """
        current, attempt = self._store.current(), self.attempt()
        has_hold = current is not None and current.hold is not None
        if has_hold or self._policy.is_offline or (current and self._is_pinned):
            return math.inf
        now = time.time()
        if attempt.failures:
            return attempt.next_attempt_at if is_backing_off(attempt.next_attempt_at, now) else now
        if interval_seconds is None:
            return math.inf
        last = max(attempt.attempted_at, current.fetched_at if current else 0.0)
        # A time in the future was written while the clock was wrong.
        return last + interval_seconds if last <= now else now

    def is_check_due(self) -> bool:
        """Whether the files' last content check is too old; a failed one counts."""
        if time.monotonic() < self._rests_until:
            return False
        current = self._store.current()
        return current is not None and self._is_unchecked(current)

    def check(self) -> None:
        """Compare served files with Git by content, and repair them; no network."""
        self._rests_until = time.monotonic() + _CHECK_PAUSE_SECONDS
        with suppress(SyncError), self._exclusive():
            if (current := self._store.current()) and self._is_unchecked(current):
                self._delivery.doing = "Comparing files"
                self._delivery.repair_published(current, by_content=True)
        self._delete_unused_stores()  # a pinned or offline source never syncs

    def _is_unchecked(self, current: "PublishedCommit") -> bool:
        return time.time() - self._store.checked_at(current.commit) > _CHECK_SECONDS

    def has_update(self) -> bool:
        """Whether another process has published since the last `open`."""
        return self._store.stamp() != self._seen

    def may_move(self, push: Push) -> bool:
        """Whether this push could have changed the followed ref."""
        return push.may_move(self._remote)

    def roll_back(self, to: str = "", accept: CommitCheck = accept_any_commit) -> Checkout:
        """Publish an earlier commit and hold it until `resume`.

        Raises:
            SyncError: There is none on this machine, or it cannot be fetched.
        """
        with self._exclusive() as lock:
            current = self._store.current()
            held = current.hold if current else None
            if current and held and not to:
                raise SyncError(
                    f"{self.name} is held at {current.commit} already. To hold another "
                    "commit: skills-mcp rollback --to COMMIT. To follow it again: "
                    "skills-mcp rollback --resume"
                )
            earlier = self._find_earlier(current, to)
            if current is None or (earlier is None and not to):
                raise SyncError(
                    f"{self.name}: this machine has no previous commit to go back to. "
                    "Name an older one: skills-mcp rollback --to COMMIT"
                )
            hold = Hold(time.time(), held.instead_of if held else current.commit)
            rolled_back = replace(current, previous=None, hold=hold)
            if earlier is None:
                fetched = self._delivery.fetch_commit(to, lock, partial(accept, self))
                rolled_back = replace(
                    rolled_back, commit=fetched.commit, verified_by=fetched.verified_by
                )
            else:
                verified_by = self._delivery.verify(earlier)
                rolled_back = replace(rolled_back, commit=earlier, verified_by=verified_by)
                self._delivery.repair_published(rolled_back)
            self._store.publish(rolled_back)
        return self._require_published()

    def _find_earlier(self, current: "PublishedCommit | None", to: str) -> str | None:
        if current is None:
            return None
        if not to:
            earlier = current.previous
            return earlier if earlier and self._store.is_complete(earlier) else None
        found = [commit for commit in self._store.commits() if commit.startswith(to.lower())]
        if len(found) > 1:
            raise SyncError(f"Several commits begin with {to}: {', '.join(found)}")
        if found == [current.commit]:
            raise SyncError(f"{self.name} is at {current.commit} already")
        return found[0] if found else None

    def resume(self) -> None:
        """End a rollback: publish the newer commit and follow the remote again.

        Raises:
            SyncError: There is no rollback.
        """
        with self._exclusive():
            pointer = self._store.pointer()  # its files may be lost
            if pointer is None or pointer.hold is None:
                raise SyncError(f"{self.name} is followed already: nothing is held")
            followed = replace(pointer, hold=None)
            newest = pointer.hold.instead_of
            # The reason for the rollback may be that its signer is not trusted now.
            with suppress(SignatureError):
                if self._store.is_complete(newest):
                    followed = replace(
                        followed,
                        commit=newest,
                        verified_by=self._delivery.verify(newest),
                        previous=pointer.commit,
                    )
            self._store.publish(followed)

    def content_ids(self, checkout: Checkout) -> Mapping[str, str]:
        """Map each file to its blob id and mode; empty if Git deleted the commit."""
        with suppress(SyncError):
            if checkout.revision:
                return self._parts.repository.read_content_ids(checkout.revision)
        return {}

    def ask_remote(self, timeout_seconds: float) -> "RemoteRef":
        """Query the remote for its newest commit, without fetching.

        Raises:
            SyncError: It does not answer, or has no such branch, tag or commit.
        """
        return self._parts.repository.ask_remote(timeout_seconds)

    def read_git_version(self) -> str:
        """Read the output of `git version`.

        Raises:
            SyncError: There is no Git, or it is too old.
        """
        return self._parts.repository.git.read_version()

    @property
    def sends_token(self) -> bool:
        return self._remote.sends_token

    def propose(self, change: "FolderChange | TextReplacement") -> "Proposal":
        """Push a change to a new branch; the served content does not change.

        Raises:
            SyncError: The remote refuses it or does not answer, or nothing would
                change.
        """
        from skills_mcp.content.git.proposal import push_change

        if self._policy.is_offline:
            raise SyncError(f"{self.name}: sync.offline is on. Switch it off to push")
        git = self._parts.repository.git
        return push_change(git, self._remote, self._find_base(), change, self._policy)

    def read_trailers(self, key: str, branches: str) -> frozenset[str]:
        """Read the values of a trailer of proposals, merged ones and those with a branch.

        `branches` is what the names of their branches begin with.

        Raises:
            SyncError: The remote does not answer.
        """
        from skills_mcp.content.git.proposal import read_trailers

        git = self._parts.repository.git
        return read_trailers(git, self._remote, self._find_base(), (key, branches), self._policy)

    @property
    def history(self) -> "CommitHistory":
        return self._parts.history

    @property
    def branch(self) -> str:
        """The followed branch; empty for a tag, a commit, or a default branch not yet known."""
        name = self._find_base().removeprefix("refs/heads/")
        return "" if self.is_pinned or name == self._find_base() else name

    def _find_base(self) -> str:
        current = self._store.current()
        default = current.default_branch if current else ""
        return f"refs/heads/{default}" if default else self._remote.requested_ref

    @property
    def is_pinned(self) -> bool:
        return bool(self._remote.pin)

    def close(self) -> None:
        self._parts.repository.git.close()

    def _delete_unused_stores(self) -> None:
        from skills_mcp.content.commit_store import delete_unused_stores

        delete_unused_stores(self._directory.parent, time.time())

    def _log_default_branch(self, default: str) -> None:
        """Log once if the default branch stands in for a missing `main`."""
        name = str(replace(self._remote, branch=default) if default else self._remote)
        if default and name != self.name:
            logger.info(
                "%s has no branch %s: its default branch %s is followed",
                *(self._remote.url, DEFAULT_BRANCH, abbreviate_value(default)),
            )
        self.name = name

    def _repair_published(self) -> bool:
        """Repair edited files; False if that needs a fetch."""
        if self._store.current():
            with suppress(SyncError), self._exclusive():
                return self._delivery.repair_published(self._store.current())
        return True

    @contextmanager
    def _exclusive(self) -> Iterator[IO[Any]]:
        timeout = self._policy.timeout_seconds
        self._delivery.doing = "Waiting for another sync"
        try:
            with (
                translate_disk_errors(self._directory),
                self._store.exclusive(timeout_seconds=timeout) as lock,
            ):
                self._delivery.doing = ""
                yield lock
        finally:
            self._delivery.doing = ""
            self._parts.repository.forget_listings()

    def _require_published(self) -> Checkout:
        if checkout := self.open():
            return checkout
        if self._policy.is_offline:
            raise SyncError(
                f"{self.name} was never synced on this machine, and sync.offline is "
                "on. Run `skills-mcp sync` once with a network"
            )
        raise SyncError("the published commit was deleted by another program")


def _store_name(remote: Remote, policy: SyncPolicy) -> str:
    """Derive the folder name; a named `main` differs from an unnamed one.

    Only for the latter may the default branch stand in.
    """
    followed = f"\0{remote.requested_ref}" if remote.pin else remote.branch
    parts = sorted(_selection_key(part) for part in policy.selections if part != DEFAULT_SELECTION)
    identity = "\0".join((_FORMAT, remote.url, followed, *parts))
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _selection_key(selection: Selection) -> str:
    plugins = ",".join(sorted(selection.plugins))
    everywhere = "everywhere" if selection.everywhere else ""
    return "\0".join(filter(None, (selection.subfolder, everywhere, plugins)))
