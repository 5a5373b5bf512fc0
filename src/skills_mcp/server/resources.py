"""Skills as MCP resources: `skill://ui/react/auth/SKILL.md`, and their files below it.

A `SKILL.md` here is the text that `load_skill` returns, also for a rule file. Any other
file is read as `get_asset` reads it, with the same limits and errors.
"""

import base64
import binascii
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any
from urllib.parse import quote, unquote

import anyio.to_thread
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from skills_mcp.errors import (
    SkillDisabledError,
    SkillNotFoundError,
    SkillsError,
)
from skills_mcp.files.paths import MAX_PARTS
from skills_mcp.library import (
    LoadedSkill,
    Provenance,
    ServedFile,
    SkillLibrary,
    Snapshot,
    derive_provenance,
    derive_sha256,
)
from skills_mcp.server.callers import caller_of
from skills_mcp.server.replies import cut_description, derive_protocol_error
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.model import Skill
from skills_mcp.text.rendering import shorten

PAGE_SIZE = 100
"""As many as a host shows at once; ten thousand would be 3 MB."""

MAIN = "SKILL.md"

_SCHEME = "skill://"
_MARKDOWN = "text/markdown"
_PLAIN = "text/plain"
_MAX_NAMES = 2 * MAX_PARTS  # of folders above a skill, and of those below it

_Context = ServerRequestContext[Any, Any]

TEMPLATES = (
    ResourceTemplate(
        name="skill",
        title="A skill",
        uri_template=f"{_SCHEME}{{+skill_path}}/{MAIN}",
        description="The rules of a skill, below those that it inherits.",
        mime_type=_MARKDOWN,
    ),
    ResourceTemplate(
        name="skill-file",
        title="A file of a skill",
        uri_template=f"{_SCHEME}{{+skill_path}}/{{+file}}",
        description="An asset or a script, by its name in the skill's folder.",
    ),
)
"""The URIs that can be read without being listed."""


class Resources:
    """Lists and reads the skills of a library as resources.

    Args:
        library: The skills.
        wait_seconds: How long a read waits for the very first content.
    """

    def __init__(self, library: SkillLibrary, *, wait_seconds: float) -> None:
        self._library = library
        self._wait_seconds = wait_seconds

    async def list(
        self, ctx: _Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Return a page of the skills; without content yet, none at all.

        Hosts ask when a session starts, so it never waits for a sync.
        """
        cursor = params.cursor if params else None
        if not self._library.is_ready:
            return ListResourcesResult(resources=[])
        library = self._library.seen_by(caller_of(ctx).access)
        return await anyio.to_thread.run_sync(_list_page, library, cursor)

    async def list_templates(
        self, _: _Context, __: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """Return the templates of the URIs of skills and of their files."""
        return ListResourceTemplatesResult(resource_templates=[*TEMPLATES])

    async def read(
        self, ctx: _Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        """Return a skill's text or one of its files; waits for the first content.

        Raises:
            MCPError: It cannot be read; `data` has the code of the `SkillsError`.
        """
        try:
            await self._library.wait_until_ready(self._wait_seconds)
            library = self._library.seen_by(caller_of(ctx).access)
            read = await anyio.to_thread.run_sync(_read, library, params.uri)
        except SkillsError as error:
            version = ctx.protocol_version
            raise derive_protocol_error(error, version, params.uri) from error
        return ReadResourceResult(contents=[_render(params.uri, read)])


def derive_uri(skill: Skill) -> str:
    """Return the URI of a skill's text.

    A character that a URI cannot hold is escaped, also in the first name: it stands
    where other schemes have a host.
    """
    return f"{_SCHEME}{quote(skill.path)}/{MAIN}"


def find_resource(index: SkillIndex, uri: str) -> tuple[str, str]:
    """Return the path of the skill that a URI names, and the file in its folder.

    If skills lie inside one another, it is the innermost one that has the file.

    Raises:
        SkillNotFoundError: No skill is served there.
        SkillDisabledError: The operator does not offer it.
    """
    places = list(_split(uri))
    named = [(path, file) for path, file in places if index.get(path)]
    for path, file in named:
        if file == MAIN or _has(index, path, file):
            return path, file
    if named:
        return named[0]
    if not places:
        raise SkillNotFoundError(
            f"This is no address of a skill. They look like "
            f"{_SCHEME}ui/react/auth/{MAIN}; resources/list has them."
        )
    errors = [index.not_found(path) for path, _ in places]
    raise next((e for e in errors if isinstance(e, SkillDisabledError)), errors[0])


def _has(index: SkillIndex, path: str, file: str) -> bool:
    skill = index.get(path)
    return skill is not None and any(each.file == file for each in skill.entries())


def _split(uri: str) -> Iterator[tuple[str, str]]:
    """Yield each way to divide a URI into skill and file, the longest path first."""
    scheme, separator, place = uri.partition("://")
    if not separator or scheme.lower() != _SCHEME.removesuffix("://"):
        return
    # Separated first: an escaped slash is none.
    names = [unquote(name) for name in place.split("/")[:_MAX_NAMES]]
    for end in range(len(names) - 1, 0, -1):
        yield "/".join(names[:end]), "/".join(names[end:])


def _list_page(library: SkillLibrary, cursor: str | None) -> ListResourcesResult:
    """Return the skills after the last one of the previous page.

    A page begins at a path and not at a number: a refresh between two pages repeats
    no skill that stays, and leaves none out. Long descriptions make it shorter.
    """
    snapshot = library.snapshot
    index = snapshot.index
    start = 0
    if cursor is not None:
        last = _parse_cursor(cursor)
        start = bisect_right(index.listed, last, key=lambda row: row.path)
    skills = index.offered[start : start + PAGE_SIZE]
    described = [_describe(snapshot, skill) for skill in skills]
    limit = snapshot.config.responses.max_characters
    sizes = accumulate(len(each.model_dump_json(by_alias=True)) for each in described)
    count = max(1, bisect_right(list(sizes), limit))
    is_more = start + count < len(index)
    return ListResourcesResult(
        resources=described[:count],
        next_cursor=_render_cursor(skills[:count][-1].path) if is_more else None,
    )


def _describe(snapshot: Snapshot, skill: Skill) -> Resource:
    return Resource(
        uri=derive_uri(skill),
        name=skill.name,
        description=cut_description(skill.description),
        mime_type=_MARKDOWN,
        _meta=_meta(derive_provenance(snapshot.content, snapshot.index, skill)),
    )


def _read(library: SkillLibrary, uri: str) -> LoadedSkill | ServedFile:
    path, file = find_resource(library.snapshot.index, uri)
    if file == MAIN:
        return library.load_skill(path)
    return library.read_asset(path, file)


def _render(
    uri: str, read: LoadedSkill | ServedFile
) -> TextResourceContents | BlobResourceContents:
    meta = _meta(read.provenance)
    if isinstance(read, LoadedSkill):
        meta["sha256"] = derive_sha256(read.instructions)
        return TextResourceContents(
            uri=uri, mime_type=_MARKDOWN, text=read.instructions, _meta=meta
        )
    content = read.content
    meta["sha256"] = derive_sha256(content.data)
    if content.is_binary:
        blob = base64.b64encode(content.data).decode("ascii")
        return BlobResourceContents(
            uri=uri, mime_type=content.mime_type, blob=blob, _meta=meta
        )
    kind = _MARKDOWN if read.file.lower().endswith(".md") else _PLAIN
    text = content.data.decode("utf-8")
    return TextResourceContents(uri=uri, mime_type=kind, text=text, _meta=meta)


def _meta(provenance: Provenance) -> dict[str, Any]:
    """Return where it comes from, without keys that have no value."""
    others = {path: c for path, c in provenance.inherited_commits.items() if c}
    meta = {
        "commit": provenance.commit,
        "path": provenance.path,
        "inherited_commits": others,
    }
    return {key: value for key, value in meta.items() if value}


def _render_cursor(path: str) -> str:
    return base64.urlsafe_b64encode(path.encode("utf-8", "surrogatepass")).decode()


def _parse_cursor(cursor: str) -> str:
    try:
        path = base64.b64decode(cursor, altchars=b"-_", validate=True)
        return path.decode("utf-8", "surrogatepass")
    except (binascii.Error, ValueError) as error:
        raise MCPError(
            code=INVALID_PARAMS,
            message=f"Unknown cursor: {shorten(cursor)}. Begin again without one.",
        ) from error
