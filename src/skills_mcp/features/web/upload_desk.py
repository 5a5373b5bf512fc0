"""Where archives come in, and wait for the decision of a person."""

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
from skills_mcp.features.authoring.intake.upload_attempt import UploadAttempt
from skills_mcp.features.authoring.intake.uploads import (
    AddedPackage,
    Uploader,
    UploadOffer,
    Uploads,
)
from skills_mcp.files.temporary_folders import temporary_folder

logger = logging.getLogger(__name__)

# Of archives that wait for a second click; the oldest ones go first.
_MAX_WAITING_BYTES = 64 * 1024 * 1024
_MAX_WAITING_SECONDS = 30 * 60.0

_MAX_UNPACKING = 2  # each may fill 64 MiB of the disk for a moment

# Other sources may be slow to answer; the skill is in its folder already.
_REFRESH_SECONDS = 20.0

Result = TypeVar("Result")

Gone = Callable[[], Awaitable[object]]
"""Returns when the client has closed its connection."""


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

    async def look(
        self, sent: SentArchive, uploader: Uploader, gone: Gone = anyio.sleep_forever
    ) -> UploadOffer:
        """Return what an archive holds; its unpacked folder is gone again.

        Raises:
            SkillsError: It is refused.
        """

        def look(attempt: UploadAttempt) -> UploadOffer:
            with (
                _written(sent) as archive,
                self.uploads.looked_at(archive, uploader, attempt) as offer,
            ):
                return offer

        return await self.run(look, gone)

    async def take(
        self, sent: SentArchive, uploader: Uploader, gone: Gone = anyio.sleep_forever
    ) -> tuple[AddedPackage, bool]:
        """Add a skill; return what was added, and whether it is served.

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
        """Serve what was added; return whether the skill is among what is served.

        It is in its folder already: where the request ends now, that is the answer.
        """
        with suppress(get_cancelled_exc_class()):
            with anyio.move_on_after(_REFRESH_SECONDS):
                await uploader.library.refresh()
            find = uploader.library.snapshot.index.get
            return await anyio.to_thread.run_sync(find, path) is not None
        return False

    async def run(
        self,
        work: Callable[[UploadAttempt], Result],
        gone: Gone = anyio.sleep_forever,
    ) -> Result:
        """Return the result of blocking work, which has a deadline.

        The work is asked to stop when the client is gone, and when this task is
        cancelled: the server does that as it ends. What is finished by then counts.

        Raises:
            UploadStoppedError: It was stopped, or there is no room for it.
        """
        running = _Running(work, self._unpacking)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(running.run, gone)
            try:
                await running.done.wait()
            except get_cancelled_exc_class():
                running.attempt.stop()
                with CancelScope(shield=True):
                    await running.done.wait()
        return running.result()

    def _forget_old(self, coming_bytes: int) -> None:
        oldest = self._clock() - _MAX_WAITING_SECONDS
        for name, (since, _) in tuple(self._waiting.items()):
            held = sum(len(sent.data) for _, sent in self._waiting.values())
            if since < oldest or held + coming_bytes > _MAX_WAITING_BYTES:
                del self._waiting[name]


class _Running(Generic[Result]):
    """Blocking work of one request.

    Its thread has a task of its own: the one of the request may be cancelled by the
    server, which would forget the thread and free its slot.
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

    async def run(self, gone: Gone) -> None:
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

    async def _stop_when(self, gone: Gone) -> None:
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
def _written(sent: SentArchive) -> Iterator[Path]:
    with temporary_folder("skills-mcp-upload-") as folder:
        archive = folder / f"archive{sent.suffix}"
        archive.write_bytes(sent.data)
        yield archive
