"""Several sources that are served together as one tree.

Rule 1: a source that fails keeps what it had, and takes nothing from the others.
Rule 2: each source is asked once in a sync, even if it is mounted several times, so
two folders of one repository are always of the same commit.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import inf, nextafter
from pathlib import Path

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.local import LocalFolder
from skills_mcp.content.progress import Progress
from skills_mcp.content.push import Push
from skills_mcp.content.source import (
    Accept,
    Attempt,
    Checkout,
    Content,
    ContentSource,
    Failure,
    Freshness,
    Mode,
    Mount,
    Part,
    SourceState,
    derive_longest_pause,
    derive_state,
    recall,
)
from skills_mcp.errors import SyncError

logger = logging.getLogger(__name__)

# A fetch mostly waits, so the limit spares the remotes, and the memory of a laptop:
# each fetch is a process of Git.
_PARALLEL_SYNCS = 16


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The checkout to serve of a source, and the error if it is not the newest."""

    checkout: Checkout | None
    error: SyncError | None = None


_Work = Callable[[ContentSource], _Outcome]


class Mounts:
    """Sources, and the place of each one in the tree.  Blocking.

    With a single source its error is raised, instead of being among the `failures`.

    Args:
        mounts: In the operator's order, each with a different `at`.
    """

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self.mounts = tuple(mounts)
        self._sources = tuple(dict.fromkeys(mount.source for mount in self.mounts))
        self._repositories = tuple(
            source for source in self._sources if isinstance(source, RemoteBranch)
        )
        self.progress = Progress()
        """How far the reading of what was synced has got."""
        self._newest: dict[ContentSource, Checkout] = {}
        self._errors: dict[ContentSource, SyncError | None] = {}
        self._failed_syncs: Counter[ContentSource] = Counter()

    @property
    def mode(self) -> Mode:
        """`git` if any source is a repository, so that a timer makes sense."""
        return "git" if self._repositories else "local"

    @property
    def name(self) -> str:
        """All sources in a few words, safe to log: without any secret."""
        first, *others = [source.name for source in self._sources]
        return f"{first} and {len(others)} more" if others else first

    def find_folders(self) -> tuple[Path, ...]:
        """Return the folders that are served as they are; they need not exist."""
        return tuple(
            mount.source.directory / mount.selection.subfolder
            for mount in self.mounts
            if isinstance(mount.source, LocalFolder)
        )

    def open_published(self) -> Content | None:
        """Return what was published before this process; None if a repository lacks it.

        None for folders alone, too: a sync of them is as quick.
        """
        if not self._repositories:
            return None
        outcomes = {source: self._open(source) for source in self._sources}
        if not all(outcomes[each].checkout for each in self._repositories):
            return None
        return self._lay_out(outcomes)

    def open(self) -> Content | None:
        """Return what this machine has, without any network; None if it has nothing."""
        content = self._lay_out({each: self._open(each) for each in self._sources})
        return content if content.parts else None

    def read_news(self) -> Content | None:
        """Return what another process has published; None if none has."""
        served = self._newest.copy()
        content = self.open()
        is_new = any(c is not served.get(s) for s, c in self._newest.items())
        return content if is_new else None

    def is_check_due(self) -> bool:
        """Whether the served files of a repository have to be compared with Git."""
        return any(each.is_check_due() for each in self._repositories)

    def check(self) -> Content | None:
        """Compare the served files with Git, and repair them; return what is served."""
        for source in self._repositories:
            if source.is_check_due():
                source.check()
        return self.open()

    @property
    def doing(self) -> str:
        """The step that a running sync is at; empty if none is running."""
        return str(self.progress) or next(
            filter(None, (each.doing for each in self._repositories)), ""
        )

    def has_news(self) -> bool:
        """Whether another process has published since the last `open`."""
        return any(each.has_news() for each in self._repositories)

    def may_move(self, push: Push) -> bool:
        """Whether a push could bring something new.

        Folders alone may hold what another program fetches after the same push.
        """
        repositories = self._repositories
        return not repositories or any(each.may_move(push) for each in repositories)

    def next_sync_at(self, interval_seconds: float | None) -> float:
        """Return when the next source is due, in seconds since the epoch.

        Infinity if none ever is: a folder is read on request only.
        """
        times = (each.next_sync_at(interval_seconds) for each in self._repositories)
        return min(times, default=inf)

    def sync(self, freshness: Freshness, accept: Accept) -> Content:
        """Bring the content of all sources to this machine, all at the same time.

        The error of a source that fails is among the `failures`, and its last good
        checkout among the `parts`.

        Args:
            freshness: How new it has to be.
            accept: Called with each commit before it is published.

        Raises:
            SyncError: There is nothing at all, or the only source has failed.
        """
        return self._conclude(
            self._ask(lambda each: self._sync(each, freshness, accept))
        )

    def sync_due(self, interval_seconds: float | None, accept: Accept) -> Content:
        """Sync the sources that are due, and open what the others have.

        A remote that another process has asked meanwhile is not asked again.

        Args:
            interval_seconds: The pause after a success; None without a timer.
            accept: Called with each commit before it is published.

        Raises:
            SyncError: There is nothing at all, or the only source has failed.
        """

        def work(source: ContentSource) -> _Outcome:
            if not isinstance(source, RemoteBranch):
                return self._open(source)
            attempt = source.attempt()
            if source.next_sync_at(interval_seconds) > time.time():
                return _Outcome(self._read_kept(source), recall(attempt))
            freshness = Freshness(
                nextafter(attempt.attempted_at, inf),
                longest_pause_seconds=derive_longest_pause(interval_seconds),
            )
            return self._sync(source, freshness, accept)

        return self._conclude(self._ask(work))

    def count_changes(self, before: Content | None, after: Content) -> int:
        """Return how many files were added, changed or removed in all repositories."""
        old = _checkouts(before) if before else {}
        return sum(
            _count_changes(source, old.get(source), new)
            for source, new in _checkouts(after).items()
            if isinstance(source, RemoteBranch) and not _is_same(old.get(source), new)
        )

    def states(
        self, content: Content | None, interval_seconds: float | None
    ) -> tuple[SourceState, ...]:
        """Return the state of each source, without discovered folders that are missing.

        Args:
            content: What is served, or None if nothing is.
            interval_seconds: The pause between two syncs; None without a timer.
        """
        parts = {p.mount: p.checkout for p in content.parts} if content else {}
        return tuple(
            self._derive_state(mount, parts.get(mount), interval_seconds)
            for mount in self.mounts
            if mount.scope == "org" or mount in parts or self._errors.get(mount.source)
        )

    def close(self) -> None:
        """End the syncs that are running; later ones fail."""
        for source in self._repositories:
            source.close()

    def _derive_state(
        self, mount: Mount, checkout: Checkout | None, interval_seconds: float | None
    ) -> SourceState:
        source = mount.source
        attempt, next_sync_at = Attempt(), inf
        if isinstance(source, RemoteBranch):
            attempt = source.attempt()
            next_sync_at = source.next_sync_at(interval_seconds)
        state = derive_state(
            mount,
            checkout,
            attempt,
            next_sync_at=next_sync_at,
            interval_seconds=interval_seconds,
            now=time.time(),
        )
        # The failure of a folder is written nowhere, nor any failure on a full disk.
        return replace(
            state,
            error=state.error or self._errors.get(source),
            failed_syncs=self._failed_syncs[source],
        )

    def _ask(self, work: _Work) -> dict[ContentSource, _Outcome]:
        """Call `work` with all sources at the same time."""
        if len(self._sources) == 1:
            return {source: work(source) for source in self._sources}
        workers = min(_PARALLEL_SYNCS, len(self._sources))
        with ThreadPoolExecutor(workers, thread_name_prefix="sync") as pool:
            try:
                outcomes = list(pool.map(work, self._sources))
            except KeyboardInterrupt:
                self.close()  # or the pool would wait for every fetch
                raise
        return dict(zip(self._sources, outcomes, strict=True))

    def _conclude(self, outcomes: Mapping[ContentSource, _Outcome]) -> Content:
        content = self._lay_out(outcomes)
        if content.error and (len(self._sources) == 1 or not content.parts):
            raise content.error
        return content

    def _sync(
        self, source: ContentSource, freshness: Freshness, accept: Accept
    ) -> _Outcome:
        if not isinstance(source, RemoteBranch):
            return self._open(source)
        try:
            return _Outcome(source.sync(freshness, accept))
        except SyncError as error:
            if not error.is_recalled:
                self._failed_syncs[source] += 1
            # What is served comes before what another process has published
            # meanwhile: a sync that fails changes nothing.
            return _Outcome(self._newest.get(source) or self._read(source), error)

    def _open(self, source: ContentSource) -> _Outcome:
        kept = self._newest.get(source)
        try:
            return _Outcome(source.open() or kept)
        except SyncError as error:
            if isinstance(source, RemoteBranch):
                logger.warning("Cannot serve the cache of %s: %s", source.name, error)
            return _Outcome(kept, error)

    def _read_kept(self, source: RemoteBranch) -> Checkout | None:
        """Return what is served, or what another process has published since."""
        kept = self._newest.get(source)
        return (self._read(source) or kept) if source.has_news() or not kept else kept

    def _read(self, source: RemoteBranch) -> Checkout | None:
        """Return what is published; None if it cannot be read."""
        try:
            return source.open()
        except SyncError as error:
            logger.warning("Cannot read the cache of %s: %s", source.name, error)
            return None

    def _lay_out(self, outcomes: Mapping[ContentSource, _Outcome]) -> Content:
        for source, outcome in outcomes.items():
            self._errors[source] = outcome.error
            if isinstance(source, RemoteBranch) and outcome.checkout:
                self._newest[source] = outcome.checkout
        failures = (
            Failure(mount, error)
            for mount in self.mounts
            if (error := outcomes[mount.source].error)
        )
        return Content(tuple(_parts(self.mounts, outcomes)), tuple(failures))


def _parts(
    mounts: Sequence[Mount], outcomes: Mapping[ContentSource, _Outcome]
) -> Iterator[Part]:
    """Yield the parts; a folder that is discovered twice is at its first place only."""
    served = set()
    for mount in mounts:
        checkout = outcomes[mount.source].checkout
        if checkout is None:
            continue
        folder = os.path.realpath(checkout.directory / mount.selection.subfolder)
        if mount.scope == "org" or folder not in served:
            yield Part(mount, checkout)
        served.add(folder)


def _checkouts(content: Content) -> dict[ContentSource, Checkout]:
    return {part.mount.source: part.checkout for part in content.parts}


def _count_changes(
    source: RemoteBranch, before: Checkout | None, after: Checkout
) -> int:
    old = source.content_ids(before) if before else None
    new = source.content_ids(after)
    return len(dict((old or {}).items() ^ (new or {}).items()))


def _is_same(old: Checkout | None, new: Checkout) -> bool:
    return old is not None and old.revision == new.revision is not None
