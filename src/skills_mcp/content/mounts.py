"""Several sources that are served together as one tree.

Rule 1: a source that fails keeps what it had, and takes nothing from the others.
Rule 2: a source is asked once in a sync, however often it is mounted, so two
folders of one repository are always of the same commit.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from skills_mcp.content.source import (
    Checkout,
    Content,
    ContentSource,
    Failure,
    Mode,
    Mount,
    Part,
    SourceState,
)
from skills_mcp.errors import SyncError

# A fetch mostly waits, so the limit is for the remotes' sake and for ours: no more
# processes of Git than a laptop has room for.
_PARALLEL_SYNCS = 16


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a source has to offer, and why it is nothing newer."""

    checkout: Checkout | None
    error: SyncError | None = None


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

    def sync(self) -> Content:
        """Bring the newest content of every source here, all at the same time.

        What a source could not do is among the `failures`, and its last good
        checkout among the `parts`.

        Raises:
            SyncError: There is nothing at all, or the only source has failed.
        """
        if len(self._sources) == 1:
            [source] = self._sources
            return self._lay_out({source: _Outcome(source.sync())})
        content = self._lay_out(self._sync_all())
        if content.error and not content.parts:
            raise content.error
        return content

    def count_changes(self, before: Content | None, after: Content) -> int:
        """Return how many files of all sources differ."""
        old = _checkouts(before) if before else {}
        return sum(
            source.count_changes(old.get(source), new)
            for source, new in _checkouts(after).items()
            if not _is_same(old.get(source), new)
        )

    def derive_states(self, content: Content | None) -> tuple[SourceState, ...]:
        """Say how each source is doing; a folder that nobody named has to be there."""
        parts = {p.mount: p.checkout for p in content.parts} if content else {}
        failures = {f.mount: f.error for f in content.failures} if content else {}
        return tuple(
            _derive_state(mount, parts.get(mount), failures.get(mount))
            for mount in self.mounts
            if mount.scope == "org" or mount in parts or mount in failures
        )

    def close(self) -> None:
        """Give up: end the syncs that are running, and start none any more."""
        for source in self._sources:
            source.close()

    def _sync_all(self) -> dict[ContentSource, _Outcome]:
        workers = min(_PARALLEL_SYNCS, len(self._sources))
        with ThreadPoolExecutor(workers, thread_name_prefix="sync") as pool:
            try:
                outcomes = list(pool.map(self._sync, self._sources))
            except KeyboardInterrupt:
                self.close()  # or the pool would wait for every fetch
                raise
        return dict(zip(self._sources, outcomes, strict=True))

    def _sync(self, source: ContentSource) -> _Outcome:
        try:
            return _Outcome(source.sync())
        except SyncError as error:
            # What is served before what another process has published meanwhile:
            # a sync that fails changes nothing.
            kept = self._newest.get(source) or source.published()
            return _Outcome(kept, error)

    def _open(self, source: ContentSource) -> _Outcome:
        if source.mode == "git":
            return _Outcome(source.published())
        return self._sync(source)

    def _lay_out(self, outcomes: Mapping[ContentSource, _Outcome]) -> Content:
        for source, outcome in outcomes.items():
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


def _derive_state(
    mount: Mount, checkout: Checkout | None, error: SyncError | None
) -> SourceState:
    return SourceState(
        mount=mount.at,
        name=mount.source.name,
        mode=mount.source.mode,
        commit=checkout.revision if checkout else None,
        synced_at=checkout.synced_at if checkout else None,
        error=error,
    )
