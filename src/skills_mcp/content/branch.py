"""A remote Git repository as a source: it follows a branch or tag, or is pinned."""

import hashlib
import logging
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from skills_mcp.content.disk import explained
from skills_mcp.content.git.remote import DEFAULT_BRANCH, Remote
from skills_mcp.content.push import Push
from skills_mcp.content.source import (
    Accept,
    Attempt,
    Checkout,
    Freshness,
    Hold,
    accept_all,
)
from skills_mcp.content.sync_policy import SyncPolicy
from skills_mcp.errors import SignatureError, SyncError
from skills_mcp.processes.retry import is_resting
from skills_mcp.skills.homes import WHOLE, Selection
from skills_mcp.text.rendering import shorten

if TYPE_CHECKING:  # more modules than the first answer may wait for
    from skills_mcp.content.delivery import Delivery
    from skills_mcp.content.git.history import CommitHistory, PastCommit
    from skills_mcp.content.git.proposal import FolderChange, Proposal
    from skills_mcp.content.git.repository import GitRepository, RemoteAnswer
    from skills_mcp.content.store.pointer import Current
    from skills_mcp.content.store.snapshot_store import SnapshotStore

logger = logging.getLogger(__name__)


_DEFAULT_POLICY = SyncPolicy()

# Older versions wrote every file of a repository into a folder of format 1; they would
# bring back what this one leaves out.
_FORMAT = "2"


# How long other bytes may be served than the commit's (docs/explanation/sync.md).
_CHECK_SECONDS = 24 * 60 * 60.0
_CHECK_PAUSE_SECONDS = 60 * 60.0


@dataclass(frozen=True, slots=True)
class _Parts:
    """The objects behind a branch; they are imported and made at its first use."""

    store: "SnapshotStore"
    repository: "GitRepository"
    delivery: "Delivery"
    history: "CommitHistory"

    @classmethod
    def open(cls, directory: Path, remote: Remote, policy: SyncPolicy) -> "_Parts":
        """Open the store of a remote in a folder."""
        from skills_mcp.content.delivery import Delivery
        from skills_mcp.content.git.history import CommitHistory
        from skills_mcp.content.git.repository import GitRepository
        from skills_mcp.content.store.snapshot_store import SnapshotStore

        store = SnapshotStore(directory)
        repository = GitRepository(store.objects, remote, policy)
        delivery = Delivery(remote, store, repository, policy)
        beside = repository.git.beside(directory / "history.git")
        return cls(store, repository, delivery, CommitHistory(beside, remote, policy))


class RemoteBranch:
    """A branch, followed exactly, with every commit in a folder of its own.  Blocking.

    A tag is followed like a branch; a pinned commit needs the remote only once.
    """

    # 001 §9, DESIGN §3.7 to §3.11

    mode: Literal["git"] = "git"

    def __init__(
        self, remote: Remote, cache: Path, policy: SyncPolicy = _DEFAULT_POLICY
    ) -> None:
        self._directory = cache / _store_name(remote, policy)
        self._remote = remote
        self._policy = policy
        self._is_pinned = remote.commit is not None
        self._seen: object = None
        self._rests_until = 0.0
        self.name = str(remote)
        self._opened: _Parts | None = None
        self._gate = threading.Lock()

    @property
    def _parts(self) -> _Parts:
        with self._gate:
            if self._opened is None:
                self._opened = _Parts.open(self._directory, self._remote, self._policy)
            return self._opened

    @property
    def _store(self) -> "SnapshotStore":
        return self._parts.store

    @property
    def _delivery(self) -> "Delivery":
        return self._parts.delivery

    @property
    def url(self) -> str:
        """The address of the repository, without any secret."""
        return self._remote.url

    @property
    def doing(self) -> str:
        """The step that a sync is at, such as `Receiving objects 45%`; or empty."""
        return self._opened.delivery.doing if self._opened else ""

    def open(self) -> Checkout | None:
        """Return the published commit of this machine, without any network.

        Raises:
            SyncError: It may not be served, or cannot be read.
        """
        self._seen = self._store.stamp()  # before: what comes later is news
        # A key that was trusted at the fetch may have been revoked since.
        verify = self._delivery.verify if self._policy.signers else None
        checkout = self._store.open_current(verify)
        self._tell_branch(checkout.default_branch if checkout else "")
        if checkout and not os.access(checkout.directory, os.R_OK | os.X_OK):
            raise SyncError(
                f"{self.name}: no permission to read {checkout.directory}. Give it to "
                "the user who runs this server (chmod -R a+rX)"
            )
        return checkout

    def sync(self, freshness: Freshness, accept: Accept) -> Checkout:
        """Fetch, check, stage and publish the remote's commit.

        A result of another process that is fresh enough is used, and so is its
        failure: if many windows ask at the same time, the remote is asked twice.

        Args:
            freshness: How new the content has to be.
            accept: Called with a commit that was not published before.

        Raises:
            SyncError: What was published before stays published.
        """
        if self._policy.is_offline:
            self._mend()
            return self._require_published()
        if self._is_pinned:
            with suppress(SyncError):  # a fetch may heal what cannot be verified
                if here := self.open():
                    self._mend()
                    return here
        with self._exclusive() as lock:
            self._delivery.run(lock, freshness, partial(accept, self))
        published = self._require_published()
        self._collect_stores()
        return published

    def attempt(self) -> Attempt:
        """Return how the last syncs on this machine went."""
        return self._delivery.last_attempt()

    def next_sync_at(self, interval_seconds: float | None) -> float:
        """Return when the next sync is due, in seconds since the epoch.

        It is an interval after the last attempt; after a failure earlier, at the time
        that all windows of this machine share. Infinity if it never is.

        Args:
            interval_seconds: The pause after a success; None without a timer.
        """
        current, attempt = self._store.current(), self.attempt()
        is_held = current is not None and current.hold is not None
        if is_held or self._policy.is_offline or (current and self._is_pinned):
            return math.inf
        now = time.time()
        if attempt.failures:
            return (
                attempt.next_attempt_at
                if is_resting(attempt.next_attempt_at, now)
                else now
            )
        if interval_seconds is None:
            return math.inf
        last = max(attempt.attempted_at, current.fetched_at if current else 0.0)
        # A time in the future was written while the clock was wrong.
        return last + interval_seconds if last <= now else now

    def is_check_due(self) -> bool:
        """Whether the content of the served files was compared with Git too long ago.

        An attempt counts for an hour, also one that failed: the cache may be one
        that cannot be written.
        """
        if time.monotonic() < self._rests_until:
            return False
        current = self._store.current()
        return current is not None and self._is_unchecked(current)

    def check(self) -> None:
        """Compare the content of the served files with Git, and repair it.

        Needs no network.  Another process may do it instead.
        """
        self._rests_until = time.monotonic() + _CHECK_PAUSE_SECONDS
        with suppress(SyncError), self._exclusive():
            if (current := self._store.current()) and self._is_unchecked(current):
                self._delivery.doing = "Comparing files"
                self._delivery.mend(current, by_content=True)
        self._collect_stores()  # a pinned or offline source never syncs

    def _is_unchecked(self, current: "Current") -> bool:
        return time.time() - self._store.checked_at(current.commit) > _CHECK_SECONDS

    def has_news(self) -> bool:
        """Whether another process has published since the last `open`."""
        return self._store.stamp() != self._seen

    def may_move(self, push: Push) -> bool:
        """Whether a fetch after this push could bring something new."""
        return push.may_move(self._remote)

    def go_back(self, to: str = "", accept: Accept = accept_all) -> Checkout:
        """Publish an earlier commit, and hold it until `follow` is called.

        Args:
            to: The commit, or its first digits if it is on this machine; empty for
                the one that was published before.
            accept: Called with a commit that was not published before.

        Raises:
            SyncError: There is none on this machine, or it cannot be fetched.
        """
        with self._exclusive() as lock:
            current = self._store.current()
            if current and current.hold:
                raise SyncError(
                    f"{self.name} is held at {current.commit} already. To follow it "
                    "again: skills-mcp rollback --resume"
                )
            earlier = self._find_earlier(current, to)
            if current is None or (earlier is None and not to):
                raise SyncError(
                    f"{self.name}: this machine has no previous commit to go back to. "
                    "Name an older one: skills-mcp rollback --to COMMIT"
                )
            hold = Hold(time.time(), current.commit)
            held = replace(current, previous=None, hold=hold)
            if earlier is None:
                brought = self._delivery.bring(to, lock, partial(accept, self))
                held = replace(
                    held, commit=brought.commit, verified_by=brought.verified_by
                )
            else:
                verified_by = self._delivery.verify(earlier)
                held = replace(held, commit=earlier, verified_by=verified_by)
                self._delivery.mend(held)
            self._store.publish(held)
        return self._require_published()

    def _find_earlier(self, current: "Current | None", to: str) -> str | None:
        """Return the commit to go back to, if its files are here.

        Raises:
            SyncError: It is served already, or several commits begin like this.
        """
        if current is None:
            return None
        if not to:
            earlier = current.previous
            return None if earlier is None or self._is_gone(earlier) else earlier
        found = [each for each in self._store.commits() if each.startswith(to.lower())]
        if len(found) > 1:
            raise SyncError(f"Several commits begin with {to}: {', '.join(found)}")
        if found == [current.commit]:
            raise SyncError(f"{self.name} is at {current.commit} already")
        return found[0] if found else None

    def follow(self) -> None:
        """End a rollback: publish the newer commit, and follow the remote again.

        Raises:
            SyncError: Nothing is held.
        """
        with self._exclusive():
            held = self._store.pointer()  # its files may be lost
            if held is None or held.hold is None:
                raise SyncError(f"{self.name} is followed already: nothing is held")
            followed = replace(held, hold=None)
            newest = held.hold.instead_of
            # The reason for the rollback may be that its signer is not trusted now.
            with suppress(SignatureError):
                if not self._is_gone(newest):
                    followed = replace(
                        followed,
                        commit=newest,
                        verified_by=self._delivery.verify(newest),
                        previous=held.commit,
                    )
            self._store.publish(followed)

    def content_ids(self, checkout: Checkout) -> Mapping[str, str] | None:
        """Return the blob id of each file of a commit, and whether it is executable.

        Two files with the same id have the same content. None if Git has deleted the
        commit.
        """
        if checkout.revision is None:
            return None
        try:
            return self._parts.repository.read_content_ids(checkout.revision)
        except SyncError:
            return None

    def ask_remote(self) -> "RemoteAnswer":
        """Ask the remote for its newest commit; nothing is fetched or written.

        Raises:
            SyncError: It does not answer, or has no such branch, tag or commit.
        """
        seconds = self._policy.timeout_seconds
        return self._parts.repository.ask_remote(timeout_seconds=seconds)

    def read_git_version(self) -> str:
        """Return what `git version` prints.

        Raises:
            SyncError: There is no Git, or it is too old.
        """
        return self._parts.repository.git.read_version()

    @property
    def sends_token(self) -> bool:
        """Whether the remote is asked with a token of the operator."""
        return self._remote.sends_token

    def propose(self, change: "FolderChange") -> "Proposal":
        """Push a change to a branch of its own; what is served stays as it is.

        Raises:
            SyncError: The remote does not answer or refuses it, or nothing would
                change.
        """
        from skills_mcp.content.git.proposal import push_change

        if self._policy.is_offline:
            raise SyncError(f"{self.name}: sync.offline is on. Switch it off to push")
        git = self._parts.repository.git
        return push_change(git, self._remote, self._base, change, self._policy)

    def read_history(
        self, commit: str, files: Sequence[str], most: int
    ) -> "tuple[PastCommit, ...]":
        """Return the newest commits that changed one of these files.

        The history is fetched when it is asked for, and kept beside what is served.

        Raises:
            SyncError: It cannot be fetched, or the commit is not in it.
        """
        return self._parts.history.read(self._base, commit, files, most)

    @property
    def _base(self) -> str:
        """The ref that is followed, with the remote's default branch by its name."""
        current = self._store.current()
        default = current.default_branch if current else ""
        return f"refs/heads/{default}" if default else self._remote.wanted

    @property
    def is_pinned(self) -> bool:
        """Whether a tag or a commit is served, and no branch."""
        return bool(self._remote.pin)

    def close(self) -> None:
        """End a fetch that is running."""
        self._parts.repository.git.close()

    def _collect_stores(self) -> None:
        """Delete what belongs to a branch or repository that is followed no more."""
        from skills_mcp.content.store.snapshot_store import collect_stores

        collect_stores(self._directory.parent, time.time())

    def _tell_branch(self, default: str) -> None:
        """Say once if the remote's default branch is followed for want of `main`."""
        name = str(replace(self._remote, branch=default) if default else self._remote)
        if default and name != self.name:
            logger.info(
                "%s has no branch %s: its default branch %s is followed",
                *(self._remote.url, DEFAULT_BRANCH, shorten(default)),
            )
        self.name = name

    def _mend(self) -> None:
        """Repair served files that were changed on disk, if we may write them."""
        if self._store.current():
            with suppress(SyncError), self._exclusive():
                self._delivery.mend(self._store.current())

    @contextmanager
    def _exclusive(self) -> Iterator[IO[Any]]:
        timeout = self._policy.timeout_seconds
        self._delivery.doing = "Waiting for another sync"
        try:
            with (
                explained(self._directory),
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

    def _is_gone(self, commit: str) -> bool:
        return commit not in self._store.commits()


def _store_name(remote: Remote, policy: SyncPolicy) -> str:
    """Name the folder so that other content never shares it.

    It depends on the repository, on its branch, tag or commit, and on the parts of it
    that are served. A branch `main` that is named differs from one that is not: only
    for the latter may the default branch stand in.
    """
    followed = f"\0{remote.wanted}" if remote.pin else remote.branch
    parts = sorted(_name(part) for part in policy.selections if part != WHOLE)
    identity = "\0".join((_FORMAT, remote.url, followed, *parts))
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _name(selection: Selection) -> str:
    plugins = ",".join(sorted(selection.plugins))
    everywhere = "everywhere" if selection.everywhere else ""
    return "\0".join(filter(None, (selection.subfolder, everywhere, plugins)))
