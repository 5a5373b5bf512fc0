"""Skills as MCP resources: `skill://pdf/SKILL.md`, and their files.

`SKILL.md` is the text of `load_skill` with frontmatter, also for a rule file. Other
files follow `get_asset`, with its limits and errors. A skill has two URIs: the listed
one by its legal name, and one by its path.
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
    sha256_of,
)
from skills_mcp.library.published_skills import (
    PublishedNames,
    PublishedSkills,
    derive_mime_type,
)
from skills_mcp.processes.memory import translate_out_of_memory
from skills_mcp.server.callers import caller_of
from skills_mcp.server.replies import derive_protocol_error
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.model import SkillPath
from skills_mcp.text.rendering import abbreviate_value

PAGE_SIZE = 100

MAIN = "SKILL.md"

EXTENSION = "io.modelcontextprotocol/skills"

META_PREFIX = "io.modelcontextprotocol.skills/"
"""Prefix of `_meta` keys, required by the extension."""

INDEX_URI = "skill://index.json"
"""For clients of an earlier draft of the extension."""

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
"""URIs that can be read without being listed."""


class Resources:
    """Handlers of `resources/list`, `resources/templates/list` and `resources/read`.

    Args:
        read_seconds: Timeout of a read for the first content.
        list_seconds: Timeout of a list for content stored on this machine.
    """

    def __init__(self, library: SkillLibrary, *, read_seconds: float, list_seconds: float) -> None:
        self._library = library
        self._read_seconds = read_seconds
        self._list_seconds = list_seconds

    async def list(
        self, ctx: _Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Page of the skills; empty without content.

        Hosts ask once, at the start of a session: never wait for the network.
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
        return ListResourceTemplatesResult(resource_templates=[*TEMPLATES])

    async def read(self, ctx: _Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Read a skill's text or file; waits for the first content.

        Raises:
            MCPError: It cannot be read; `data` has the code of the `SkillsError`.
        """
        try:
            await self._library.wait_until_ready(self._read_seconds)
            library = self._library.seen_by(caller_of(ctx).access)
            with translate_out_of_memory():
                read = await anyio.to_thread.run_sync(_read, library, params.uri)
        except SkillsError as error:
            version = ctx.protocol_version
            raise derive_protocol_error(error, version, params.uri) from error
        return ReadResourceResult(contents=[read])


def derive_uri(name: str, file: str = MAIN) -> str:
    """URI of a file of a skill, by the skill's name or path."""
    return f"{_SCHEME}{quote(name)}/{quote(file)}"


def parse_uri(uri: str) -> list[str] | None:
    """Path segments of a URI; None for another scheme."""
    scheme, separator, path = uri.partition("://")
    if not separator or scheme.lower() != _SCHEME.removesuffix("://"):
        return None
    # Separated first: an escaped slash is none.
    return [unquote(name) for name in path.split("/")[:_MAX_NAMES]]


def find_resource(index: SkillIndex, names: PublishedNames, uri: str) -> tuple[str, str]:
    """Resolve a URI to a skill path and a file.

    Names take precedence over paths. With nested skills, the innermost one with the
    file
    wins.

    Raises:
        SkillNotFoundError: No skill is served there.
        SkillDisabledError: The operator has disabled it.
    """
    parts = parse_uri(uri) or []
    own = names.find(parts[0]) if len(parts) > 1 else None
    if own is not None:
        file = "/".join(parts[1:])
        if own != parts[0] or file == MAIN or _has_file(index, own, file):
            return own, file
    return _find_by_path(index, parts)


def _find_by_path(index: SkillIndex, parts: Sequence[str]) -> tuple[str, str]:
    candidates = list(_split_candidates(parts))
    named = [(path, file) for path, file in candidates if index.get(path)]
    for path, file in named:
        if file == MAIN or _has_file(index, path, file):
            return path, file
    if named:
        return named[0]
    if not candidates:
        raise SkillNotFoundError(
            f"This is no address of a skill. They look like "
            f"{_SCHEME}ui/react/auth/{MAIN}; resources/list has them."
        )
    errors = [index.not_found(path) for path, _ in candidates]
    raise next((e for e in errors if isinstance(e, SkillDisabledError)), errors[0])


def _has_file(index: SkillIndex, path: str, file: str) -> bool:
    skill = index.get(path)
    return skill is not None and any(entry.file == file for entry in skill.entries())


def _split_candidates(parts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each split into skill and file, the longest path first."""
    for end in range(len(parts) - 1, 0, -1):
        yield "/".join(parts[:end]), "/".join(parts[end:])


_Entry = TypeVar("_Entry")


def paginate(
    published: PublishedSkills,
    cursor: str | None,
    render: Callable[[SkillPath], tuple[_Entry, str] | None],
) -> tuple[list[_Entry], str | None]:
    """Page of entries after a cursor, and the next cursor.

    Cursors are paths, not offsets: a refresh between two pages neither repeats nor
    skips
    a remaining skill. Long entries shorten the page. `render` returns an entry and its
    JSON, or None to skip the skill.
    """
    paths = published.names.published
    start = 0 if cursor is None else bisect_right(paths, _parse_cursor(cursor))
    budget = published.snapshot.config.responses.max_characters
    page: list[_Entry] = []
    for number in range(start, len(paths)):
        entry = render(paths[number])
        if entry is None:
            continue
        budget -= len(entry[1])
        if page and (budget < 0 or len(page) == PAGE_SIZE):
            return page, _render_cursor(paths[number - 1])
        page.append(entry[0])
    return page, None


def _list_page(library: SkillLibrary, cursor: str | None) -> ListResourcesResult:
    published = library.publish()

    def show(path: SkillPath) -> tuple[Resource, str]:
        described = _describe(published, path)
        return described, described.model_dump_json(by_alias=True)

    resources, next_cursor = paginate(published, cursor, show)
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


def _read(library: SkillLibrary, uri: str) -> TextResourceContents | BlobResourceContents:
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
        meta = _meta(read.provenance, sha256=sha256_of(text))
        return TextResourceContents(uri=uri, mime_type=_MARKDOWN, text=text, _meta=meta)
    content = read.content
    meta = _meta(read.provenance, sha256=sha256_of(content.data))
    kind = derive_mime_type(read.file, content)
    if content.is_binary:
        blob = base64.b64encode(content.data).decode("ascii")
        return BlobResourceContents(uri=uri, mime_type=kind, blob=blob, _meta=meta)
    text = content.data.decode("utf-8")
    return TextResourceContents(uri=uri, mime_type=kind, text=text, _meta=meta)


def _meta(provenance: Provenance, **more: str) -> dict[str, Any]:
    """Provenance for `_meta`, without empty keys."""
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
            message=f"Unknown cursor: {abbreviate_value(cursor)}. Begin again without one.",
        ) from error
