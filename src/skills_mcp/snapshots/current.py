"""The served snapshot, and its replacement.

Rule: a snapshot is replaced in one assignment, so that no reply mixes two.
"""

import logging
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import RLock, Thread
from typing import TYPE_CHECKING

from skills_mcp import errors
from skills_mcp.config import Config, Settings
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import (
    Checkout,
    Content,
    ContentPart,
    ContentSource,
    Freshness,
    Loss,
)
from skills_mcp.processes.memory import trim_heap
from skills_mcp.skills.model import SkillPath
from skills_mcp.skills.skill_audit import load_audits
from skills_mcp.skills.skill_index import SkillIndex
from skills_mcp.snapshots.skill_snapshot import (
    Embedder,
    Snapshot,
    derive_loss,
    exceeds_removal,
    index_skills,
    inspect_commit,
    is_listing_changed,
    list_offered,
    load_config,
    log_changes,
    take_snapshot,
)

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    from skills_mcp.snapshots.indexes import IndexCache, IndexState
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
        self._operator = self._without_skills = settings.resolve()
        self._snapshot: Snapshot | None = None
        self._retained: list[tuple[float, Content]] = []
        self._watchers: list[Callable[[], None]] = []
        self._observers: set[Callable[[Snapshot, Snapshot], None]] = set()
        self._losses: dict[ContentSource, Loss] = {}

    @property
    def config(self) -> Config:
        """The settings in force; the operator's alone until those of content are loaded."""
        return self._snapshot.config if self._snapshot else self._without_skills

    @property
    def latest(self) -> Snapshot | None:
        """The served snapshot; None before the first."""
        return self._snapshot

    def load_config(self, content: Content | None) -> Config:
        """Load the settings with content, in force until its skills are.  Blocking."""
        if content:
            self._without_skills = load_config(content, self._settings)
        return self._without_skills

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Subscribe to changed skills, on the loading thread; call the result to end."""
        self._watchers.append(callback)
        return partial(self._watchers.remove, callback)

    def observe(self, observer: Callable[[Snapshot, Snapshot], None]) -> Callable[[], None]:
        """Subscribe to old and new snapshots, on the loading thread; call to end."""
        self._observers.add(observer)
        return partial(self._observers.discard, observer)

    def sync(self, *, allows_removal: bool = False) -> Content:
        """Sync and load the newest content once.  Blocking.

        Args:
            allows_removal: Whether a commit may remove any number of skills.

        Raises:
            SyncError: There is nothing at all, or the only source has failed.
        """
        if self._snapshot is None:  # what the new commit is compared with
            with suppress(errors.SyncError):
                if stored := self._mounts.open_published():
                    self.load(stored)
        newest = Freshness(time.time(), is_urgent=True)
        inspect = partial(self.inspect, allows_removal=allows_removal)
        content = self._mounts.sync(newest, inspect)
        self.load(content)
        return content

    def inspect(
        self, source: ContentSource, checkout: Checkout, *, allows_removal: bool = False
    ) -> Loss | None:
        """Read a commit before its publication.  Blocking; see `CommitCheck`.

        Raises:
            UnreadableContentError: It has skills, and none that can be read.
            PowersExceededError: Its skills have powers that it does not allow.
            SkillsRemovedError: It removes more than `sync.max_removed`.
        """
        mounts = (candidate for candidate in self._mounts.mounts if candidate.source is source)
        content = Content(tuple(ContentPart(mount, checkout) for mount in mounts))
        progress = self._mounts.progress
        try:
            inspected = inspect_commit(content, self._settings, self._state, progress)
        finally:
            progress.end()
        self._require_allowed(source, checkout, inspected, content)
        loss = self._find_loss(source, checkout, list_offered(inspected, content, self._settings))
        is_new = loss is not checkout.loss  # an earlier one has been let through
        if is_new and not allows_removal and exceeds_removal(loss, self._operator.sync.max_removed):
            raise errors.SkillsRemovedError(
                f"{source.name}: commit {checkout.revision} waits, as sync.max_removed "
                f"demands: {loss}. What was served before stays. If it is meant, run "
                "`skills-mcp sync --allow-removal` once"
            )
        self._inspected[source] = inspected  # `load` comes next, and reads the same
        return loss

    def _require_allowed(
        self, source: ContentSource, checkout: Checkout, inspected: "LoadedSkills", content: Content
    ) -> None:
        if self._operator.sync.powers == "off":
            return
        index = index_skills(inspected, load_config(content, self._settings))
        if excess := _find_excess(index, checkout.directory):
            raise errors.PowersExceededError(
                f"{source.name}: commit {checkout.revision} is not served, as sync.powers "
                f"demands: {excess}. What was served before stays. `skills-mcp validate "
                "--powers` lists all of it in a clone"
            )

    def find_loss(self, source: ContentSource) -> Loss | None:
        """The last loss of a folder, or by settings; a commit's is published with it."""
        return self._losses.get(source)

    def _find_loss(
        self, source: ContentSource, checkout: Checkout, offered: Collection[SkillPath]
    ) -> Loss | None:
        """Compare the skills that a commit would offer with those served now."""
        served = self._snapshot
        parts = served.content.parts if served else ()
        if served is None or all(part.mount.source is not source for part in parts):
            return checkout.loss
        before = self._list_skills(served.offered.by_path(), source)
        return derive_loss(before, offered, time.time(), checkout.loss)

    def _list_skills(self, paths: Collection[SkillPath], source: ContentSource) -> list[SkillPath]:
        """List the offered skills of a source; of nested mounts the innermost counts."""
        mounts = self._mounts.mounts
        if len({mount.source for mount in mounts}) == 1:
            return list(paths)

        def is_owner(path: SkillPath) -> bool:
            above = (
                mount
                for mount in mounts
                if f"{path}/".startswith(mount.prefix)
                and mount.serves(path.removeprefix(mount.prefix))
            )
            return max(above, key=lambda mount: len(mount.prefix)).source is source

        return list(filter(is_owner, paths))

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
            if self._snapshot is None:
                raise DamagedTextError(reason)
            self._discard_cached_state(reason)
            self._load(None, self._snapshot.content)
            return self._snapshot.state.collection.table

    def _discard_cached_state(self, reason: object) -> None:
        self._state = None
        self._inspected.clear()  # most of it was taken from that state
        if self._index_cache:
            self._index_cache.mark_damaged(reason)

    def _load(self, known: Snapshot | None, content: Content) -> None:
        """Serve content; `known` is the served snapshot of the same commits, if any."""
        served = self._snapshot
        earlier = self._list_earlier(content) if served is None else []
        try:
            snapshot = (
                self._reread_edited(known, content) if known else self._open_or_build(content)
            )
        finally:
            self._mounts.progress.end()
        self._inspected.clear()
        trim_heap()  # reading takes more than serving ever will
        if served and snapshot.serves_the_same_as(served):
            self._snapshot = replace(served, content=content)
            return
        self._state = snapshot.state
        log_changes(snapshot, served)
        if served:
            self._report_losses(served.offered.by_path(), snapshot)
            self._retain(served.content)
        elif earlier:
            self._report_losses(earlier, snapshot, is_of_settings=True)
        self._snapshot = self._embed(snapshot, served)
        if is_listing_changed(served.offered if served else None, snapshot.offered):
            for callback in tuple(self._watchers):
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
            if snapshot is not served:
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
        vectors = self._embedder.vectors_of(snapshot.index.offered)
        vectors.prepare()
        return replace(snapshot, vectors=vectors)

    def _embed(self, snapshot: Snapshot, served: Snapshot | None) -> Snapshot:
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
            return self._take(content, self._state).prepare()
        self._state = known = self._state or cache.open()
        snapshot = self._take(content, known) if known else None
        if known and snapshot and snapshot.reuses_all_of(known):
            logger.info("Using the index in %s", cache.folder)
            return snapshot.prepare()
        with cache.exclusive():
            newer = cache.open()  # another process may have built it meanwhile
            if newer or snapshot is None:
                self._state = known = newer
                snapshot = self._take(content, known)
            snapshot = snapshot.prepare()
            if not (known and snapshot.reuses_all_of(known)):
                logger.info("Keeping the index in %s", cache.folder)
                self._mounts.progress.begin("Keeping the index")
                if cache.save(snapshot.state):
                    # What was read is freed first: objects in between would keep its memory.
                    del snapshot, known, newer
                    self._state = None
                    self._inspected.clear()
                    self._state = cache.open()
                    snapshot = take_snapshot(content, self._settings, self._state)
        return snapshot.prepare()

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
        from skills_mcp.snapshots.indexes import IndexCache

        if self._cache is None:
            return None
        cache = IndexCache(self._cache, content, self._operator, self._rebuild)
        if self._index_cache is None or self._index_cache.folder != cache.folder:
            self._index_cache, self._state = cache, None
        return self._index_cache

    def _list_earlier(self, content: Content) -> list[SkillPath]:
        """List the skills of the last start, if the settings are others now."""
        cache = self._open_cache(content)
        return cache.list_earlier() if cache and cache.is_new else []

    def _report_losses(
        self, served: Collection[SkillPath], snapshot: Snapshot, *, is_of_settings: bool = False
    ) -> None:
        now, after = time.time(), snapshot.offered.by_path()
        cause = "with settings that are new since the last start, " if is_of_settings else ""
        for source in {part.mount.source for part in snapshot.content.parts}:
            known = self._losses.pop(source, None)
            before, rest = (self._list_skills(each, source) for each in (served, after))
            loss = derive_loss(before, rest, now, known)
            if loss and loss.happened_at == now:
                logger.warning("%s: %s%s", source.name, cause, loss)
            # That of a commit is published with it.
            if loss and (source.mode == "local" or is_of_settings or loss is known):
                self._losses[source] = loss

    def _retain(self, content: Content) -> None:
        """Retain recent files for agents: unreferenced checkouts are deleted."""
        if "packages" in self._operator.toolsets:
            now, retained = time.monotonic(), self._retained[1 - _MAX_RETAINED :]
            retained = [(t, c) for t, c in retained if now - t < _RETENTION_SECONDS]
            self._retained = [*retained, (now, content)]

    def close(self) -> None:
        if self._snapshot and self._snapshot.vectors:
            self._snapshot.vectors.close()
        if self._embedder:
            self._embedder.close()


def _find_excess(index: SkillIndex, folder: Path) -> str:
    """Describe powers beyond the allowance in the content's folder; empty without any."""
    described = [audit.describe_excess(index, folder) for audit in load_audits()]
    if all(excess is None for excess in described):
        return "this installation cannot tell powers"
    return next(filter(None, described), "")
