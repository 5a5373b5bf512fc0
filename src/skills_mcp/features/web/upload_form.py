"""What a request to add a skill holds: an archive, and who has sent it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.features.authoring.intake.uploads import Uploader
from skills_mcp.features.web.page import library_of
from skills_mcp.features.web.upload_desk import SentArchive
from skills_mcp.features.web.visitors import VISITOR_KEY, Visitor
from skills_mcp.skills.principal import PRINCIPAL_KEY, UPLOAD, Principal

_FIELD = "file"

_MAX_FIELDS = 8

_KINDS = (".zip", ".tar.gz", ".tgz")


def find_uploader(request: Request) -> Uploader:
    """Return who asks, if that caller may add skills.

    Raises:
        HTTPException: The caller may not.
    """
    principal: Principal = request.scope[PRINCIPAL_KEY]
    if not principal.may(UPLOAD):
        raise HTTPException(403, describe_need(principal))
    visitor: Visitor | None = request.scope.get(VISITOR_KEY)
    shown = visitor.name if visitor else ""
    name = principal.subject or "a caller without sign-in"
    told = f"{shown} ({name})" if shown and shown != name else name
    return Uploader(told, library_of(request))


def derive_owner(request: Request) -> str:
    """Return what tells the sender of an archive from all others."""
    principal: Principal = request.scope[PRINCIPAL_KEY]
    return f"{principal.issuer}\0{principal.subject}"


def describe_need(principal: Principal) -> str:
    """Return what a caller lacks who may not add skills."""
    if principal.subject:
        return f"Adding skills needs the scope {UPLOAD}: ask your operator for it"
    return (
        f"Adding skills needs the scope {UPLOAD}, which callers without sign-in do "
        "not have here. Operators: let people sign in and give them the scope, or "
        "name it in http.anonymous"
    )


async def read_archive(form: FormData, owner: str) -> SentArchive:
    """Return the archive of a form, which is in memory: the request was bounded.

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
    return SentArchive(owner, suffix, await sent.read())


async def wait_until_gone(request: Request) -> None:
    """Return when the client has closed its connection; its body was read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


@asynccontextmanager
async def opened_form(request: Request) -> AsyncIterator[FormData]:
    """Open the form of a request: it is closed with the block.

    Raises:
        InvalidArgumentsError: Its charset, which may be any codec, cannot be read.
    """
    try:
        form = await request.form(max_files=1, max_fields=_MAX_FIELDS)
    except UnicodeError as error:
        raise InvalidArgumentsError("The form cannot be read: send UTF-8.") from error
    try:
        yield form
    finally:
        await form.close()
