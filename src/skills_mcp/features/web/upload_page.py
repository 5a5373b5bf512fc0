"""Skills and texts over HTTP: the queue of archives, the pages, and the REST route.

The routes exist only where the operator allows uploads.

Rule: no answer loses the text of a form. It stays in the form, so that any replica may
get the next click.
"""

import io
import json
import logging
import secrets
import time
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote

import anyio
import anyio.to_thread
from anyio import CancelScope, get_cancelled_exc_class
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skills_mcp import errors
from skills_mcp.events.collector.event_store import EventStore, PendingFiles
from skills_mcp.features.authoring.package_archive import UploadAttempt
from skills_mcp.features.authoring.text_proposals import (
    MAX_REASON,
    ProposedText,
    SentText,
    SourceText,
    TextCheck,
    TextProposals,
    describe_conflict,
)
from skills_mcp.features.authoring.uploads import (
    AddedPackage,
    PreviousVersions,
    Uploader,
    UploadPreview,
    Uploads,
)
from skills_mcp.features.web import page
from skills_mcp.features.web.browser import VISITOR_KEY, Visitor
from skills_mcp.features.web.browsing import derive_title
from skills_mcp.features.web.rest import build_upload_reply, render_reply
from skills_mcp.files.locks import locked_temporary_folder
from skills_mcp.library import Loss, Snapshot
from skills_mcp.skills.access import PRINCIPAL_KEY, UPLOAD, Principal
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_discovery import MAX_SKILL_BYTES
from skills_mcp.skills.skill_parser import derive_slug

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


class PendingArchives(Protocol):
    """Archives that wait for a second click, as `PendingFiles` has them.  Blocking.

    Raises:
        EventStoreError: By every method: they are in a database that cannot be used.
    """

    def put(self, name: str, owner: str, suffix: str, data: bytes) -> None: ...
    def find(self, name: str, owner: str) -> tuple[str, bytes] | None: ...
    def delete(self, name: str) -> None: ...


class ArchivesInMemory:
    """Pending archives of a server without a database."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[float, UploadedArchive]] = {}
        self._guard = Lock()

    def put(self, name: str, owner: str, suffix: str, data: bytes) -> None:
        with self._guard:
            self._evict_expired(len(data))
            self._waiting[name] = (time.monotonic(), UploadedArchive(owner, suffix, data))

    def find(self, name: str, owner: str) -> tuple[str, bytes] | None:
        with self._guard:
            self._evict_expired(0)
            _, sent = self._waiting.get(name, (0.0, None))
        return (sent.suffix, sent.data) if sent and sent.owner == owner else None

    def delete(self, name: str) -> None:
        with self._guard:
            self._waiting.pop(name, None)

    def _evict_expired(self, coming_bytes: int) -> None:
        oldest = time.monotonic() - _MAX_WAITING_SECONDS
        for name, (since, _) in tuple(self._waiting.items()):
            stored_bytes = sum(len(sent.data) for _, sent in self._waiting.values())
            if since < oldest or stored_bytes + coming_bytes > _MAX_WAITING_BYTES:
                del self._waiting[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedUpload:
    """Whether an uploaded skill is served, and the loss that came with it."""

    is_served: bool
    loss: Loss | None = None


class UploadQueue:
    """Receives archives and runs uploads.

    Args:
        uploads: Installs packages.
        store: Keeps archives between the two requests of a person, of which each may reach
            another replica; without one, the memory does.
    """

    def __init__(self, uploads: Uploads, store: EventStore | None = None) -> None:
        self.uploads = uploads
        max_age = timedelta(seconds=_MAX_WAITING_SECONDS)
        self._pending: PendingArchives = ArchivesInMemory()
        if store:
            self._pending = PendingFiles(store, _MAX_WAITING_BYTES, max_age)
        self._unpacking = anyio.CapacityLimiter(_MAX_UNPACKING)

    async def keep(self, sent: UploadedArchive) -> str:
        """Store an archive until its sender confirms; return its token."""
        name = secrets.token_urlsafe(16)
        parts = (name, sent.owner, sent.suffix, sent.data)
        await anyio.to_thread.run_sync(self._pending.put, *parts)
        return name

    async def find(self, name: str, owner: str) -> UploadedArchive | None:
        """Look up a sender's archive; None if expired."""
        found = await anyio.to_thread.run_sync(self._pending.find, name, owner)
        return UploadedArchive(owner, *found) if found else None

    async def forget(self, name: str) -> None:
        await anyio.to_thread.run_sync(self._pending.delete, name)

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
        *,
        replaced: str | None = None,
    ) -> tuple[AddedPackage, "ServedUpload"]:
        """Install a skill; return the result, and whether it is served.

        Raises:
            SkillsError: It is refused.
        """

        def take(attempt: UploadAttempt) -> AddedPackage:
            with _written(sent) as archive:
                return self.uploads.take(archive, uploader, attempt, replaced=replaced)

        done = await self.run(take, gone)
        if done.review:
            return done, ServedUpload(is_served=False)
        return done, await self.refresh(done.path, uploader)

    async def refresh(self, path: str, uploader: Uploader) -> "ServedUpload":
        """Refresh the sources; return whether the skill is served, and a loss.

        It is already in its folder: an aborted request answers that it is not served.
        """
        view, loss = uploader.library, None
        with suppress(get_cancelled_exc_class()):
            with anyio.move_on_after(_REFRESH_SECONDS):
                loss = (await view.library.refresh(view.access)).changes.loss
            find = view.renew().snapshot.index.get
            is_served = await anyio.to_thread.run_sync(find, path) is not None
            return ServedUpload(is_served=is_served, loss=loss)
        return ServedUpload(is_served=False, loss=loss)

    async def run(
        self,
        work: Callable[[UploadAttempt], Result],
        gone: WaitForDisconnect = anyio.sleep_forever,
    ) -> Result:
        """Run blocking work with a deadline.

        It is cancelled when the client disconnects, or the server shuts down and
        cancels this task. Work finished by then counts.

        Raises:
            UploadStoppedError: It was cancelled, or the disk is full.
        """
        running = _UploadTask(work, self._unpacking)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(running.run, gone)
                try:
                    await running.done.wait()
                except get_cancelled_exc_class():
                    running.attempt.stop()
                    with CancelScope(shield=True):
                        await running.done.wait()
        except get_cancelled_exc_class():
            if not running.done.is_set():  # else it came while the group was left
                raise
        return running.result()


class _UploadTask(Generic[Result]):
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


def _explain(error: OSError) -> errors.UploadStoppedError:
    logger.warning("An upload has found no room, or no permission: %s", error)
    stopped = errors.UploadStoppedError(
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


_FIELD = "file"

_MAX_FIELDS = 8
_MAX_PART_BYTES = 2 * MAX_SKILL_BYTES  # each line end may have one byte more in a form

_KINDS = (".zip", ".skill", ".tar.gz", ".tgz")


def find_uploader(request: Request) -> Uploader:
    """Caller of an upload, if permitted.

    Raises:
        HTTPException: The caller may not upload.
    """
    principal: Principal = request.scope[PRINCIPAL_KEY]
    if not principal.may(UPLOAD):
        raise HTTPException(403, describe_missing_scope(principal))
    visitor: Visitor | None = request.scope.get(VISITOR_KEY)
    display_name = visitor.name if visitor else ""
    name = principal.subject or "a caller without sign-in"
    label = f"{display_name} ({name})" if display_name and display_name != name else name
    return Uploader(label, page.get_visible_library(request))


def derive_sender_key(request: Request) -> str:
    """Unique key of a sender."""
    principal: Principal = request.scope[PRINCIPAL_KEY]
    return f"{principal.issuer}\n{principal.subject}"


def describe_missing_scope(principal: Principal) -> str:
    """Explain the missing permission."""
    if principal.subject:
        return f"Adding skills needs the scope {UPLOAD}: ask your operator for it"
    return (
        f"Adding skills needs the scope {UPLOAD}, which callers without sign-in do "
        "not have here. Operators: let people sign in and give them the scope, or "
        "name it in http.anonymous"
    )


@asynccontextmanager
async def parsed_form(request: Request) -> AsyncIterator[FormData]:
    """Parse the form of a request; closed with the block.

    Raises:
        InvalidArgumentsError: Its charset, which may be any codec, cannot be decoded.
    """
    try:
        form = await request.form(
            max_files=1, max_fields=_MAX_FIELDS, max_part_size=_MAX_PART_BYTES
        )
    except UnicodeError as error:
        raise errors.InvalidArgumentsError("The form cannot be read: send UTF-8.") from error
    try:
        yield form
    finally:
        await form.close()


async def _find_archive(form: FormData, owner: str) -> UploadedArchive:
    """Read the archive of a form into memory, bounded by the request limit.

    Raises:
        InvalidArgumentsError: There is none.
    """
    sent = form.get(_FIELD)
    if not isinstance(sent, UploadFile) or not sent.filename:
        raise errors.InvalidArgumentsError(
            f"There is no archive. Send a .zip or a .tar.gz in the field {_FIELD}."
        )
    name = sent.filename.lower()
    suffix = next((kind for kind in _KINDS if name.endswith(kind)), "")
    return UploadedArchive(owner, suffix, await sent.read())


ADD_PATH = "/add"

_SHOWN_FILES = 200
_SHOWN_PROBLEMS = 50

_GONE = (
    "This archive is not kept any more: it was added already, too much time has "
    "passed, or the server was restarted. Choose it again, or check your text again."
)


def add_routes() -> list[Route]:
    return [
        Route(ADD_PATH, show_form, name="add", methods=["GET"]),
        Route(ADD_PATH, show_offer, methods=["POST"]),
        Route(f"{ADD_PATH}/take", show_form, methods=["GET"]),  # the page is opened again
        Route(f"{ADD_PATH}/take", take_offer, methods=["POST"]),
        Route(f"{ADD_PATH}/restore", show_form, methods=["GET"]),
        Route(f"{ADD_PATH}/restore", restore_version, methods=["POST"]),
    ]


async def show_form(request: Request) -> Response:
    """Show the upload form, or the missing permission."""
    principal: Principal = request.scope[PRINCIPAL_KEY]
    if not principal.may(UPLOAD):
        return await _render(request, lacks=describe_missing_scope(principal))
    task = request.query_params.get("for", "")
    return await _render(request, written=SkillForm(description=task) if task else None)


async def show_offer(request: Request) -> Response:
    """Preview an archive, or a skill written in the form, with a button to confirm."""
    uploader, queue = find_uploader(request), get_upload_queue(request)
    written: SkillForm | None = None
    try:
        async with parsed_form(request) as form:
            written, owner = _find_written(form), derive_sender_key(request)
            sent = written.pack(owner) if written else await _find_archive(form, owner)
        offer = await queue.look(sent, uploader, partial(page.wait_for_disconnect, request.receive))
        archive = await queue.keep(sent)
    except errors.SkillsError as error:
        return await _render(request, refusal=error, written=written)
    return await _render(request, offer=offer, archive=archive, written=written)


@dataclass(frozen=True, slots=True)
class SkillForm:
    """A new skill, as the form sends it."""

    name: str = ""
    description: str = ""
    text: str = ""

    def pack(self, owner: str) -> UploadedArchive:
        """Pack it as a package; the same words make the same archive."""
        fields = {"name": derive_slug(self.name), "description": " ".join(self.description.split())}
        # A string of JSON is one of YAML.
        lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
        body = self.text.strip()
        heading = "" if body.startswith("#") else f"# {self.name.strip()}\n\n"
        text = "\n".join(["---", *lines, "---", "", f"{heading}{body}", ""])
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(zipfile.ZipInfo("SKILL.md"), text.encode("utf-8", "replace"))
        return UploadedArchive(owner, ".zip", packed.getvalue())


def _find_written(form: FormData) -> SkillForm | None:
    """Skill that was written in the form; None if it has an archive."""
    name, description, text = (form.get(key) for key in ("name", "description", "text"))
    if not (isinstance(name, str) and isinstance(description, str) and isinstance(text, str)):
        return None
    return SkillForm(name, description, text.replace("\r\n", "\n"))


async def take_offer(request: Request) -> Response:
    """Install a previewed archive; retryable after a failure."""
    uploader, queue = find_uploader(request), get_upload_queue(request)
    name = await read_field(request, "archive")
    replaced = await read_field(request, "replaced")
    written = _find_written(await request.form())  # the same form, which is kept
    sent = await queue.find(name, derive_sender_key(request))
    if sent is None:
        return await _render(request, errors.PackageNotAddedError(_GONE), written=written)
    try:
        gone = partial(page.wait_for_disconnect, request.receive)
        done, served = await queue.take(sent, uploader, gone, replaced=replaced)
    except errors.SkillsError as error:
        return await _render(request, refusal=error, written=written)
    with suppress(errors.EventStoreError):  # it is added; the archive goes with its age
        await queue.forget(name)
    return await _render(request, done=done, is_served=served.is_served, loss=served.loss)


async def restore_version(request: Request) -> Response:
    """Restore a previous version of a skill."""
    uploader, queue = find_uploader(request), get_upload_queue(request)
    name = await read_field(request, "name")
    version = await read_field(request, "version")
    try:
        restore = partial(queue.uploads.restore, name, version, uploader)
        path = await queue.run(restore, partial(page.wait_for_disconnect, request.receive))
    except errors.SkillsError as error:
        return await _render(request, refusal=error)
    served = await queue.refresh(path, uploader)
    restored = {"path": path, "version": version}
    return await _render(request, restored=restored, is_served=served.is_served, loss=served.loss)


async def _render(
    request: Request, refusal: errors.SkillsError | None = None, **content: Any
) -> Response:
    versions: Sequence[PreviousVersions] = ()
    offer: UploadPreview | None = content.get("offer")
    if offer is None and "lacks" not in content:
        queue, uploader = get_upload_queue(request), find_uploader(request)
        versions = await queue.run(lambda _: queue.uploads.find_versions(uploader))
    absent = dict.fromkeys(("offer", "written", "done", "restored", "lacks", "loss"))
    return page.render_template(
        request,
        "add.html",
        status=page.derive_status(refusal) if refusal else 200,
        refusal=page.describe_for_person(refusal) if refusal else "",
        most_bytes=page.get_site_state(request).library.config.http.max_body_bytes,
        most_files=_SHOWN_FILES,
        most_problems=_SHOWN_PROBLEMS,
        versions=versions,
        is_reviewed=get_upload_queue(request).uploads.is_reviewed,
        **absent | content,
    )


async def read_field(request: Request, name: str) -> str:
    """Read a form field.

    Raises:
        InvalidArgumentsError: It is missing.
    """
    async with parsed_form(request) as form:
        value = form.get(name)
    if isinstance(value, str):
        return value
    raise errors.InvalidArgumentsError(f"{name}: is missing in the form.")


def get_upload_queue(request: Request) -> UploadQueue:
    queue: UploadQueue = request.app.state.upload_queue
    return queue


UPLOAD_INSTALL_PATH = "/api/skills/upload-install"

_CREATED = 201


def upload_routes() -> list[Route]:
    return [Route(UPLOAD_INSTALL_PATH, install_upload, methods=["POST"])]


async def install_upload(request: Request) -> Response:
    uploader, queue = find_uploader(request), get_upload_queue(request)
    async with parsed_form(request) as form:
        sent = await _find_archive(form, derive_sender_key(request))
    gone = partial(page.wait_for_disconnect, request.receive)
    done, served = await queue.take(sent, uploader, gone)
    reply = build_upload_reply(done, is_served=served.is_served, loss=served.loss)
    return Response(render_reply(reply), _CREATED, media_type="application/json")


PROPOSE_PATH = "/propose"

_SHOWN_FINDINGS = 50
_SHOWN_CHANGES = 50
_SHOWN_LINES = 1_000

_SEND = "send"


def propose_routes() -> list[Route]:
    return [
        Route(f"{PROPOSE_PATH}/{{path:path}}", show_text, methods=["GET"]),
        Route(f"{PROPOSE_PATH}/{{path:path}}", check_or_send, methods=["POST"]),
    ]


def find_propose_url(request: Request, snapshot: Snapshot, skill: Skill) -> str:
    """Path of the form; empty if the caller cannot change the skill here."""
    queue: UploadQueue | None = getattr(request.app.state, "upload_queue", None)
    principal: Principal = request.scope[PRINCIPAL_KEY]
    if queue is None or not principal.may(UPLOAD):
        return ""
    takes = TextProposals(queue.uploads).takes(snapshot, skill)
    return f"{PROPOSE_PATH}/{quote(skill.path)}" if takes else ""


async def show_text(request: Request) -> Response:
    """Show the text of a skill in a form, or the missing permission."""
    principal: Principal = request.scope[PRINCIPAL_KEY]
    path: str = request.path_params["path"]
    if not principal.may(UPLOAD):
        return _render_proposal(request, path, lacks=describe_missing_scope(principal))
    uploader, queue = find_uploader(request), get_upload_queue(request)
    proposals = TextProposals(queue.uploads)
    try:
        current: SourceText = await queue.run(lambda _: proposals.open(path, uploader))
    except errors.PackageNotAddedError as error:
        return _render_proposal(request, path, refusal=page.describe_for_person(error), status=409)
    sent = ProposedText(current.skill.path, current.digest, current.text)
    return _render_proposal(request, path, proposed=sent, file=current.file)


async def check_or_send(request: Request) -> Response:
    """Show the effect of a text, and send a text after it was shown."""
    uploader, queue = find_uploader(request), get_upload_queue(request)
    async with parsed_form(request) as form:
        proposed = _read_proposed(request.path_params["path"], form)
        is_confirmed = form.get("action") == _SEND and form.get("checked") == _digest(proposed)
    proposals = TextProposals(queue.uploads)
    gone = partial(page.wait_for_disconnect, request.receive)
    try:
        base = await queue.run(lambda _: proposals.open(proposed.path, uploader).digest, gone)
        if is_confirmed and base == proposed.base:
            send = partial(proposals.send, proposed, uploader)
            done: SentText = await queue.run(send, gone)
            return await _show_sent(request, done)
        check: TextCheck = await queue.run(partial(proposals.check, proposed, uploader), gone)
    except errors.SkillsError as error:
        return _show_refused(request, proposed, error)
    refusal = check.refusal
    if check.base != proposed.base:
        refusal = describe_conflict(proposed.path)
    status = 409 if refusal else 200
    return _render_check(request, proposed, check, refusal, status)


def _read_proposed(path: str, form: FormData) -> ProposedText:
    """Read the fields of the form.

    Raises:
        InvalidArgumentsError: One is missing.
    """
    text, base, reason = (form.get(name) for name in ("text", "base", "reason"))
    if not isinstance(text, str) or not isinstance(base, str):
        raise errors.InvalidArgumentsError(
            "text and base: are missing in the form. Open the page anew."
        )
    reason = reason if isinstance(reason, str) else ""
    return ProposedText(path, base, text.replace("\r\n", "\n"), reason[:MAX_REASON])


def _digest(proposed: ProposedText) -> str:
    """Digest of the checked text and of the text that it replaces."""
    whole = f"{proposed.base}\n{proposed.text}"
    return sha256(whole.encode("utf-8", "replace")).hexdigest()


async def _show_sent(request: Request, done: SentText) -> Response:
    is_served = False
    if done.review is None:
        queue, uploader = get_upload_queue(request), find_uploader(request)
        is_served = (await queue.refresh(done.path, uploader)).is_served
    return _render_proposal(request, done.path, done=done, is_served=is_served)


def _show_refused(request: Request, proposed: ProposedText, error: errors.SkillsError) -> Response:
    refusal, status = page.describe_for_person(error), page.derive_status(error)
    return _render_proposal(
        request, proposed.path, proposed=proposed, refusal=refusal, status=status
    )


def _render_check(
    request: Request, proposed: ProposedText, check: TextCheck, refusal: str, status: int
) -> Response:
    newest = ProposedText(proposed.path, check.base, proposed.text, proposed.reason)
    may_send = not check.refusal
    return _render_proposal(
        request,
        proposed.path,
        proposed=newest,
        check=check,
        checked=_digest(newest) if may_send else "",
        refusal=refusal,
        status=status,
    )


def _find_title(request: Request, path: str) -> str:
    skill = page.get_visible_library(request).snapshot.index.get(path)
    return derive_title(skill.path, skill.body) if skill else path


def _render_proposal(request: Request, path: str, *, status: int = 200, **content: Any) -> Response:
    absent: dict[str, Any] = {"proposed": None, "check": None, "done": None, "is_served": False}
    absent |= {"lacks": "", "refusal": "", "checked": "", "file": ""}
    return page.render_template(
        request,
        "propose.html",
        status=status,
        path=path,
        title=_find_title(request, path),
        action=f"{PROPOSE_PATH}/{quote(path)}",
        is_reviewed=get_upload_queue(request).uploads.is_reviewed,
        most_reason=MAX_REASON,
        most_problems=_SHOWN_FINDINGS,
        most_changes=_SHOWN_CHANGES,
        most_lines=_SHOWN_LINES,
        **{**absent, **content},
    )
