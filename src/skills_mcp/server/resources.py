"""Skills as MCP resources: `skill://pdf/SKILL.md`, and their files below it.

A `SKILL.md` here is the text that `load_skill` returns below frontmatter, also for a
rule file. Any other file is read as `get_asset` reads it, with the same limits and
errors. A skill has two addresses: by its legal name, which is listed, and by its path.
"""

import base64
import binascii
import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar
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
    derive_provenance,
    derive_sha256,
)
from skills_mcp.library.published_skills import (
    PublishedNames,
    PublishedSkills,
    derive_mime_type,
)
from skills_mcp.processes.memory import out_of_memory_named
from skills_mcp.server.callers import caller_of
from skills_mcp.server.replies import derive_protocol_error
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.model import SkillPath
from skills_mcp.text.rendering import shorten

PAGE_SIZE = 100
"""As many as a host shows at once; ten thousand would be 3 MB."""

MAIN = "SKILL.md"

EXTENSION = "io.modelcontextprotocol/skills"
"""The identifier of the extension for skills."""

META_PREFIX = "io.modelcontextprotocol.skills/"
"""Of each key of `_meta`, as the extension asks for."""

INDEX_URI = "skill://index.json"
"""What clients read that know an earlier draft of the extension."""

_SCHEME = "skill://"
_MARKDOWN = "text/markdown"
_INDEX_SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
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
        read_seconds: How long a read waits for the very first content.
        list_seconds: How long a list waits for content that is on this machine.
    """

    def __init__(
        self, library: SkillLibrary, *, read_seconds: float, list_seconds: float
    ) -> None:
        self._library = library
        self._read_seconds = read_seconds
        self._list_seconds = list_seconds

    async def list(
        self, ctx: _Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Return a page of the skills; without content yet, none at all.

        Hosts ask once, when a session starts: it waits for what is on this machine,
        and never for the network.
        """
        cursor = params.cursor if params else None
        await self._library.wait_for_stored(self._list_seconds)
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
            await self._library.wait_until_ready(self._read_seconds)
            library = self._library.seen_by(caller_of(ctx).access)
            with out_of_memory_named():
                read = await anyio.to_thread.run_sync(_read, library, params.uri)
        except SkillsError as error:
            version = ctx.protocol_version
            raise derive_protocol_error(error, version, params.uri) from error
        return ReadResourceResult(contents=[read])


def derive_uri(name: str, file: str = MAIN) -> str:
    """Return the URI of a file of a skill with this name, or at this path.

    A character that a URI cannot hold is escaped, also in the first name: it stands
    where other schemes have a host.
    """
    return f"{_SCHEME}{quote(name)}/{quote(file)}"


def parse_uri(uri: str) -> list[str] | None:
    """Return the names that a URI is made of; None for that of another scheme."""
    scheme, separator, place = uri.partition("://")
    if not separator or scheme.lower() != _SCHEME.removesuffix("://"):
        return None
    # Separated first: an escaped slash is none.
    return [unquote(name) for name in place.split("/")[:_MAX_NAMES]]


def find_resource(
    index: SkillIndex, names: PublishedNames, uri: str
) -> tuple[str, str]:
    """Return the path of the skill that a URI names, and the file in its folder.

    The name of a skill comes before a path. If skills lie inside one another, it is the
    innermost one that has the file.

    Raises:
        SkillNotFoundError: No skill is served there.
        SkillDisabledError: The operator does not offer it.
    """
    parts = parse_uri(uri) or []
    own = names.find(parts[0]) if len(parts) > 1 else None
    if own is not None:
        file = "/".join(parts[1:])
        if own != parts[0] or file == MAIN or _has(index, own, file):
            return own, file
    return _find_by_path(index, parts)


def _find_by_path(index: SkillIndex, parts: Sequence[str]) -> tuple[str, str]:
    places = list(_split(parts))
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


def _split(parts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each way to divide a URI into skill and file, the longest path first."""
    for end in range(len(parts) - 1, 0, -1):
        yield "/".join(parts[:end]), "/".join(parts[end:])


_Shown = TypeVar("_Shown")


def cut_page(
    published: PublishedSkills,
    cursor: str | None,
    show: Callable[[SkillPath], tuple[_Shown, str] | None],
) -> tuple[list[_Shown], str | None]:
    """Return the skills after the last one of the previous page, and the next cursor.

    A page begins at a path and not at a number: a refresh between two pages repeats
    no skill that stays, and leaves none out. Long entries make it shorter.

    Args:
        published: The skills.
        cursor: What came with the previous page.
        show: Returns an entry and its JSON, or None for what is left out.
    """
    paths = published.names.published
    start = 0 if cursor is None else bisect_right(paths, _parse_cursor(cursor))
    room = published.snapshot.config.responses.max_characters
    page: list[_Shown] = []
    for number in range(start, len(paths)):
        shown = show(paths[number])
        if shown is None:
            continue
        room -= len(shown[1])
        if page and (room < 0 or len(page) == PAGE_SIZE):
            return page, _render_cursor(paths[number - 1])
        page.append(shown[0])
    return page, None


def _list_page(library: SkillLibrary, cursor: str | None) -> ListResourcesResult:
    published = library.publish()

    def show(path: SkillPath) -> tuple[Resource, str]:
        described = _describe(published, path)
        return described, described.model_dump_json(by_alias=True)

    resources, next_cursor = cut_page(published, cursor, show)
    return ListResourcesResult(resources=resources, next_cursor=next_cursor)


def _describe(published: PublishedSkills, path: SkillPath) -> Resource:
    snapshot = published.snapshot
    skill = snapshot.index.require(path)
    main = published.compose(skill)
    name = main.frontmatter["name"]
    return Resource(
        uri=derive_uri(name),
        name=name,
        title=path,
        description=main.frontmatter["description"],
        mime_type=_MARKDOWN,
        size=len(main.text.encode()),
        _meta=_meta(derive_provenance(snapshot.content, snapshot.index, skill)),
    )


def _read(
    library: SkillLibrary, uri: str
) -> TextResourceContents | BlobResourceContents:
    published = library.publish()
    if uri == INDEX_URI:
        return _render_index(published)
    path, file = find_resource(published.snapshot.index, published.names, uri)
    if file == MAIN:
        return _render(uri, library.load_main(path))
    return _render(uri, library.read_asset(path, file))


def _render_index(published: PublishedSkills) -> TextResourceContents:
    entries = []
    for path in published.names.published:
        name, description = published.summarize(path)
        entry = {"name": name, "type": "skill-md", "description": description}
        entries.append({**entry, "url": derive_uri(name)})
    text = json.dumps({"$schema": _INDEX_SCHEMA, "skills": entries}, ensure_ascii=False)
    return TextResourceContents(uri=INDEX_URI, mime_type="application/json", text=text)


def _render(
    uri: str, read: LoadedSkill | ServedFile
) -> TextResourceContents | BlobResourceContents:
    if isinstance(read, LoadedSkill):
        text = read.instructions
        meta = _meta(read.provenance, sha256=derive_sha256(text))
        return TextResourceContents(uri=uri, mime_type=_MARKDOWN, text=text, _meta=meta)
    content = read.content
    meta = _meta(read.provenance, sha256=derive_sha256(content.data))
    kind = derive_mime_type(read.file, content)
    if content.is_binary:
        blob = base64.b64encode(content.data).decode("ascii")
        return BlobResourceContents(uri=uri, mime_type=kind, blob=blob, _meta=meta)
    text = content.data.decode("utf-8")
    return TextResourceContents(uri=uri, mime_type=kind, text=text, _meta=meta)


def _meta(provenance: Provenance, **more: str) -> dict[str, Any]:
    """Return where it comes from, without keys that have no value."""
    others = {path: c for path, c in provenance.inherited_commits.items() if c}
    meta = {
        "commit": provenance.commit,
        "path": provenance.path,
        "inherited_commits": others,
        **more,
    }
    return {f"{META_PREFIX}{key}": value for key, value in meta.items() if value}


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
