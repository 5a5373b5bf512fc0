"""Several sources that are served together as one tree.

Rule 1: a source that fails keeps what it had, and takes nothing from the others.
Rule 2: a source is asked once in a sync, however often it is mounted, so two
folders of one repository are always of the same commit.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import inf, nextafter
from pathlib import Path

from skills_mcp.content.freshness import derive_state
from skills_mcp.content.source import (
    ANYTHING,
    Accept,
    Checkout,
    Content,
    ContentSource,
    Demand,
    Failure,
    Mode,
    Mount,
    Part,
    SourceState,
    accept_all,
    recall,
)
from skills_mcp.content.store.attempts import derive_longest_pause
from skills_mcp.errors import SyncError

logger = logging.getLogger(__name__)

# A fetch mostly waits, so the limit is for the remotes' sake and for ours: no more
# processes of Git than a laptop has room for.
_PARALLEL_SYNCS = 16


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a source has to offer, and why it is nothing newer."""

    checkout: Checkout | None
    error: SyncError | None = None


_Work = Callable[[ContentSource], _Outcome]


class Mounts:
    """Sources, and where each of them stands in the tree.  Blocking.

    One source behaves as if it were alone: what it raises is raised.

    Args:
        mounts: In the operator's order, each `at` a place of its own.
    """

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self.mounts = tuple(mounts)
        self._sources = tuple(dict.fromkeys(mount.source for mount in self.mounts))
        self._newest: dict[ContentSource, Checkout] = {}
        self._errors: dict[ContentSource, SyncError | None] = {}

    @property
    def mode(self) -> Mode:
        """`git` if any source is a repository, so that time brings news."""
        return "git" if any(each.mode == "git" for each in self._sources) else "local"

    @property
    def name(self) -> str:
        """What a log calls all of them, without any secret."""
        first, *others = [source.name for source in self._sources]
        return f"{first} and {len(others)} more" if others else first

    def published(self) -> Content | None:
        """Return what is here already; None unless every repository has something.

        Folders alone are never published: a sync of them is as quick.
        """
        if self.mode == "local":
            return None
        outcomes = {source: self._open(source) for source in self._sources}
        if any(s.mode == "git" and not o.checkout for s, o in outcomes.items()):
            return None
        return self._lay_out(outcomes)

    def look(self) -> Content | None:
        """Return what is here by now, whoever brought it; None if nothing is."""
        content = self._lay_out({each: self._open(each) for each in self._sources})
        return content if content.parts else None

    def read_news(self) -> Content | None:
        """Return what is here by now, or None if no other process has brought it."""
        served = self._newest.copy()
        content = self.look()
        is_new = any(c is not served.get(s) for s, c in self._newest.items())
        return content if is_new else None

    @property
    def doing(self) -> str:
        """What a sync is at; empty if none is running."""
        return next(filter(None, (each.doing for each in self._sources)), "")

    def has_news(self) -> bool:
        """Whether another process has published something since we have looked."""
        return any(source.has_news() for source in self._sources)

    def next_sync_at(self, interval_seconds: float | None) -> float:
        """Return when the first source wants to sync, in seconds since the epoch."""
        return min(each.next_sync_at(interval_seconds) for each in self._sources)

    def sync(self, demand: Demand, accept: Accept) -> Content:
        """Bring content of every source here, all at the same time.

        What a source could not do is among the `failures`, and its last good
        checkout among the `parts`.

        Args:
            demand: How new it has to be.
            accept: Called with each commit before it is published.

        Raises:
            SyncError: There is nothing at all, or the only source has failed.
        """
        return self._conclude(self._ask(lambda each: self._sync(each, demand, accept)))

    def sync_due(self, interval_seconds: float | None, accept: Accept) -> Content:
        """Sync the sources whose time has come, and look what the others have.

        A remote that another process has asked meanwhile is left alone.

        Args:
            interval_seconds: The pause after a success; None without a timer.
            accept: Called with each commit before it is published.

        Raises:
            SyncError: There is nothing at all, or the only source has failed.
        """

        def work(source: ContentSource) -> _Outcome:
            if source.mode == "local":
                return self._sync(source, ANYTHING, accept)
            attempt = source.attempt()
            if source.next_sync_at(interval_seconds) > time.time():
                return _Outcome(self._read_kept(source), recall(attempt))
            demand = Demand(
                nextafter(attempt.attempted_at, inf),
                longest_pause_seconds=derive_longest_pause(interval_seconds),
            )
            return self._sync(source, demand, accept)

        return self._conclude(self._ask(work))

    def count_changes(self, before: Content | None, after: Content) -> int:
        """Return how many files of all sources differ."""
        old = _checkouts(before) if before else {}
        return sum(
            source.count_changes(old.get(source), new)
            for source, new in _checkouts(after).items()
            if not _is_same(old.get(source), new)
        )

    def find_changes(
        self, before: Content | None, after: Content
    ) -> dict[Path, frozenset[str]]:
        """Return the files that differ, by the top of each newer checkout.

        Sources that cannot tell are left out.
        """
        old = _checkouts(before) if before else {}
        found = {}
        for source, new in _checkouts(after).items():
            earlier = old.get(source)
            files = source.find_changes(earlier.revision if earlier else None, new)
            if files:
                found[new.directory] = files
        return found

    def states(
        self, content: Content | None, interval_seconds: float | None
    ) -> tuple[SourceState, ...]:
        """Say how each source is doing; a folder that nobody named has to be there.

        Args:
            content: What is served, or None if nothing is.
            interval_seconds: The timer's; None if it is off.
        """
        parts = {p.mount: p.checkout for p in content.parts} if content else {}
        return tuple(
            self._derive_state(mount, parts.get(mount), interval_seconds)
            for mount in self.mounts
            if mount.scope == "org" or mount in parts or self._errors.get(mount.source)
        )

    def close(self) -> None:
        """Give up: end the syncs that are running, and start none any more."""
        for source in self._sources:
            source.close()

    def _derive_state(
        self, mount: Mount, checkout: Checkout | None, interval_seconds: float | None
    ) -> SourceState:
        source = mount.source
        state = derive_state(
            mount,
            checkout,
            source.attempt(),
            next_sync_at=source.next_sync_at(interval_seconds),
            interval_seconds=interval_seconds,
            now=time.time(),
        )
        # A folder leaves no memory of its failure, nor does a disk that is full.
        return replace(state, error=state.error or self._errors.get(source))

    def _ask(self, work: _Work) -> dict[ContentSource, _Outcome]:
        """Let all sources work at the same time."""
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

    def _sync(self, source: ContentSource, demand: Demand, accept: Accept) -> _Outcome:
        try:
            return _Outcome(source.sync(demand, accept))
        except SyncError as error:
            # What is served before what another process has published meanwhile:
            # a sync that fails changes nothing.
            return _Outcome(self._newest.get(source) or self._read(source), error)

    def _open(self, source: ContentSource) -> _Outcome:
        if source.mode == "git":
            try:
                return _Outcome(source.published() or self._newest.get(source))
            except SyncError as error:
                logger.warning("Not serving what is here of %s: %s", source.name, error)
                return _Outcome(self._newest.get(source), error)
        return self._sync(source, ANYTHING, accept_all)

    def _read_kept(self, source: ContentSource) -> Checkout | None:
        """Return what is served, or what another process has published since."""
        kept = self._newest.get(source)
        return (self._read(source) or kept) if source.has_news() or not kept else kept

    def _read(self, source: ContentSource) -> Checkout | None:
        """Return what is here; what cannot be read costs the other sources nothing."""
        try:
            return source.published()
        except SyncError as error:
            logger.warning("Cannot read what is here of %s: %s", source.name, error)
            return None

    def _lay_out(self, outcomes: Mapping[ContentSource, _Outcome]) -> Content:
        for source, outcome in outcomes.items():
            self._errors[source] = outcome.error
            if source.mode == "git" and outcome.checkout:
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
    """Yield what there is; a folder that was found twice stands at its first place."""
    served = set()
    for mount in mounts:
        checkout = outcomes[mount.source].checkout
        if checkout is None:
            continue
        folder = os.path.realpath(checkout.directory / mount.subfolder)
        if mount.scope == "org" or folder not in served:
            yield Part(mount, checkout)
        served.add(folder)


def _checkouts(content: Content) -> dict[ContentSource, Checkout]:
    return {part.mount.source: part.checkout for part in content.parts}


def _is_same(old: Checkout | None, new: Checkout) -> bool:
    return old is not None and old.revision == new.revision is not None
