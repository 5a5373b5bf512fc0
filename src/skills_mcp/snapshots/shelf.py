"""What is served now, and how it is replaced: one assignment, so nothing is mixed."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import anyio.to_thread

from skills_mcp.config import Config, Settings
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.refresher import Refresher
from skills_mcp.content.source import (
    Checkout,
    Content,
    ContentSource,
    Freshness,
    Part,
    SourceState,
)
from skills_mcp.embeddings.embedder import Embedder
from skills_mcp.errors import ContentUnavailableError, SkillsError
from skills_mcp.processes.memory import give_back_memory
from skills_mcp.snapshots.changes import (
    SkillChanges,
    derive_changes,
    is_listing_changed,
)
from skills_mcp.snapshots.refreshed import Refreshed, derive_refreshed
from skills_mcp.snapshots.snapshot import (
    Snapshot,
    find_broken,
    load_config,
    log_news,
    rebase,
    require_readable,
    take_snapshot,
)

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    from skills_mcp.snapshots.index_cache import BasisCache
    from skills_mcp.snapshots.indexes import Basis

logger = logging.getLogger(__name__)

_KEPT_SECONDS = 60 * 60.0  # longer than an agent works with one skill's folder
_MOST_KEPT = 10  # each has a file open, and whoever merges often would run out of them


class Shelf:
    """Holds the current snapshot of all sources and keeps it fresh.

    Args:
        mounts: The sources.
        settings: The operator's.
        cache: Where indexes are kept for the next process; None keeps none.
        embedder: Compares meanings, too; None if words decide alone.
    """

    def __init__(
        self,
        mounts: Mounts,
        settings: Settings,
        cache: Path | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self._mounts = mounts
        self._settings = settings
        self._cache = cache
        self._embedder = embedder
        self._embedding = Thread()
        self._basis: Basis | None = None
        self._kept_basis: BasisCache | None = None
        self._operator = settings.resolve()
        self._snapshot: Snapshot | None = None
        self._kept: list[tuple[float, Content]] = []
        self._watchers: list[Callable[[], None]] = []
        self._refresher = Refresher(
            mounts, self.load, self.inspect, self._interval_minutes
        )

    @property
    def config(self) -> Config:
        """The configuration in force: the operator's, until there is content."""
        return self._snapshot.config if self._snapshot else self._operator

    @property
    def snapshot(self) -> Snapshot:
        """What is served now.

        Raises:
            ContentUnavailableError: Nothing has been loaded yet.
        """
        if self._snapshot is None:
            raise ContentUnavailableError("No skills have been loaded yet.")
        return self._snapshot

    @property
    def is_ready(self) -> bool:
        """Whether there is content to answer from."""
        return self._snapshot is not None

    def wake(self) -> None:
        """Let the background work begin; see `Refresher.wake`."""
        self._refresher.wake()

    async def run(self) -> None:
        """Keep the content fresh until cancelled."""
        await self._refresher.run()

    async def wait_until_ready(self, timeout_seconds: float) -> None:
        """Return as soon as there is content to answer from.

        Raises:
            ContentUnavailableError: There is none in time, or the sync failed.
        """
        if not self.is_ready:
            await self._refresher.wait_until_ready(timeout_seconds)

    @property
    def doing(self) -> str:
        """What a sync is at, such as `Receiving objects 45%`; empty if none runs."""
        return self._mounts.doing

    def states(self) -> tuple[SourceState, ...]:
        """Say how new the content of each source is.  Blocking, for a moment."""
        content = self._snapshot.content if self._snapshot else None
        return self._derive_states(content, self.config)

    def look(self) -> tuple[SourceState, ...]:
        """Say the same of what is here, without loading it.  Blocking.

        Nothing is asked of any network.
        """
        content = self._mounts.open()
        config = load_config(content, self._settings) if content else self._operator
        return self._derive_states(content, config)

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back whenever other skills are served; on whichever thread loads."""
        self._watchers.append(callback)

    def sync(self) -> Content:
        """Bring the newest content here and load it.  Blocking.

        For programs that do this once; a server has `run`.

        Raises:
            SyncError: There is nothing at all, or the only source has failed.
        """
        newest = Freshness(time.time(), is_urgent=True)
        content = self._mounts.sync(newest, self.inspect)
        self.load(content)
        return content

    def inspect(self, source: ContentSource, checkout: Checkout) -> None:
        """Read a commit before it is published.  Blocking; see `Accept`.

        Raises:
            UnreadableContentError: It has skills, and none that can be read.
        """
        mounts = (each for each in self._mounts.mounts if each.source is source)
        content = Content(tuple(Part(mount, checkout) for mount in mounts))
        require_readable(content, self._operator, self._basis)

    def load(self, content: Content) -> None:
        """Make content what is served (001 §4.6).  Blocking.

        Commits that are served already are not read again, unless somebody has
        changed their files.
        """
        served = self._snapshot
        if served and served.is_still(content):
            self._snapshot = replace(served, content=content)
            return
        if served and served.is_of(content):
            # The files of a commit were edited: nothing tells what else they are not.
            self._basis = None
            snapshot = self._prepared(take_snapshot(content, self._settings))
        else:
            snapshot = self._take(content)
            self._basis = snapshot.indexes.basis()
        log_news(snapshot, served)
        if served:
            self._keep(served.content)
        self._snapshot = self._embed(snapshot, served)
        if is_listing_changed(served.offer if served else None, snapshot.offer):
            for callback in self._watchers:
                callback()

    @property
    def asks_elsewhere(self) -> bool:
        """Whether an answer may have to wait for another machine."""
        return self._embedder is not None

    def wait_for_vectors(self) -> None:
        """Return when meanings are known, or never will be.  Blocking, for long."""
        if self._embedding.is_alive():
            self._embedding.join()

    def _embed(self, snapshot: Snapshot, served: Snapshot | None) -> Snapshot:
        """Begin to learn what the skills mean; until then words decide alone."""
        if served and served.vectors:
            served.vectors.close()
        if self._embedder is None:
            return snapshot
        vectors = self._embedder.vectors_of(snapshot.index.offered)
        # Nobody waits for it, also not the end of the process.
        self._embedding = Thread(target=vectors.prepare, name="vectors", daemon=True)
        self._embedding.start()
        return replace(snapshot, vectors=vectors)

    def _take(self, content: Content) -> Snapshot:
        """Take over what is known, from memory or from the disk, and read the rest."""
        from skills_mcp.snapshots.index_cache import BasisCache

        if self._cache is None:
            return self._prepared(take_snapshot(content, self._settings, self._basis))
        kept = BasisCache(self._cache, content, self._operator)
        if self._kept_basis is None or self._kept_basis.folder != kept.folder:
            self._kept_basis, self._basis = kept, None
        kept = self._kept_basis
        basis = self._basis or kept.open()
        if basis:
            snapshot = self._derive(content, basis)
            if snapshot.indexes.are_of(basis):
                logger.info("Using the index in %s", kept.folder)
                return snapshot
        with kept.exclusive():
            newer = kept.open()  # another process may have built it meanwhile
            if newer or basis is None:
                basis = newer
                snapshot = self._derive(content, basis)
            if basis is None or not snapshot.indexes.are_of(basis):
                logger.info("Keeping the index in %s", kept.folder)
                snapshot = rebase(snapshot, kept.save(snapshot.indexes.basis()))
        give_back_memory()  # building takes more than serving ever will
        return self._prepared(snapshot)

    def _derive(self, content: Content, basis: "Basis | None") -> Snapshot:
        """Take over what is known, unless it turns out to be damaged."""
        try:
            return self._prepared(take_snapshot(content, self._settings, basis))
        except (OSError, ValueError, IndexError, KeyError, TypeError) as error:
            if basis is None:
                raise
            logger.warning("The index that was kept is damaged: %r", error)
            return self._prepared(take_snapshot(content, self._settings))

    def _prepared(self, snapshot: Snapshot) -> Snapshot:
        snapshot.prepare(searches="packages" in self._operator.toolsets)
        return snapshot

    def _keep(self, content: Content) -> None:
        """Keep files on the disk whose paths an agent may be working with (000 §3.3).

        A commit's folder is deleted as soon as nobody refers to its checkout.
        """
        if "packages" in self._operator.toolsets:
            now, kept = time.monotonic(), self._kept[1 - _MOST_KEPT :]
            kept = [(t, c) for t, c in kept if now - t < _KEPT_SECONDS]
            self._kept = [*kept, (now, content)]

    async def refresh(self) -> Refreshed:
        """Bring the newest content here; failure is a result, too (001 §8.6)."""
        before = self._snapshot
        error: SkillsError | None = None
        try:
            await self._refresher.refresh()
        except SkillsError as failure:
            error = failure
        after = self._snapshot

        def compare() -> Refreshed:
            return derive_refreshed(
                self.states(),
                files_changed=self._count_files(before, after),
                skills_reindexed=len(after.index) if after else 0,
                error=error,
                changes=self._find_changes(before, after),
            )

        return await anyio.to_thread.run_sync(compare)

    def _count_files(self, before: Snapshot | None, after: Snapshot | None) -> int:
        if after is None or after is before:
            return 0
        old = before.content if before else None
        return self._mounts.count_changes(old, after.content)

    def _find_changes(
        self, before: Snapshot | None, after: Snapshot | None
    ) -> SkillChanges:
        if after is None or after is before:
            return SkillChanges()
        old = before.content if before else None
        files = self._mounts.find_changes(old, after.content)
        changes = derive_changes(before.offer if before else None, after.offer, files)
        return replace(changes, broken=find_broken(before, after))

    def close(self) -> None:
        """End a sync that is running."""
        self._mounts.close()
        if self._snapshot and self._snapshot.vectors:
            self._snapshot.vectors.close()
        if self._embedder:
            self._embedder.close()

    def _derive_states(
        self, content: Content | None, config: Config
    ) -> tuple[SourceState, ...]:
        minutes = self._minutes_of(config)
        return self._mounts.states(content, minutes * 60 if minutes else None)

    def _interval_minutes(self) -> float | None:
        return self._minutes_of(self.config)

    def _minutes_of(self, config: Config) -> float | None:
        """001 §9.3 knows a timer for Git only; a folder is read on request."""
        timed = config.refresh.enabled and self._mounts.mode == "git"
        return config.refresh.interval_minutes if timed else None
