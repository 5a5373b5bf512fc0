"""Upload requests: archive and sender."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skills_mcp.errors import InvalidArgumentsError, PackageNotAddedError, SkillsError
from skills_mcp.features.authoring.uploads import PreviousVersions, Uploader, UploadPreview
from skills_mcp.features.web.browser import VISITOR_KEY, Visitor
from skills_mcp.features.web.page import (
    derive_status,
    describe_for_person,
    get_site_state,
    get_visible_library,
    render_template,
)
from skills_mcp.features.web.rest import build_upload_reply, render_reply
from skills_mcp.features.web.upload_queue import UploadedArchive, UploadQueue
from skills_mcp.skills.access import PRINCIPAL_KEY, UPLOAD, Principal

_FIELD = "file"

_MAX_FIELDS = 8

_KINDS = (".zip", ".tar.gz", ".tgz")


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
    return Uploader(label, get_visible_library(request))


def derive_sender_key(request: Request) -> str:
    """Unique key of a sender."""
    principal: Principal = request.scope[PRINCIPAL_KEY]
    return f"{principal.issuer}\0{principal.subject}"


def describe_missing_scope(principal: Principal) -> str:
    """Explain the missing permission."""
    if principal.subject:
        return f"Adding skills needs the scope {UPLOAD}: ask your operator for it"
    return (
        f"Adding skills needs the scope {UPLOAD}, which callers without sign-in do "
        "not have here. Operators: let people sign in and give them the scope, or "
        "name it in http.anonymous"
    )


async def read_archive(form: FormData, owner: str) -> UploadedArchive:
    """Read the archive of a form into memory, bounded by the request limit.

    Raises:
        InvalidArgumentsError: There is none.
    """
    sent = form.get(_FIELD)
    if not isinstance(sent, UploadFile) or not sent.filename:
        raise InvalidArgumentsError(
            f"There is no archive. Send a .zip or a .tar.gz in the field {_FIELD}."
        )
    name = sent.filename.lower()
    suffix = next((kind for kind in _KINDS if name.endswith(kind)), "")
    return UploadedArchive(owner, suffix, await sent.read())


async def wait_for_disconnect(request: Request) -> None:
    """Wait for the disconnect, after the body was read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


@asynccontextmanager
async def parsed_form(request: Request) -> AsyncIterator[FormData]:
    """Parse the form of a request; closed with the block.

    Raises:
        InvalidArgumentsError: Its charset, which may be any codec, cannot be decoded.
    """
    try:
        form = await request.form(max_files=1, max_fields=_MAX_FIELDS)
    except UnicodeError as error:
        raise InvalidArgumentsError("The form cannot be read: send UTF-8.") from error
    try:
        yield form
    finally:
        await form.close()


ADD_PATH = "/add"

_SHOWN_FILES = 200
_SHOWN_PROBLEMS = 50

_GONE = (
    "This archive is not kept any more: it was added already, or too much time has "
    "passed. Choose it again."
)


def add_routes() -> list[Route]:
    return [
        Route(ADD_PATH, show_form, name="add", methods=["GET"]),
        Route(ADD_PATH, show_offer, methods=["POST"]),
        Route(f"{ADD_PATH}/take", take_offer, methods=["POST"]),
        Route(f"{ADD_PATH}/restore", restore_version, methods=["POST"]),
    ]


async def show_form(request: Request) -> Response:
    """Show the upload form, or the missing permission."""
    principal: Principal = request.scope[PRINCIPAL_KEY]
    if not principal.may(UPLOAD):
        return await _render(request, lacks=describe_missing_scope(principal))
    return await _render(request)


async def show_offer(request: Request) -> Response:
    """Preview an archive, with a button to confirm."""
    uploader, desk = find_uploader(request), _find_desk(request)
    try:
        async with parsed_form(request) as form:
            sent = await read_archive(form, derive_sender_key(request))
        offer = await desk.look(sent, uploader, partial(wait_for_disconnect, request))
    except SkillsError as error:
        return await _render(request, refusal=error)
    return await _render(request, offer=offer, archive=desk.keep(sent))


async def take_offer(request: Request) -> Response:
    """Install a previewed archive; retryable after a failure."""
    uploader, desk = find_uploader(request), _find_desk(request)
    name = await _read_field(request, "archive")
    sent = desk.find(name, derive_sender_key(request))
    if sent is None:
        return await _render(request, refusal=PackageNotAddedError(_GONE))
    try:
        gone = partial(wait_for_disconnect, request)
        done, is_served = await desk.take(sent, uploader, gone)
    except SkillsError as error:
        return await _render(request, refusal=error)
    desk.forget(name)
    return await _render(request, done=done, is_served=is_served)


async def restore_version(request: Request) -> Response:
    """Restore a previous version of a skill."""
    uploader, desk = find_uploader(request), _find_desk(request)
    name = await _read_field(request, "name")
    version = await _read_field(request, "version")
    try:
        restore = partial(desk.uploads.restore, name, version, uploader)
        path = await desk.run(restore, partial(wait_for_disconnect, request))
    except SkillsError as error:
        return await _render(request, refusal=error)
    is_served = await desk.refresh(path, uploader)
    restored = {"path": path, "version": version}
    return await _render(request, restored=restored, is_served=is_served)


async def _render(request: Request, refusal: SkillsError | None = None, **content: Any) -> Response:
    versions: Sequence[PreviousVersions] = ()
    offer: UploadPreview | None = content.get("offer")
    if offer is None and "lacks" not in content:
        desk, uploader = _find_desk(request), find_uploader(request)
        versions = await desk.run(lambda _: desk.uploads.find_versions(uploader))
    variables = {"offer": None, "done": None, "restored": None, "lacks": "", **content}
    return render_template(
        request,
        "add.html",
        status=derive_status(refusal) if refusal else 200,
        refusal=describe_for_person(refusal) if refusal else "",
        most_bytes=get_site_state(request).library.config.http.max_body_bytes,
        most_files=_SHOWN_FILES,
        most_problems=_SHOWN_PROBLEMS,
        versions=versions,
        is_reviewed=_is_reviewed(request),
        **variables,
    )


async def _read_field(request: Request, name: str) -> str:
    """Read a form field.

    Raises:
        InvalidArgumentsError: It is missing.
    """
    async with parsed_form(request) as form:
        value = form.get(name)
    if isinstance(value, str):
        return value
    raise InvalidArgumentsError(f"{name}: is missing in the form.")


def _is_reviewed(request: Request) -> bool:
    desk = get_site_state(request).desk
    return desk is not None and desk.uploads.is_reviewed


def _find_desk(request: Request) -> UploadQueue:
    desk = get_site_state(request).desk
    if desk is None:
        raise HTTPException(404)
    return desk


UPLOAD_INSTALL_PATH = "/api/skills/upload-install"

_CREATED = 201


def upload_routes() -> list[Route]:
    return [Route(UPLOAD_INSTALL_PATH, install_upload, methods=["POST"])]


async def install_upload(request: Request) -> Response:
    uploader, desk = find_uploader(request), get_site_state(request).desk
    if desk is None:
        raise HTTPException(404)
    async with parsed_form(request) as form:
        sent = await read_archive(form, derive_sender_key(request))
    gone = partial(wait_for_disconnect, request)
    done, is_served = await desk.take(sent, uploader, gone)
    reply = build_upload_reply(done, is_served=is_served)
    return Response(render_reply(reply), _CREATED, media_type="application/json")
