"""`POST /api/skills/upload-install`: a program adds a skill from an archive."""

from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skills_mcp.features.web.page import state_of
from skills_mcp.features.web.rest_replies import derive_upload, render_reply
from skills_mcp.features.web.upload_form import (
    derive_owner,
    find_uploader,
    opened_form,
    read_archive,
    wait_until_gone,
)

PATH = "/api/skills/upload-install"

_CREATED = 201


def upload_routes() -> list[Route]:
    """Return the route of this address."""
    return [Route(PATH, install_upload, methods=["POST"])]


async def install_upload(request: Request) -> Response:
    """Add the skill of an archive, and say what it is."""
    uploader, desk = find_uploader(request), state_of(request).desk
    if desk is None:
        raise HTTPException(404)
    async with opened_form(request) as form:
        sent = await read_archive(form, derive_owner(request))
    gone = partial(wait_until_gone, request)
    done, is_served = await desk.take(sent, uploader, gone)
    reply = derive_upload(done, is_served=is_served)
    return Response(render_reply(reply), _CREATED, media_type="application/json")
