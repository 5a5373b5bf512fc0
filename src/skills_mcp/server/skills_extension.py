"""The MCP extension for skills: a list of them with the digest of each of their files.

The files themselves are read as resources.  See
https://github.com/modelcontextprotocol/ext-skills for the standard.
"""

import json
from typing import Any

import anyio.to_thread
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams, RequestParams, Resource
from mcp_types.version import LATEST_MODERN_VERSION

from skills_mcp.errors import SkillsError
from skills_mcp.library import SkillLibrary
from skills_mcp.library.published_skills import PublishedSkill
from skills_mcp.server.callers import caller_of
from skills_mcp.server.replies import derive_protocol_error
from skills_mcp.server.resources import (
    EXTENSION,
    MAIN,
    cut_page,
    derive_uri,
    parse_uri,
)
from skills_mcp.skills.model import SkillPath
from skills_mcp.text.rendering import shorten

_Context = ServerRequestContext[Any, Any]

_SETTINGS = {"directoryRead": True}

# The SDK stamps core results only. A text may change without a notice, and so may its
# digest; callers do not share what they see.
_COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

_FOLDER = "inode/directory"


class UriParams(RequestParams):
    """What asks for one skill."""

    uri: str


class FolderParams(PaginatedRequestParams):
    """What asks for a folder of a skill."""

    uri: str


class SkillsExtension:
    """Lists the skills of a library as the extension has it, and their folders.

    Args:
        library: The skills.
        read_seconds: How long a request for one skill waits for the very first content.
        list_seconds: How long a list waits for content that is on this machine.
    """

    def __init__(
        self, library: SkillLibrary, *, read_seconds: float, list_seconds: float
    ) -> None:
        self._library = library
        self._read_seconds = read_seconds
        self._list_seconds = list_seconds

    def join(self, server: Server[Any]) -> None:
        """Answer its methods in both protocol eras, and declare it in both."""
        server.extensions[EXTENSION] = _SETTINGS
        server.add_request_handler("skills/list", PaginatedRequestParams, self.list)
        server.add_request_handler("skills/get", UriParams, self.get)
        server.add_request_handler(
            "resources/directory/read", FolderParams, self.list_folder
        )
        server.middleware.append(_declare)

    async def list(
        self, ctx: _Context, params: PaginatedRequestParams | None
    ) -> dict[str, Any]:
        """Return a page of the skills; without content yet, none at all."""
        cursor = params.cursor if params else None
        await self._library.wait_for_stored(self._list_seconds)
        if not self._library.is_ready:
            return {"skills": [], **_COMPLETE}
        library = self._library.seen_by(caller_of(ctx).access)
        return await anyio.to_thread.run_sync(_list_page, library, cursor)

    async def get(self, ctx: _Context, params: UriParams) -> dict[str, Any]:
        """Return one skill.

        Raises:
            MCPError: No skill has this address, or there is no content yet.
        """
        library = await self._wait(ctx, params.uri)
        return await anyio.to_thread.run_sync(_get, library, params.uri)

    async def list_folder(self, ctx: _Context, params: FolderParams) -> dict[str, Any]:
        """Return what lies directly in a folder of a skill; always on one page.

        Raises:
            MCPError: There is no such folder, or there is no content yet.
        """
        if params.cursor is not None:
            raise _refuse(
                params.uri, f"Unknown cursor: {shorten(params.cursor)}. Leave it out."
            )
        library = await self._wait(ctx, params.uri)
        return await anyio.to_thread.run_sync(_list_folder, library, params.uri)

    async def _wait(self, ctx: _Context, uri: str) -> SkillLibrary:
        try:
            await self._library.wait_until_ready(self._read_seconds)
        except SkillsError as error:
            raise derive_protocol_error(error, LATEST_MODERN_VERSION, uri) from error
        return self._library.seen_by(caller_of(ctx).access)


async def _declare(ctx: _Context, call_next: CallNext) -> HandlerResult:
    """Declare the extension to earlier clients, too, whose capabilities are open.

    The SDK leaves extensions out of its answer to `initialize`.
    """
    result = await call_next(ctx)
    if ctx.method != "initialize" or not isinstance(result, dict):
        return result
    extensions = {"extensions": {EXTENSION: _SETTINGS}}
    return {**result, "capabilities": {**result["capabilities"], **extensions}}


def _list_page(library: SkillLibrary, cursor: str | None) -> dict[str, Any]:
    published = library.publish()

    def show(path: SkillPath) -> tuple[dict[str, Any], str] | None:
        skill = published.open(path)
        entry = _render_entry(skill) if skill else None
        return (entry, json.dumps(entry)) if entry else None

    skills, next_cursor = cut_page(published, cursor, show)
    more = {"nextCursor": next_cursor} if next_cursor else {}
    return {"skills": skills, **more, **_COMPLETE}


def _get(library: SkillLibrary, uri: str) -> dict[str, Any]:
    match parse_uri(uri):
        case [name, file] if file == MAIN and (skill := _open(library, name)):
            return {"skill": _render_entry(skill), **_COMPLETE}
        case _:
            raise _refuse(
                uri, f"No skill is served at {shorten(uri)}. skills/list has them all."
            )


def _list_folder(library: SkillLibrary, uri: str) -> dict[str, Any]:
    parts = parse_uri(uri) or [""]
    skill = _open(library, parts[0])
    folder = "".join(f"{name}/" for name in parts[1:])
    children = _render_children(skill, folder) if skill else []
    if not children:
        raise _refuse(
            uri,
            f"{shorten(uri)} is no folder of a skill. The address of a skill in "
            f"skills/list without /{MAIN} is one.",
        )
    return {"resources": children, **_COMPLETE}


def _open(library: SkillLibrary, name: str) -> PublishedSkill | None:
    published = library.publish()
    path = published.names.find(name)
    return None if path is None else published.open(path)


def _render_entry(skill: PublishedSkill) -> dict[str, Any]:
    frontmatter = skill.text.frontmatter
    files = [
        {
            "uri": derive_uri(frontmatter["name"], each.file),
            "digest": f"sha256:{each.sha256}",
            "size": each.size_bytes,
        }
        for each in skill.files
    ]
    return {"uri": files[0]["uri"], "frontmatter": frontmatter, "resources": files}


def _render_children(skill: PublishedSkill, folder: str) -> list[dict[str, Any]]:
    """Return the files and the folders that lie in a folder, each once."""
    name = skill.text.frontmatter["name"]
    children: dict[str, Resource] = {}
    for each in skill.files:
        if not each.file.startswith(folder):
            continue
        child, slash, _ = each.file.removeprefix(folder).partition("/")
        uri = derive_uri(name, folder + child)
        if slash:
            children[child] = Resource(uri=uri, name=child, mime_type=_FOLDER)
            continue
        children[child] = Resource(
            uri=uri,
            name=name if each.file == MAIN else child,
            description=skill.text.frontmatter["description"]
            if each.file == MAIN
            else None,
            mime_type=each.mime_type,
            size=each.size_bytes,
        )
    return [
        child.model_dump(by_alias=True, exclude_none=True, mode="json")
        for child in children.values()
    ]


def _refuse(uri: str, message: str) -> MCPError:
    return MCPError(code=INVALID_PARAMS, message=message, data={"uri": uri})
