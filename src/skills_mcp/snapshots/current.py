"""The served snapshot, and its replacement.

Rule: a snapshot is replaced in one assignment, so that no reply mixes two.
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
    ContentPart,
    ContentSource,
    Freshness,
    SourceState,
)
from skills_mcp.errors import (
    ContentUnavailableError,
    LimitExceededError,
    SkillsError,
    SyncError,
    UnreadableContentError,
)
from skills_mcp.processes.memory import trim_heap
from skills_mcp.skills.access import EVERYTHING, Access
from skills_mcp.skills.skill_discovery import SourceWalk, WalkLimits, count_outside_packages
from skills_mcp.skills.source_layout import FolderTree
from skills_mcp.snapshots.embedding import Embedder
from skills_mcp.snapshots.skill_snapshot import (
    Refreshed,
    SkillChanges,
    Snapshot,
    derive_changes,
    derive_refreshed,
    find_new_errors,
    inspect_commit,
    is_listing_changed,
    load_config,
    log_changes,
    take_snapshot,
)

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    from skills_mcp.snapshots.index_cache import IndexCache
    from skills_mcp.snapshots.indexes import IndexState
    from skills_mcp.snapshots.loaded_skills import LoadedSkills
    from skills_mcp.snapshots.skill_records import SkillTable

logger = logging.getLogger(__name__)

_RETENTION_SECONDS = 60 * 60.0  # longer than an agent works with one skill's folder
_MAX_RETAINED = 10  # each has a file open, and a process may have only so many


class CurrentSnapshot:
    """Current snapshot of all sources, kept fresh in the background."""

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
        self._inspected: dict[ContentSource, LoadedSkills] = {}
        self._operator = settings.resolve()
        self._snapshot: Snapshot | None = None
        self._retained: list[tuple[float, Content]] = []
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
        """The served snapshot.

        Raises:
            ContentUnavailableError: Nothing has been loaded yet.
        """
        if self._snapshot is None:
            raise ContentUnavailableError("No skills have been loaded yet.")
        return self._snapshot

    @property
    def is_ready(self) -> bool:
        return self._snapshot is not None

    def wake(self) -> None:
        self._refresher.wake()

    async def run(self) -> None:
        """Keep the content fresh until cancelled."""
        await self._refresher.run()

    async def wait_until_ready(self, timeout_seconds: float) -> None:
        """Wait for content.

        Raises:
            ContentUnavailableError: There is none in time, or the sync failed.
        """
        if not self.is_ready:
            await self._refresher.wait_until_ready(timeout_seconds)

    async def wait_for_stored(self, timeout_seconds: float) -> None:
        if not self.is_ready:
            await self._refresher.wait_for_stored(timeout_seconds)

    @property
    def doing(self) -> str:
        return self._mounts.doing

    def states(self, access: Access = EVERYTHING) -> tuple[SourceState, ...]:
        """Commit, age and last error of each source visible to a caller.  Blocking."""
        states = self._find_states()
        if access == EVERYTHING:
            return states
        served = self._snapshot
        visible = served.seen_by(access).shown_mounts if served else None
        return tuple(_redact_state(state) for state in states if state.mount in (visible or ()))

    def _find_states(self) -> tuple[SourceState, ...]:
        served = self._snapshot
        states = self._derive_states(served.content if served else None, self.config)
        if served is None:
            return states
        left_out = served.state.collection.not_served
        parts = enumerate(served.content.parts)
        return _with_counts(states, {p.mount.at: left_out[n] for n, p in parts})

    def stored_states(self) -> tuple[SourceState, ...]:
        content = self._mounts.open()
        config = load_config(content, self._settings) if content else self._operator
        states = self._derive_states(content, config)
        parts = content.parts if content else ()
        limits = WalkLimits.of(config.limits)
        return _with_counts(
            states, {part.mount.at: _find_not_served(part, limits) for part in parts}
        )

    def watch(self, callback: Callable[[], None]) -> None:
        """Subscribe to changed skills, on the loading thread."""
        self._watchers.append(callback)

    def observe(self, observer: Callable[[Snapshot, Snapshot], None]) -> Callable[[], None]:
        """Subscribe to old and new snapshots, on the loading thread; call to end."""
        self._observers.append(observer)

        def end() -> None:
            if observer in self._observers:
                self._observers.remove(observer)

        return end

    def sync(self) -> Content:
        """Sync and load the newest content once.  Blocking.

        Raises:
            SyncError: There is nothing at all, or the only source has failed.
        """
        newest = Freshness(time.time(), is_urgent=True)
        content = self._mounts.sync(newest, self.inspect)
        self.load(content)
        return content

    def inspect(self, source: ContentSource, checkout: Checkout) -> None:
        """Read a commit before its publication.  Blocking; see `CommitCheck`.

        Raises:
            UnreadableContentError: It has skills, and none that can be read.
        """
        mounts = (candidate for candidate in self._mounts.mounts if candidate.source is source)
        content = Content(tuple(ContentPart(mount, checkout) for mount in mounts))
        progress = self._mounts.progress
        try:
            inspected = inspect_commit(content, self._settings, self._state, progress)
        finally:
            progress.end()
        self._inspected[source] = inspected  # `load` comes next, and reads the same

    def load(self, content: Content) -> None:
        """Serve content, without rereading unedited served commits.  Blocking."""
        with self._loading:
            served = self._snapshot
            is_known = served and served.state.collection.matches_content(content)
            self._load(served if is_known else None, content)

    def _rebuild(self) -> "SkillTable":
        """Read the served skills again after damage to the cached index."""
        from skills_mcp.files.arrays import DamagedTextError

        reason = "a text is not what was written"
        with self._loading:
            served = self._snapshot
            if served is None:
                raise DamagedTextError(reason)
            self._discard_cached_state(reason)
            self._load(None, served.content)
            return self.snapshot.state.collection.table

    def _discard_cached_state(self, reason: object) -> None:
        self._state = None
        self._inspected.clear()  # most of it was taken from that state
        if self._index_cache:
            self._index_cache.mark_damaged(reason)

    def _load(self, known: Snapshot | None, content: Content) -> None:
        """Serve content; `known` is the served snapshot of the same commits, if any."""
        served = self._snapshot
        try:
            snapshot = (
                self._reread_edited(known, content) if known else self._open_or_build(content)
            )
        finally:
            self._mounts.progress.end()
        self._inspected.clear()
        trim_heap()  # reading takes more than serving ever will
        if served and snapshot.reuses_all_of(served.state):
            self._snapshot = replace(served, content=content)
            return
        self._state = snapshot.state
        log_changes(snapshot, served)
        if served:
            self._retain(served.content)
        self._snapshot = self._embed(snapshot, served)
        if is_listing_changed(served.offered if served else None, snapshot.offered):
            for callback in self._watchers:
                callback()
        if served:
            for observer in tuple(self._observers):
                observer(served, self._snapshot)

    def _reread_edited(self, served: Snapshot, content: Content) -> Snapshot:
        """Reread edited files of served commits.

        Not stored on disk: other processes would take the edited files for those of the
        commit.
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
            self._discard_cached_state(error)
            return self._open_or_build(content)
        return snapshot

    @property
    def waits_for_network(self) -> bool:
        """Whether a search may have to wait for another machine."""
        return self._embedder is not None

    def wait_for_vectors(self) -> None:
        """Wait until all embeddings are available, or failed.  Blocking."""
        if self._embedding.is_alive():
            self._embedding.join()

    def take_unserved(self, content: Content, known: Snapshot | None) -> Snapshot:
        """Take an unserved snapshot of other content, with embeddings.  Blocking."""
        state = known.state if known else None
        snapshot = take_snapshot(content, self._settings, state)
        if self._embedder is None:
            return snapshot
        vectors = self._embedder.make_vectors(snapshot.index.offered)
        vectors.prepare()
        return replace(snapshot, vectors=vectors)

    def _embed(self, snapshot: Snapshot, served: Snapshot | None) -> Snapshot:
        if served and served.vectors:
            served.vectors.close()
        if self._embedder is None:
            return snapshot
        vectors = self._embedder.make_vectors(snapshot.index.offered)
        # A daemon: the end of the process does not wait for it.
        self._embedding = Thread(target=vectors.prepare, name="vectors", daemon=True)
        self._embedding.start()
        return replace(snapshot, vectors=vectors)

    def _open_or_build(self, content: Content) -> Snapshot:
        try:
            return self._reuse_or_build(content)
        except (OSError, ValueError, IndexError, KeyError, TypeError) as error:
            if self._state is None:
                raise
            self._discard_cached_state(repr(error))
            return self._reuse_or_build(content)

    def _reuse_or_build(self, content: Content) -> Snapshot:
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
                snapshot = snapshot.with_state(cache.save(snapshot.state))
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
        from skills_mcp.snapshots.index_cache import IndexCache

        if self._cache is None:
            return None
        cache = IndexCache(self._cache, content, self._operator, self._rebuild)
        if self._index_cache is None or self._index_cache.folder != cache.folder:
            self._index_cache, self._state = cache, None
        return self._index_cache

    def _retain(self, content: Content) -> None:
        """Retain recent files for agents: unreferenced checkouts are deleted."""
        if "packages" in self._operator.toolsets:
            now, retained = time.monotonic(), self._retained[1 - _MAX_RETAINED :]
            retained = [(t, c) for t, c in retained if now - t < _RETENTION_SECONDS]
            self._retained = [*retained, (now, content)]

    async def refresh(self, access: Access = EVERYTHING) -> Refreshed:
        """Sync and load the newest content; a failure is part of the result.

        A restricted caller gets the number of changed skills instead of files.
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

    def _find_changes(self, before: Snapshot | None, after: Snapshot | None) -> SkillChanges:
        if after is None or after is before:
            return SkillChanges()
        changes = derive_changes(before.offered if before else None, after.offered)
        return replace(changes, broken=find_new_errors(before, after))

    def close(self) -> None:
        self._mounts.close()
        if self._snapshot and self._snapshot.vectors:
            self._snapshot.vectors.close()
        if self._embedder:
            self._embedder.close()

    def _derive_states(self, content: Content | None, config: Config) -> tuple[SourceState, ...]:
        minutes = self._minutes_of(config)
        return self._mounts.states(content, minutes * 60 if minutes else None)

    def _interval_minutes(self) -> float | None:
        return self._minutes_of(self.config)

    def _minutes_of(self, config: Config) -> float | None:
        """Pause between syncs; None for folders alone, read on request."""
        timed = config.refresh.enabled and self._mounts.mode == "git"
        return config.refresh.interval_minutes if timed else None


def _redact_state(state: SourceState) -> SourceState:
    """Remove names and counts of other callers' skills from a state."""
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
    return tuple(replace(state, not_served=left_out.get(state.mount, 0)) for state in states)


def _find_not_served(part: ContentPart, limits: WalkLimits) -> int:
    selection = part.mount.selection
    surveyed = part.checkout.surveyed.get(selection)
    if surveyed:
        return count_outside_packages(surveyed.problems)
    tree = FolderTree(part.checkout.directory)
    return count_outside_packages(SourceWalk(tree, selection, limits).outside())


def _prepared(snapshot: Snapshot) -> Snapshot:
    snapshot.prepare()
    return snapshot
