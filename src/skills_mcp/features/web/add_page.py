"""Uploads by people and programs: choose an archive, preview it, then confirm."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skills_mcp.errors import InvalidArgumentsError, PackageNotAddedError, SkillsError
from skills_mcp.features.authoring.intake.uploads import PreviousVersions, UploadPreview
from skills_mcp.features.web.page import get_site_state, render_template
from skills_mcp.features.web.refused_page import derive_status, describe_for_person
from skills_mcp.features.web.upload_desk import UploadQueue
from skills_mcp.features.web.upload_form import (
    derive_sender_key,
    describe_missing_scope,
    find_uploader,
    parsed_form,
    read_archive,
    wait_for_disconnect,
)
from skills_mcp.skills.principal import PRINCIPAL_KEY, UPLOAD, Principal

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
