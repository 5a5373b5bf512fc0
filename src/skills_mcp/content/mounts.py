"""Several sources served as one tree.

Rule 1: a source that fails keeps its previous content, and takes nothing from the
others.
Rule 2: each source syncs once, even if it is mounted several times, so two folders of
one repository are always of the same commit.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from math import inf, nextafter
from pathlib import Path

from skills_mcp.config import Refresh
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Push
from skills_mcp.content.source import (
    Checkout,
    CommitCheck,
    Content,
    ContentPart,
    ContentSource,
    Failure,
    Freshness,
    LocalFolder,
    Mode,
    Mount,
    Progress,
    SourceState,
    SyncAttempt,
    derive_last_error,
    derive_longest_pause,
    derive_state,
)
from skills_mcp.errors import SyncError

logger = logging.getLogger(__name__)

# A fetch mostly waits, so the limit spares the remotes, and the memory of a laptop:
# each fetch is a process of Git.
_MAX_PARALLEL_SYNCS = 16


@dataclass(frozen=True, slots=True)
class _SyncOutcome:
    checkout: Checkout | None
    error: SyncError | None = None


_Work = Callable[[ContentSource], _SyncOutcome]


class Mounts:
    """Sources, each with a distinct path in the tree.  Blocking.

    A single source raises its error, instead of listing it in `failures`.
    """

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self.mounts = tuple(mounts)
        self._sources = tuple(dict.fromkeys(mount.source for mount in self.mounts))
        self._repositories = tuple(
            source for source in self._sources if isinstance(source, RemoteBranch)
        )
        self.progress = Progress()
        """How far the reading of what was synced has got."""
        self._last = Content(())
        """The result of the last sync: failures that are on no disk, too."""
        self._failed_syncs: Counter[ContentSource] = Counter()

    @property
    def mode(self) -> Mode:
        """`git` if any source is a repository; only those need a timer."""
        return "git" if self._repositories else "local"

    @property
    def name(self) -> str:
        first, *others = [source.name for source in self._sources]
        return f"{first} and {len(others)} more" if others else first

    def interval_minutes(self, rules: Refresh) -> float | None:
        """Pause between syncs; None for folders alone, read on request."""
        return rules.interval_minutes if rules.enabled and self._repositories else None

    def find(self, at: str) -> Mount | None:
        return next((mount for mount in self.mounts if mount.at == at), None)

    def find_folders(self) -> tuple[Path, ...]:
        return tuple(
            mount.source.directory / mount.selection.subfolder
            for mount in self.mounts
            if isinstance(mount.source, LocalFolder)
        )

    def open_published(self) -> Content | None:
        """Open content of earlier processes; None unless all repositories have some."""
        if not self._repositories:
            return None
        outcomes = {source: self._open(source) for source in self._sources}
        if not all(outcomes[repository].checkout for repository in self._repositories):
            return None
        return self._compose_content(outcomes)

    def open(self) -> Content | None:
        """Open all content of this machine, without network; None if there is none."""
        content = self._compose_content({source: self._open(source) for source in self._sources})
        return content if content.parts else None

    def open_update(self) -> Content | None:
        served = self._newest
        content = self.open()
        return content if self._newest != served else None

    def is_check_due(self) -> bool:
        """Whether the served files of a repository must be compared with Git."""
        return any(repository.is_check_due() for repository in self._repositories)

    def check(self) -> Content | None:
        for source in self._repositories:
            if source.is_check_due():
                source.check()
        return self.open()

    @property
    def doing(self) -> str:
        """Step of the running sync; empty if none runs."""
        return str(self.progress) or next(
            filter(None, (repository.doing for repository in self._repositories)), ""
        )

    def has_update(self) -> bool:
        """Whether another process has published since the last `open`."""
        return any(repository.has_update() for repository in self._repositories)

    def may_move(self, push: Push) -> bool:
        """Whether a push could have changed any source; always for folders alone."""
        repositories = self._repositories
        return not repositories or any(repository.may_move(push) for repository in repositories)

    def next_sync_at(self, interval_seconds: float | None) -> float:
        """Time of the next due sync, in seconds since the epoch; infinity for never."""
        times = (repository.next_sync_at(interval_seconds) for repository in self._repositories)
        return min(times, default=inf)

    def sync(self, freshness: Freshness, accept: CommitCheck) -> Content:
        """Sync all sources concurrently.

        A failed source adds its error to `failures`, and its last good checkout to
        `parts`.

        Raises:
            SyncError: There is nothing at all, or the only source has failed.
        """
        return self._require_content(
            self._map_sources(lambda source: self._sync(source, freshness, accept))
        )

    def sync_due(self, interval_seconds: float | None, accept: CommitCheck) -> Content:
        """Sync the due sources, and open the others.

        A remote recently queried by another process is not queried again.

        Raises:
            SyncError: There is nothing at all, or the only source has failed.
        """

        def work(source: ContentSource) -> _SyncOutcome:
            if not isinstance(source, RemoteBranch):
                return self._open(source)
            attempt = source.attempt()
            if source.next_sync_at(interval_seconds) > time.time():
                return _SyncOutcome(self._open_newest(source), derive_last_error(attempt))
            freshness = Freshness(
                nextafter(attempt.attempted_at, inf),
                longest_pause_seconds=derive_longest_pause(interval_seconds),
            )
            return self._sync(source, freshness, accept)

        return self._require_content(self._map_sources(work))

    def count_changes(self, before: Content | None, after: Content) -> int:
        old = _checkouts(before) if before else {}
        return sum(
            _count_changes(source, old.get(source), new)
            for source, new in _checkouts(after).items()
            if isinstance(source, RemoteBranch) and not _has_same_revision(old.get(source), new)
        )

    def states(
        self, content: Content | None, interval_seconds: float | None
    ) -> tuple[SourceState, ...]:
        """Derive the state of each source, except missing discovered folders."""
        parts = {p.mount: p.checkout for p in content.parts} if content else {}
        errors = {failure.mount: failure.error for failure in self._last.failures}
        return tuple(
            self._derive_state(mount, parts.get(mount), errors.get(mount), interval_seconds)
            for mount in self.mounts
            if mount.scope == "org" or mount in parts or mount in errors
        )

    def close(self) -> None:
        for source in self._repositories:
            source.close()

    @property
    def _newest(self) -> dict[ContentSource, Checkout]:
        checkouts = _checkouts(self._last).items()
        return {s: checkout for s, checkout in checkouts if isinstance(s, RemoteBranch)}

    def _derive_state(
        self,
        mount: Mount,
        checkout: Checkout | None,
        error: SyncError | None,
        interval_seconds: float | None,
    ) -> SourceState:
        source = mount.source
        attempt, next_sync_at = SyncAttempt(), inf
        if isinstance(source, RemoteBranch):
            attempt = source.attempt()
            next_sync_at = source.next_sync_at(interval_seconds)
        return derive_state(
            mount,
            checkout,
            attempt,
            next_sync_at=next_sync_at,
            interval_seconds=interval_seconds,
            now=time.time(),
            error=error,
            failed_syncs=self._failed_syncs[source],
        )

    def _map_sources(self, work: _Work) -> dict[ContentSource, _SyncOutcome]:
        if len(self._sources) == 1:
            return {source: work(source) for source in self._sources}
        workers = min(_MAX_PARALLEL_SYNCS, len(self._sources))
        # A log line belongs to the window or the command that has caused it.
        contexts = [copy_context() for _ in self._sources]
        with ThreadPoolExecutor(workers, thread_name_prefix="sync") as pool:
            try:
                outcomes = list(
                    pool.map(
                        lambda context, source: context.run(work, source), contexts, self._sources
                    )
                )
            except KeyboardInterrupt:
                self.close()  # or the pool would wait for every fetch
                raise
        return dict(zip(self._sources, outcomes, strict=True))

    def _require_content(self, outcomes: Mapping[ContentSource, _SyncOutcome]) -> Content:
        content = self._compose_content(outcomes)
        if content.error and (len(self._sources) == 1 or not content.parts):
            raise content.error
        return content

    def _sync(
        self, source: ContentSource, freshness: Freshness, accept: CommitCheck
    ) -> _SyncOutcome:
        if not isinstance(source, RemoteBranch):
            return self._open(source)
        try:
            return _SyncOutcome(source.sync(freshness, accept))
        except SyncError as error:
            if not error.is_recalled:
                self._failed_syncs[source] += 1
            # What is served comes before what another process has published
            # meanwhile: a sync that fails changes nothing.
            return _SyncOutcome(self._newest.get(source) or self._read(source), error)

    def _open(self, source: ContentSource) -> _SyncOutcome:
        newest = self._newest.get(source)
        try:
            return _SyncOutcome(source.open() or newest)
        except SyncError as error:
            if isinstance(source, RemoteBranch):
                logger.warning("Cannot serve the cache of %s: %s", source.name, error)
            return _SyncOutcome(newest, error)

    def _open_newest(self, source: RemoteBranch) -> Checkout | None:
        newest = self._newest.get(source)
        return (self._read(source) or newest) if source.has_update() or not newest else newest

    def _read(self, source: RemoteBranch) -> Checkout | None:
        try:
            return source.open()
        except SyncError as error:
            logger.warning("Cannot read the cache of %s: %s", source.name, error)
            return None

    def _compose_content(self, outcomes: Mapping[ContentSource, _SyncOutcome]) -> Content:
        failures = (
            Failure(mount, error)
            for mount in self.mounts
            if (error := outcomes[mount.source].error)
        )
        self._last = Content(tuple(_derive_parts(self.mounts, outcomes)), tuple(failures))
        return self._last


def _derive_parts(
    mounts: Sequence[Mount], outcomes: Mapping[ContentSource, _SyncOutcome]
) -> Iterator[ContentPart]:
    """Yield the parts, without repetitions of a discovered folder."""
    served = set()
    for mount in mounts:
        checkout = outcomes[mount.source].checkout
        if checkout is None:
            continue
        folder = os.path.realpath(checkout.directory / mount.selection.subfolder)
        if mount.scope == "org" or folder not in served:
            yield ContentPart(mount, checkout)
        served.add(folder)


def _checkouts(content: Content) -> dict[ContentSource, Checkout]:
    return {part.mount.source: part.checkout for part in content.parts}


def _count_changes(source: RemoteBranch, before: Checkout | None, after: Checkout) -> int:
    old = source.content_ids(before) if before else {}
    return len(dict(old.items() ^ source.content_ids(after).items()))


def _has_same_revision(old: Checkout | None, new: Checkout) -> bool:
    return old is not None and old.revision == new.revision is not None
