"""Add a skill: choose an archive, see what it holds, then take it or not."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skills_mcp.errors import InvalidArgumentsError, PackageNotAddedError, SkillsError
from skills_mcp.features.authoring.intake.uploads import EarlierVersions, UploadOffer
from skills_mcp.features.web.page import render_page, state_of
from skills_mcp.features.web.refused_page import derive_status, tell_person
from skills_mcp.features.web.upload_desk import UploadDesk
from skills_mcp.features.web.upload_form import (
    derive_owner,
    describe_need,
    find_uploader,
    opened_form,
    read_archive,
    wait_until_gone,
)
from skills_mcp.skills.principal import PRINCIPAL_KEY, UPLOAD, Principal

PATH = "/add"

_SHOWN_FILES = 200
_SHOWN_PROBLEMS = 50

_GONE = (
    "This archive is not kept any more: it was added already, or too much time has "
    "passed. Choose it again."
)


def add_routes() -> list[Route]:
    """Return the routes of the page."""
    return [
        Route(PATH, show_form, name="add", methods=["GET"]),
        Route(PATH, show_offer, methods=["POST"]),
        Route(f"{PATH}/take", take_offer, methods=["POST"]),
        Route(f"{PATH}/restore", restore_version, methods=["POST"]),
    ]


async def show_form(request: Request) -> Response:
    """Return the form, or what a person lacks who may not use it."""
    principal: Principal = request.scope[PRINCIPAL_KEY]
    if not principal.may(UPLOAD):
        return await _render(request, lacks=describe_need(principal))
    return await _render(request)


async def show_offer(request: Request) -> Response:
    """Return what an archive holds, and the button that takes it."""
    uploader, desk = find_uploader(request), _find_desk(request)
    try:
        async with opened_form(request) as form:
            sent = await read_archive(form, derive_owner(request))
        offer = await desk.look(sent, uploader, partial(wait_until_gone, request))
    except SkillsError as error:
        return await _render(request, refusal=error)
    return await _render(request, offer=offer, archive=desk.keep(sent))


async def take_offer(request: Request) -> Response:
    """Take an archive that was looked at; after a failure it can be tried again."""
    uploader, desk = find_uploader(request), _find_desk(request)
    name = await _read_field(request, "archive")
    sent = desk.find(name, derive_owner(request))
    if sent is None:
        return await _render(request, refusal=PackageNotAddedError(_GONE))
    try:
        gone = partial(wait_until_gone, request)
        done, is_served = await desk.take(sent, uploader, gone)
    except SkillsError as error:
        return await _render(request, refusal=error)
    desk.forget(name)
    return await _render(request, done=done, is_served=is_served)


async def restore_version(request: Request) -> Response:
    """Take a skill back to an earlier version."""
    uploader, desk = find_uploader(request), _find_desk(request)
    name = await _read_field(request, "name")
    version = await _read_field(request, "version")
    try:
        restore = partial(desk.uploads.restore, name, version, uploader)
        path = await desk.run(restore, partial(wait_until_gone, request))
    except SkillsError as error:
        return await _render(request, refusal=error)
    is_served = await desk.refresh(path, uploader)
    restored = {"path": path, "version": version}
    return await _render(request, restored=restored, is_served=is_served)


async def _render(
    request: Request, refusal: SkillsError | None = None, **content: Any
) -> Response:
    versions: Sequence[EarlierVersions] = ()
    offer: UploadOffer | None = content.get("offer")
    if offer is None and "lacks" not in content:
        desk, uploader = _find_desk(request), find_uploader(request)
        versions = await desk.run(lambda _: desk.uploads.find_versions(uploader))
    shown = {"offer": None, "done": None, "restored": None, "lacks": "", **content}
    return render_page(
        request,
        "add.html",
        status=derive_status(refusal) if refusal else 200,
        refusal=tell_person(refusal) if refusal else "",
        most_bytes=state_of(request).library.config.http.max_body_bytes,
        most_files=_SHOWN_FILES,
        most_problems=_SHOWN_PROBLEMS,
        versions=versions,
        is_reviewed=_is_reviewed(request),
        **shown,
    )


async def _read_field(request: Request, name: str) -> str:
    """Return a field of the form.

    Raises:
        InvalidArgumentsError: It is missing.
    """
    async with opened_form(request) as form:
        value = form.get(name)
    if isinstance(value, str):
        return value
    raise InvalidArgumentsError(f"{name}: is missing in the form.")


def _is_reviewed(request: Request) -> bool:
    desk = state_of(request).desk
    return desk is not None and desk.uploads.is_reviewed


def _find_desk(request: Request) -> UploadDesk:
    desk = state_of(request).desk
    if desk is None:
        raise HTTPException(404)
    return desk
