"""MCP extension for skills."""

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
    derive_uri,
    paginate,
    parse_uri,
)
from skills_mcp.skills.model import SkillPath
from skills_mcp.text.rendering import abbreviate_value

_Context = ServerRequestContext[Any, Any]

_SETTINGS = {"directoryRead": True}

# The SDK stamps core results only. A text may change without a notice, and so may its
# digest; callers do not share what they see.
_COMPLETE_RESULT = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

_FOLDER = "inode/directory"


class UriParams(RequestParams):
    uri: str


class FolderParams(PaginatedRequestParams):
    uri: str


class SkillsExtension:
    """Handlers of the skills extension: skills with digests of their files.

    Standard: https://github.com/modelcontextprotocol/ext-skills

    Args:
        read_seconds: Timeout of a request for one skill for the first content.
        list_seconds: Timeout of a list for content stored on this machine.
    """

    def __init__(self, library: SkillLibrary, *, read_seconds: float, list_seconds: float) -> None:
        self._library = library
        self._read_seconds = read_seconds
        self._list_seconds = list_seconds

    def register(self, server: Server[Any]) -> None:
        """Register methods and capability for both protocol eras."""
        server.extensions[EXTENSION] = _SETTINGS
        server.add_request_handler("skills/list", PaginatedRequestParams, self.list)
        server.add_request_handler("skills/get", UriParams, self.get)
        server.add_request_handler("resources/directory/read", FolderParams, self.list_folder)
        server.middleware.append(_declare_extension)

    async def list(self, ctx: _Context, params: PaginatedRequestParams | None) -> dict[str, Any]:
        cursor = params.cursor if params else None
        await self._library.wait_for_stored(self._list_seconds)
        if not self._library.is_ready:
            return {"skills": [], **_COMPLETE_RESULT}
        library = self._library.seen_by(caller_of(ctx).access)
        return await anyio.to_thread.run_sync(_list_extension_page, library, cursor)

    async def get(self, ctx: _Context, params: UriParams) -> dict[str, Any]:
        """One skill.

        Raises:
            MCPError: No skill has this URI, or there is no content yet.
        """
        library = await self._wait(ctx, params.uri)
        return await anyio.to_thread.run_sync(_get_entry, library, params.uri)

    async def list_folder(self, ctx: _Context, params: FolderParams) -> dict[str, Any]:
        """Direct children of a folder; always one page.

        Raises:
            MCPError: There is no such folder, or there is no content yet.
        """
        if params.cursor is not None:
            raise _invalid_params(
                params.uri,
                f"Unknown cursor: {abbreviate_value(params.cursor)}. Leave it out.",
            )
        library = await self._wait(ctx, params.uri)
        return await anyio.to_thread.run_sync(_list_folder, library, params.uri)

    async def _wait(self, ctx: _Context, uri: str) -> SkillLibrary:
        try:
            await self._library.wait_until_ready(self._read_seconds)
        except SkillsError as error:
            raise derive_protocol_error(error, LATEST_MODERN_VERSION, uri) from error
        return self._library.seen_by(caller_of(ctx).access)


async def _declare_extension(ctx: _Context, call_next: CallNext) -> HandlerResult:
    """Declare the extension in the handshake era: the SDK omits it there."""
    result = await call_next(ctx)
    if ctx.method != "initialize" or not isinstance(result, dict):
        return result
    extensions = {"extensions": {EXTENSION: _SETTINGS}}
    return {**result, "capabilities": {**result["capabilities"], **extensions}}


def _list_extension_page(library: SkillLibrary, cursor: str | None) -> dict[str, Any]:
    published = library.publish()

    def show(path: SkillPath) -> tuple[dict[str, Any], str] | None:
        skill = published.open(path)
        entry = _render_entry(skill) if skill else None
        return (entry, json.dumps(entry)) if entry else None

    skills, next_cursor = paginate(published, cursor, show)
    more = {"nextCursor": next_cursor} if next_cursor else {}
    return {"skills": skills, **more, **_COMPLETE_RESULT}


def _get_entry(library: SkillLibrary, uri: str) -> dict[str, Any]:
    match parse_uri(uri):
        case [name, file] if file == MAIN and (skill := _open_skill(library, name)):
            return {"skill": _render_entry(skill), **_COMPLETE_RESULT}
        case _:
            raise _invalid_params(
                uri,
                f"No skill is served at {abbreviate_value(uri)}. skills/list has them all.",
            )


def _list_folder(library: SkillLibrary, uri: str) -> dict[str, Any]:
    parts = parse_uri(uri) or [""]
    skill = _open_skill(library, parts[0])
    folder = "".join(f"{name}/" for name in parts[1:])
    children = _render_children(skill, folder) if skill else []
    if not children:
        raise _invalid_params(
            uri,
            f"{abbreviate_value(uri)} is no folder of a skill. The address of a skill in "
            f"skills/list without /{MAIN} is one.",
        )
    return {"resources": children, **_COMPLETE_RESULT}


def _open_skill(library: SkillLibrary, name: str) -> PublishedSkill | None:
    published = library.publish()
    path = published.names.find(name)
    return None if path is None else published.open(path)


def _render_entry(skill: PublishedSkill) -> dict[str, Any]:
    frontmatter = skill.text.frontmatter
    files = [
        {
            "uri": derive_uri(frontmatter["name"], entry.file),
            "digest": f"sha256:{entry.sha256}",
            "size": entry.size_bytes,
        }
        for entry in skill.files
    ]
    return {"uri": files[0]["uri"], "frontmatter": frontmatter, "resources": files}


def _render_children(skill: PublishedSkill, folder: str) -> list[dict[str, Any]]:
    name = skill.text.frontmatter["name"]
    children: dict[str, Resource] = {}
    for entry in skill.files:
        if not entry.file.startswith(folder):
            continue
        child, slash, _ = entry.file.removeprefix(folder).partition("/")
        uri = derive_uri(name, folder + child)
        if slash:
            children[child] = Resource(uri=uri, name=child, mime_type=_FOLDER)
            continue
        children[child] = Resource(
            uri=uri,
            name=name if entry.file == MAIN else child,
            description=skill.text.frontmatter["description"] if entry.file == MAIN else None,
            mime_type=entry.mime_type,
            size=entry.size_bytes,
        )
    return [
        child.model_dump(by_alias=True, exclude_none=True, mode="json")
        for child in children.values()
    ]


def _invalid_params(uri: str, message: str) -> MCPError:
    return MCPError(code=INVALID_PARAMS, message=message, data={"uri": uri})
