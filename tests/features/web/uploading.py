"""Archives that are sent to the pages of a library, as one caller sends them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import anyio
import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from skills_mcp.config import Config, Http
from skills_mcp.features.authoring.uploads import open_uploads
from skills_mcp.features.web.site import create_site, find_page_scopes
from skills_mcp.http.admission import BodyBufferMiddleware
from skills_mcp.http.authentication import require_sign_in
from skills_mcp.library import SkillLibrary
from skills_mcp.skills.access import EVERYTHING, PRINCIPAL_KEY, READ, UPLOAD, Access, Principal

INSTALL = "/api/skills/upload-install"

ADA = Principal("ada", "https://login.example.com", frozenset({READ, UPLOAD}), EVERYTHING)


def called_by(app: ASGIApp, principal: Principal) -> ASGIApp:
    """Return the pages as one caller gets them."""

    async def bound(scope: Scope, receive: Receive, send: Send) -> None:
        scope[PRINCIPAL_KEY] = principal
        await app(scope, receive, send)

    return bound


def sees(access: Access) -> Principal:
    """Return a caller who may upload, and sees a part."""
    return replace(ADA, access=access)


def open_site(library: SkillLibrary, caller: Principal | Http = ADA) -> ASGIApp:
    """Return the pages for a caller, or behind the sign-in of these settings."""
    site = create_site(library, uploads=open_uploads(library))
    if isinstance(caller, Principal):
        return called_by(site, caller)
    guarded = require_sign_in(site, Config(http=caller), find_page_scopes)
    return BodyBufferMiddleware(guarded, http=caller)


def send(
    library: SkillLibrary,
    archive: Path,
    caller: Principal | Http = ADA,
    headers: Mapping[str, str] | None = None,
    field: str = "file",
) -> httpx.Response:
    """Send an archive as a program does, while the library is kept fresh."""
    app = open_site(library, caller)
    files = {field: (archive.name, archive.read_bytes())}

    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with (
            anyio.create_task_group() as tasks,
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as it,
        ):
            tasks.start_soon(library.refresher.run)
            library.refresher.wake()
            reply = await it.post(INSTALL, files=files, headers=headers)
            tasks.cancel_scope.cancel()
        return reply

    return anyio.run(run)
