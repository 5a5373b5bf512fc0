"""Upload requests: archive and sender."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.features.authoring.intake.uploads import Uploader
from skills_mcp.features.web.page import get_visible_library
from skills_mcp.features.web.upload_desk import UploadedArchive
from skills_mcp.features.web.visitors import VISITOR_KEY, Visitor
from skills_mcp.skills.principal import PRINCIPAL_KEY, UPLOAD, Principal

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
