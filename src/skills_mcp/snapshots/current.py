"""What is served now, and how the next state replaces it.

Rule: a state is replaced in one assignment, so that no reply mixes two of them.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from threading import RLock, Thread
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
from skills_mcp.errors import (
    ContentUnavailableError,
    LimitExceededError,
    SkillsError,
    SyncError,
    UnreadableContentError,
)
from skills_mcp.processes.memory import give_back_memory
from skills_mcp.skills.access import EVERYTHING, Access
from skills_mcp.skills.file_tree import FolderTree
from skills_mcp.skills.walk import Survey, WalkLimits, count_not_served
from skills_mcp.snapshots.changes import (
    Refreshed,
    SkillChanges,
    derive_changes,
    derive_refreshed,
    is_listing_changed,
)
from skills_mcp.snapshots.embedding import Embedder
from skills_mcp.snapshots.snapshot import (
    Snapshot,
    find_broken,
    inspect_commit,
    load_config,
    log_news,
    take_snapshot,
)

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    from skills_mcp.snapshots.collection import Collection
    from skills_mcp.snapshots.index_cache import IndexCache
    from skills_mcp.snapshots.indexes import IndexState
    from skills_mcp.snapshots.skill_table import SkillTable

logger = logging.getLogger(__name__)

_KEPT_SECONDS = 60 * 60.0  # longer than an agent works with one skill's folder
_MOST_KEPT = 10  # each has a file open, and a process may have only so many


class CurrentSnapshot:
    """Holds the current snapshot of all sources and keeps it fresh.

    Args:
        mounts: The sources.
        settings: The operator's settings.
        cache: The folder of the index cache; None keeps no index on the disk.
        embedder: Compares embeddings; None to compare only words.
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
        self._loading = RLock()  # a load may find the damage that it has to repair
        self._state: IndexState | None = None
        self._index_cache: IndexCache | None = None
        self._inspected: dict[ContentSource, Collection] = {}
        self._operator = settings.resolve()
        self._snapshot: Snapshot | None = None
        self._kept: list[tuple[float, Content]] = []
        self._watchers: list[Callable[[], None]] = []
        self._observers: list[Callable[[Snapshot, Snapshot], None]] = []
        self._refresher = Refresher(
            mounts,
            self.load,
            self.inspect,
            self._interval_minutes,
            is_watching=self._operator.sync.watch,
        )

    @property
    def config(self) -> Config:
        """The settings in force; the operator's alone until content is loaded."""
        return self._snapshot.config if self._snapshot else self._operator

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that is served now.

        Raises:
            ContentUnavailableError: Nothing has been loaded yet.
        """
        if self._snapshot is None:
            raise ContentUnavailableError("No skills have been loaded yet.")
        return self._snapshot

    @property
    def is_ready(self) -> bool:
        """Whether any content is loaded."""
        return self._snapshot is not None

    def wake(self) -> None:
        """Start the background syncs; see `Refresher.wake`."""
        self._refresher.wake()

    async def run(self) -> None:
        """Keep the content fresh until cancelled."""
        await self._refresher.run()

    async def wait_until_ready(self, timeout_seconds: float) -> None:
        """Return as soon as content is loaded.

        Raises:
            ContentUnavailableError: There is none in time, or the sync failed.
        """
        if not self.is_ready:
            await self._refresher.wait_until_ready(timeout_seconds)

    async def wait_for_stored(self, timeout_seconds: float) -> None:
        """Return when what is on this machine is served; see `Refresher`."""
        if not self.is_ready:
            await self._refresher.wait_for_stored(timeout_seconds)

    @property
    def doing(self) -> str:
        """The progress of the running sync; empty if none runs."""
        return self._mounts.doing

    def states(self, access: Access = EVERYTHING) -> tuple[SourceState, ...]:
        """Return the served commit, age and last error of each source.  Blocking.

        A caller who does not see everything knows only of the sources of what is seen.
        """
        states = self._find_states()
        if access == EVERYTHING:
            return states
        served = self._snapshot
        shown = served.seen_by(access).shown_mounts if served else None
        return tuple(_blur(state) for state in states if state.mount in (shown or ()))

    def _find_states(self) -> tuple[SourceState, ...]:
        served = self._snapshot
        states = self._derive_states(served.content if served else None, self.config)
        if served is None:
            return states
        left_out = served.state.collection.not_served
        parts = enumerate(served.content.parts)
        return _with_counts(states, {p.mount.at: left_out[n] for n, p in parts})

    def stored_states(self) -> tuple[SourceState, ...]:
        """Return the state of each source without loading any content.  Blocking.

        No network is used.
        """
        content = self._mounts.open()
        config = load_config(content, self._settings) if content else self._operator
        states = self._derive_states(content, config)
        parts = content.parts if content else ()
        limits = WalkLimits.of(config.limits)
        return _with_counts(
            states, {part.mount.at: _find_not_served(part, limits) for part in parts}
        )

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back when other skills are served, on the thread that loads them."""
        self._watchers.append(callback)

    def observe(
        self, observer: Callable[[Snapshot, Snapshot], None]
    ) -> Callable[[], None]:
        """Call back with the old and the new state, on the thread that loads it.

        Returns:
            What ends it.
        """
        self._observers.append(observer)

        def end() -> None:
            if observer in self._observers:
                self._observers.remove(observer)

        return end

    def sync(self) -> Content:
        """Sync and load the newest content.  Blocking.

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
        progress = self._mounts.progress
        try:
            inspected = inspect_commit(content, self._settings, self._state, progress)
        finally:
            progress.end()
        self._inspected[source] = inspected  # `load` comes next, and reads the same

    def load(self, content: Content) -> None:
        """Make content what is served.  Blocking.

        Commits that are served already are not read again, unless their files were
        edited in place.
        """
        with self._loading:
            served = self._snapshot
            is_known = served and served.state.collection.is_of(content)
            self._load(served if is_known else None, content)

    def _rebuild(self) -> "SkillTable":
        """Read the skills that are served again, because the kept index is damaged.

        Raises:
            DamagedTextError: Nothing is served yet; `_open_or_build` repairs that.
        """
        from skills_mcp.files.arrays import DamagedTextError

        reason = "a text is not what was written"
        with self._loading:
            served = self._snapshot
            if served is None:
                raise DamagedTextError(reason)
            self._forget_kept(reason)
            self._load(None, served.content)
            return self.snapshot.state.collection.table

    def _forget_kept(self, reason: object) -> None:
        """Build the next state from the files alone."""
        self._state = None
        self._inspected.clear()  # most of it was taken from that state
        if self._index_cache:
            self._index_cache.condemn(reason)

    def _load(self, known: Snapshot | None, content: Content) -> None:
        """Serve content; `known` is what is served, if it is of the same commits."""
        served = self._snapshot
        try:
            snapshot = (
                self._look_again(known, content)
                if known
                else self._open_or_build(content)
            )
        finally:
            self._mounts.progress.end()
        self._inspected.clear()
        give_back_memory()  # reading takes more than serving ever will
        if served and snapshot.reuses_all_of(served.state):
            self._snapshot = replace(served, content=content)
            return
        self._state = snapshot.state
        log_news(snapshot, served)
        if served:
            self._keep(served.content)
        self._snapshot = self._embed(snapshot, served)
        if is_listing_changed(served.offered if served else None, snapshot.offered):
            for callback in self._watchers:
                callback()
        if served:
            for observer in tuple(self._observers):
                observer(served, self._snapshot)

    def _look_again(self, served: Snapshot, content: Content) -> Snapshot:
        """Return the snapshot of commits that are served, read anew where edited.

        The result is not kept on the disk: other processes would take the edited files
        for those of the commit. But if the kept index is damaged, it is built anew.
        """
        from skills_mcp.files.arrays import DamagedTextError

        try:
            snapshot = take_snapshot(
                content,
                self._settings,
                served.state,
                served=served,
                progress=self._mounts.progress,
            )
            if not snapshot.reuses_all_of(served.state):
                snapshot.prepare()
        except DamagedTextError as error:
            self._forget_kept(error)
            return self._open_or_build(content)
        return snapshot

    @property
    def waits_for_network(self) -> bool:
        """Whether a search may have to wait for another machine."""
        return self._embedder is not None

    def wait_for_vectors(self) -> None:
        """Return when the embeddings of all skills are there, or failed.  Blocking."""
        if self._embedding.is_alive():
            self._embedding.join()

    def take_unserved(self, content: Content, known: Snapshot | None) -> Snapshot:
        """Return a snapshot of other content with the same settings.  Blocking.

        It is not served. If there are embeddings, it has those of its skills.

        Args:
            content: What is read.
            known: What was taken of nearly the same content.
        """
        state = known.state if known else None
        snapshot = take_snapshot(content, self._settings, state)
        if self._embedder is None:
            return snapshot
        vectors = self._embedder.vectors_of(snapshot.index.offered)
        vectors.prepare()
        return replace(snapshot, vectors=vectors)

    def _embed(self, snapshot: Snapshot, served: Snapshot | None) -> Snapshot:
        """Start to embed the skills; until that is done, only words are compared."""
        if served and served.vectors:
            served.vectors.close()
        if self._embedder is None:
            return snapshot
        vectors = self._embedder.vectors_of(snapshot.index.offered)
        # A daemon: the end of the process does not wait for it.
        self._embedding = Thread(target=vectors.prepare, name="vectors", daemon=True)
        self._embedding.start()
        return replace(snapshot, vectors=vectors)

    def _open_or_build(self, content: Content) -> Snapshot:
        """Return the snapshot of content; a kept state that is damaged is not used."""
        try:
            return self._reuse_or_build(content)
        except (OSError, ValueError, IndexError, KeyError, TypeError) as error:
            if self._state is None:
                raise
            self._forget_kept(repr(error))
            return self._reuse_or_build(content)

    def _reuse_or_build(self, content: Content) -> Snapshot:
        """Serve the kept state if it is of this content; otherwise build and keep it.

        What the kept state has read of other content is not read again.
        """
        cache = self._open_cache(content)
        if cache is None:
            return _prepared(self._take(content, self._state))
        self._state = known = self._state or cache.open()
        snapshot = self._take(content, known) if known else None
        if known and snapshot and snapshot.reuses_all_of(known):
            logger.info("Using the index in %s", cache.folder)
            return _prepared(snapshot)
        with cache.exclusive():
            newer = cache.open()  # another process may have built it meanwhile
            if newer or snapshot is None:
                self._state = known = newer
                snapshot = self._take(content, known)
            snapshot = _prepared(snapshot)
            if not (known and snapshot.reuses_all_of(known)):
                logger.info("Keeping the index in %s", cache.folder)
                self._mounts.progress.begin("Keeping the index")
                snapshot = snapshot.on_arrays_of(cache.save(snapshot.state))
        return _prepared(snapshot)

    def _take(self, content: Content, known: "IndexState | None") -> Snapshot:
        inspected = tuple(self._inspected.values())
        return take_snapshot(
            content,
            self._settings,
            known,
            inspected=inspected,
            progress=self._mounts.progress,
        )

    def _open_cache(self, content: Content) -> "IndexCache | None":
        """Return the cache of these sources; None if nothing is kept on this disk."""
        from skills_mcp.snapshots.index_cache import IndexCache

        if self._cache is None:
            return None
        cache = IndexCache(self._cache, content, self._operator, self._rebuild)
        if self._index_cache is None or self._index_cache.folder != cache.folder:
            self._index_cache, self._state = cache, None
        return self._index_cache

    def _keep(self, content: Content) -> None:
        """Keep files on the disk whose paths an agent may be working with.

        A commit's folder is deleted as soon as there is no reference to its checkout.
        """
        if "packages" in self._operator.toolsets:
            now, kept = time.monotonic(), self._kept[1 - _MOST_KEPT :]
            kept = [(t, c) for t, c in kept if now - t < _KEPT_SECONDS]
            self._kept = [*kept, (now, content)]

    async def refresh(self, access: Access = EVERYTHING) -> Refreshed:
        """Sync and load the newest content; a failure is part of the result.

        Args:
            access: The result has only what this caller sees: the number of files that
                have changed is then that of the skills that have.
        """
        # As the first act of a process, too, it says what has changed since the last.
        await self._refresher.wait_for_published()
        before = self._snapshot
        error: SkillsError | None = None
        try:
            await self._refresher.refresh()
        except SkillsError as failure:
            error = failure
        after = self._snapshot

        def compare() -> Refreshed:
            if access != EVERYTHING:
                return self._compare_seen(access, before, after, error)
            return derive_refreshed(
                self.states(),
                files_changed=self._count_files(before, after),
                skills_reindexed=len(after.index) if after else 0,
                error=error,
                changes=self._find_changes(before, after),
            )

        return await anyio.to_thread.run_sync(compare)

    def _compare_seen(
        self,
        access: Access,
        before: Snapshot | None,
        after: Snapshot | None,
        error: SkillsError | None,
    ) -> Refreshed:
        """Return how a refresh ended for a caller who does not see everything."""
        states = self.states(access)
        changes = SkillChanges()
        seen = after.seen_by(access) if after else None
        if seen and after is not before:
            was = before.seen_by(access) if before else None
            changes = derive_changes(was.offered if was else None, seen.offered)
        if isinstance(error, SyncError):  # of a source that this caller may not know of
            error = next((state.error for state in states if state.error), None)
        return derive_refreshed(
            states,
            files_changed=len((*changes.added, *changes.changed, *changes.removed)),
            skills_reindexed=len(seen.index) if seen else 0,
            error=error,
            changes=changes,
        )

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
        changes = derive_changes(before.offered if before else None, after.offered)
        return replace(changes, broken=find_broken(before, after))

    def close(self) -> None:
        """End the running sync and the embedding."""
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
        """Return the pause between syncs; None for folders alone, read on request."""
        timed = config.refresh.enabled and self._mounts.mode == "git"
        return config.refresh.interval_minutes if timed else None


def _blur(state: SourceState) -> SourceState:
    """Return a state without what names or counts skills of others."""
    error = state.error
    if isinstance(error, UnreadableContentError | LimitExceededError):
        error = type(error)(
            f"{state.name}: the newest content cannot be served, so what was served "
            "before stays. The operator's log has the reason",
            is_recalled=error.is_recalled,
        )
    return replace(state, error=error, not_served=0)


def _with_counts(
    states: tuple[SourceState, ...], left_out: Mapping[str, int]
) -> tuple[SourceState, ...]:
    return tuple(
        replace(state, not_served=left_out.get(state.mount, 0)) for state in states
    )


def _find_not_served(part: Part, limits: WalkLimits) -> int:
    """Count the packages outside of the homes without reading a skill.  Blocking."""
    selection = part.mount.selection
    surveyed = part.checkout.surveyed.get(selection)
    if surveyed:
        return count_not_served(surveyed.problems)
    tree = FolderTree(part.checkout.directory)
    return count_not_served(Survey(tree, selection, limits).outside())


def _prepared(snapshot: Snapshot) -> Snapshot:
    snapshot.prepare()
    return snapshot
