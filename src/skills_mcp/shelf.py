"""What is served now, and how it is replaced: one assignment, so nothing is mixed."""

import time
from dataclasses import replace

import anyio.to_thread

from skills_mcp.answers import Refreshed, derive_refreshed
from skills_mcp.config import Config, Settings
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.refresher import Refresher
from skills_mcp.content.source import Content
from skills_mcp.errors import ContentUnavailableError, SkillsError
from skills_mcp.snapshot import Snapshot, log_news, take_snapshot

_KEPT_SECONDS = 60 * 60.0  # longer than an agent works with one skill's folder


class Shelf:
    """Holds the current snapshot of all sources and keeps it fresh."""

    def __init__(self, mounts: Mounts, settings: Settings) -> None:
        self._mounts = mounts
        self._settings = settings
        self._operator = settings.resolve()
        self._snapshot: Snapshot | None = None
        self._kept: list[tuple[float, Content]] = []
        self._refresher = Refresher(mounts, self.load, self._interval_minutes)

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

    def load(self, content: Content) -> None:
        """Make content what is served (001 §4.6).  Blocking.

        Commits that are served already are not read again, unless somebody has
        changed their files.
        """
        served = self._snapshot
        if served and served.is_still(content):
            self._snapshot = replace(served, content=content)
            return
        snapshot = take_snapshot(content, self._settings)
        log_news(snapshot, served)
        if served:
            self._keep(served.content)
        self._snapshot = snapshot

    def _keep(self, content: Content) -> None:
        """Keep files on the disk whose paths an agent may be working with.

        `load_skill` says where a skill lies (000 §3.3), and a commit's folder is
        deleted as soon as nobody refers to its checkout.
        """
        if "packages" in self._operator.toolsets:
            now = time.monotonic()
            recent = [(t, c) for t, c in self._kept if now - t < _KEPT_SECONDS]
            self._kept = [*recent, (now, content)]

    async def refresh(self) -> Refreshed:
        """Bring the newest content here; failure is a result, too (001 §8.6)."""
        before = self._snapshot
        error: SkillsError | None = None
        try:
            await self._refresher.refresh()
        except SkillsError as failure:
            error = failure
        after = self._snapshot
        changed = 0
        if after and (before is None or before.content is not after.content):
            changed = await anyio.to_thread.run_sync(
                self._mounts.count_changes,
                before.content if before else None,
                after.content,
            )
        return derive_refreshed(
            self._mounts.derive_states(after.content if after else None),
            files_changed=changed,
            skills_reindexed=len(after.index) if after else 0,
            error=error,
        )

    def close(self) -> None:
        """End a sync that is running."""
        self._mounts.close()

    def _interval_minutes(self) -> float | None:
        """001 §9.3 knows a timer for Git only; a folder is read on request."""
        rules = self.config.refresh
        timed = rules.enabled and self._mounts.mode == "git"
        return rules.interval_minutes if timed else None
