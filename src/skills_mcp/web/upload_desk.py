"""Where archives come in, and wait for the decision of a person."""

import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from skills_mcp.authoring.intake.uploads import (
    AddedPackage,
    Uploader,
    UploadOffer,
    Uploads,
)

# Of archives that wait for a second click; the oldest ones go first.
_MAX_WAITING_BYTES = 64 * 1024 * 1024
_MAX_WAITING_SECONDS = 30 * 60.0

_MAX_UNPACKING = 2  # each may fill 64 MiB of the disk for a moment

# Other sources may be slow to answer; the skill is in its folder already.
_REFRESH_SECONDS = 20.0

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class SentArchive:
    """An archive as it was sent."""

    owner: str
    """Who has sent it."""
    suffix: str
    """The end of its name, which says what kind it is."""
    data: bytes = field(repr=False)


class UploadDesk:
    """Where archives come in.

    Args:
        uploads: Takes them.
        clock: Seconds that never go back.
    """

    def __init__(
        self, uploads: Uploads, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.uploads = uploads
        self._clock = clock
        self._waiting: dict[str, tuple[float, SentArchive]] = {}
        self._unpacking = anyio.CapacityLimiter(_MAX_UNPACKING)

    def keep(self, sent: SentArchive) -> str:
        """Keep an archive until its sender has decided; return what names it."""
        self._forget_old(len(sent.data))
        name = secrets.token_urlsafe(16)
        self._waiting[name] = (self._clock(), sent)
        return name

    def find(self, name: str, owner: str) -> SentArchive | None:
        """Return an archive of a sender; None if it is not kept any more."""
        self._forget_old(0)
        _, sent = self._waiting.get(name, (0.0, None))
        return sent if sent and sent.owner == owner else None

    def forget(self, name: str) -> None:
        """Keep an archive no longer."""
        self._waiting.pop(name, None)

    async def look(self, sent: SentArchive, uploader: Uploader) -> UploadOffer:
        """Return what an archive holds; its unpacked folder is gone again.

        Raises:
            SkillsError: It is refused.
        """

        def look() -> UploadOffer:
            with (
                _written(sent) as archive,
                self.uploads.looked_at(archive, uploader) as offer,
            ):
                return offer

        return await self.run(look)

    async def take(
        self, sent: SentArchive, uploader: Uploader
    ) -> tuple[AddedPackage, bool]:
        """Add a skill; return what was added, and whether it is served.

        Raises:
            SkillsError: It is refused.
        """

        def take() -> AddedPackage:
            with _written(sent) as archive:
                return self.uploads.take(archive, uploader)

        done = await self.run(take)
        if done.review:
            return done, False
        return done, await self.refresh(done.path, uploader)

    async def refresh(self, path: str, uploader: Uploader) -> bool:
        """Serve what was added; return whether the skill is among what is served."""
        with anyio.move_on_after(_REFRESH_SECONDS):
            await uploader.library.refresh()
        find = uploader.library.snapshot.index.get
        return await anyio.to_thread.run_sync(find, path) is not None

    async def run(self, work: Callable[[], Result]) -> Result:
        """Return the result of blocking work."""
        return await anyio.to_thread.run_sync(work, limiter=self._unpacking)

    def _forget_old(self, coming_bytes: int) -> None:
        oldest = self._clock() - _MAX_WAITING_SECONDS
        for name, (since, _) in tuple(self._waiting.items()):
            held = sum(len(sent.data) for _, sent in self._waiting.values())
            if since < oldest or held + coming_bytes > _MAX_WAITING_BYTES:
                del self._waiting[name]


@contextmanager
def _written(sent: SentArchive) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="skills-mcp-upload-") as folder:
        archive = Path(folder, f"archive{sent.suffix}")
        archive.write_bytes(sent.data)
        yield archive
