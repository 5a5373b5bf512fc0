"""`POST /api/skills/upload-install`: upload by a program."""

from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skills_mcp.features.web.page import get_site_state
from skills_mcp.features.web.rest_replies import build_upload_reply, render_reply
from skills_mcp.features.web.upload_form import (
    derive_sender_key,
    find_uploader,
    parsed_form,
    read_archive,
    wait_for_disconnect,
)

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
