"""Upload queue: pending archives, and deadlines of blocking work."""

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import anyio
import anyio.to_thread
from anyio import CancelScope, get_cancelled_exc_class

from skills_mcp.errors import UploadStoppedError
from skills_mcp.features.authoring.package_archive import UploadAttempt
from skills_mcp.features.authoring.uploads import (
    AddedPackage,
    Uploader,
    UploadPreview,
    Uploads,
)
from skills_mcp.files.locks import locked_temporary_folder

logger = logging.getLogger(__name__)

# Of archives that wait for a second click; the oldest ones go first.
_MAX_WAITING_BYTES = 64 * 1024 * 1024
_MAX_WAITING_SECONDS = 30 * 60.0

_MAX_UNPACKING = 2  # each may fill 64 MiB of the disk for a moment

# Other sources may be slow to answer; the skill is in its folder already.
_REFRESH_SECONDS = 20.0

Result = TypeVar("Result")

WaitForDisconnect = Callable[[], Awaitable[object]]
"""Waits for the client to disconnect."""


@dataclass(frozen=True, slots=True)
class UploadedArchive:
    """An uploaded archive."""

    owner: str
    """Identity of the sender."""
    suffix: str
    """File extension, for the format."""
    data: bytes = field(repr=False)


class UploadQueue:
    """Receives archives and runs uploads.

    Args:
        uploads: Installs packages.
        clock: Monotonic clock, in seconds.
    """

    def __init__(self, uploads: Uploads, clock: Callable[[], float] = time.monotonic) -> None:
        self.uploads = uploads
        self._clock = clock
        self._waiting: dict[str, tuple[float, UploadedArchive]] = {}
        self._unpacking = anyio.CapacityLimiter(_MAX_UNPACKING)

    def keep(self, sent: UploadedArchive) -> str:
        """Store an archive until its sender confirms; return its token."""
        self._evict_expired(len(sent.data))
        name = secrets.token_urlsafe(16)
        self._waiting[name] = (self._clock(), sent)
        return name

    def find(self, name: str, owner: str) -> UploadedArchive | None:
        """Look up a sender's archive; None if expired."""
        self._evict_expired(0)
        _, sent = self._waiting.get(name, (0.0, None))
        return sent if sent and sent.owner == owner else None

    def forget(self, name: str) -> None:
        self._waiting.pop(name, None)

    async def look(
        self,
        sent: UploadedArchive,
        uploader: Uploader,
        gone: WaitForDisconnect = anyio.sleep_forever,
    ) -> UploadPreview:
        """Preview an archive; the temporary folder is already deleted.

        Raises:
            SkillsError: It is refused.
        """

        def look(attempt: UploadAttempt) -> UploadPreview:
            with (
                _written(sent) as archive,
                self.uploads.preview(archive, uploader, attempt) as offer,
            ):
                return offer

        return await self.run(look, gone)

    async def take(
        self,
        sent: UploadedArchive,
        uploader: Uploader,
        gone: WaitForDisconnect = anyio.sleep_forever,
    ) -> tuple[AddedPackage, bool]:
        """Install a skill; return the result, and whether it is served.

        Raises:
            SkillsError: It is refused.
        """

        def take(attempt: UploadAttempt) -> AddedPackage:
            with _written(sent) as archive:
                return self.uploads.take(archive, uploader, attempt)

        done = await self.run(take, gone)
        if done.review:
            return done, False
        return done, await self.refresh(done.path, uploader)

    async def refresh(self, path: str, uploader: Uploader) -> bool:
        """Refresh the sources; return whether the skill is served.

        It is already in its folder: an aborted request answers False.
        """
        view = uploader.library
        with suppress(get_cancelled_exc_class()):
            with anyio.move_on_after(_REFRESH_SECONDS):
                await view.library.refresh(view.access)
            find = view.renew().snapshot.index.get
            return await anyio.to_thread.run_sync(find, path) is not None
        return False

    async def run(
        self,
        work: Callable[[UploadAttempt], Result],
        gone: WaitForDisconnect = anyio.sleep_forever,
    ) -> Result:
        """Run blocking work with a deadline.

        It is cancelled when the client disconnects, or the server shuts down and
        cancels this
        task. Work finished by then counts.

        Raises:
            UploadStoppedError: It was cancelled, or the disk is full.
        """
        running = _UploadTask(work, self._unpacking)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(running.run, gone)
            try:
                await running.done.wait()
            except get_cancelled_exc_class():
                running.attempt.stop()
                with CancelScope(shield=True):
                    await running.done.wait()
        return running.result()

    def _evict_expired(self, coming_bytes: int) -> None:
        oldest = self._clock() - _MAX_WAITING_SECONDS
        for name, (since, _) in tuple(self._waiting.items()):
            stored_bytes = sum(len(sent.data) for _, sent in self._waiting.values())
            if since < oldest or stored_bytes + coming_bytes > _MAX_WAITING_BYTES:
                del self._waiting[name]


class _UploadTask(Generic[Result]):
    """Blocking work of one request.

    Its thread has a task of its own: the one of the request may be cancelled by the
    server,
    which would forget the thread and free its slot.
    """

    def __init__(
        self, work: Callable[[UploadAttempt], Result], limiter: anyio.CapacityLimiter
    ) -> None:
        self.attempt = UploadAttempt()
        self.done = anyio.Event()
        self._work = work
        self._limiter = limiter
        self._results: list[Result] = []
        self._error: Exception | None = None

    async def run(self, gone: WaitForDisconnect) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._stop_when, gone)
                with CancelScope(shield=True):
                    await self._work_in_thread()
                tasks.cancel_scope.cancel()
        finally:
            self.done.set()

    async def _work_in_thread(self) -> None:
        try:
            begin = self._begin
            result = await anyio.to_thread.run_sync(begin, limiter=self._limiter)
            self._results.append(result)
        except OSError as error:
            self._error = _explain(error)
        except Exception as error:  # noqa: BLE001 - `result` raises it
            self._error = error

    async def _stop_when(self, gone: WaitForDisconnect) -> None:
        await gone()
        self.attempt.stop()

    def result(self) -> Result:
        if self._error:
            raise self._error
        return self._results[0]

    def _begin(self) -> Result:
        self.attempt.begin()
        self.attempt.check()
        return self._work(self.attempt)


def _explain(error: OSError) -> UploadStoppedError:
    logger.warning("An upload has found no room, or no permission: %s", error)
    stopped = UploadStoppedError(
        "The server has no room for the upload, or may not write it. Nothing was "
        "added: tell the operator, who finds the reason in the log"
    )
    stopped.__cause__ = error
    return stopped


@contextmanager
def _written(sent: UploadedArchive) -> Iterator[Path]:
    with locked_temporary_folder("skills-mcp-upload-") as folder:
        archive = folder / f"archive{sent.suffix}"
        archive.write_bytes(sent.data)
        yield archive
