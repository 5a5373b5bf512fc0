"""Skills as MCP resources and in the prompt `skill`, with completion of arguments.

`SKILL.md` is the text of `load_skill` with frontmatter, also for a rule file. Other
files follow `get_asset`, with its limits and errors. A skill has two URIs: the listed
one by its legal name, and one by its path.
"""

import base64
import binascii
import json
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote

import anyio.to_thread
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    BlobResourceContents,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)
from mcp_types.version import LATEST_MODERN_VERSION

from skills_mcp.errors import (
    SkillDisabledError,
    SkillNotFoundError,
    SkillsError,
)
from skills_mcp.files.paths import MAX_PARTS
from skills_mcp.library import (
    LibraryView,
    LoadedSkill,
    Provenance,
    ServedFile,
    SkillLibrary,
    derive_provenance,
    sha256_of,
)
from skills_mcp.processes.memory import translate_out_of_memory
from skills_mcp.server.callers import Context, find_stored_view, wait_for_view
from skills_mcp.server.replies import (
    ReplyRules,
    derive_protocol_error,
    render_tool_result,
    replace_unavailable_tools,
)
from skills_mcp.server.tools import GetSkill, get_skill
from skills_mcp.skills.model import SkillPath
from skills_mcp.skills.skill_files import derive_mime_type
from skills_mcp.skills.skill_index import SkillIndex
from skills_mcp.skills.skill_parser import SKILL_MD
from skills_mcp.text.rendering import abbreviate_value

if TYPE_CHECKING:
    from skills_mcp.library.skill_folder import PublishedNames, PublishedSkill, PublishedSkills

PAGE_SIZE = 100

EXTENSION = "io.modelcontextprotocol/skills"

META_PREFIX = "io.modelcontextprotocol.skills/"
"""Prefix of `_meta` keys, required by the extension."""

INDEX_URI = "skill://index.json"
"""For clients of an earlier draft of the extension."""

_SCHEME = "skill://"
_MARKDOWN = "text/markdown"
_INDEX_SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_MAX_NAMES = 2 * MAX_PARTS  # of folders above a skill, and of those below it

TEMPLATES = (
    ResourceTemplate(
        name="skill",
        title="A skill",
        uri_template=f"{_SCHEME}{{+skill_path}}/{SKILL_MD}",
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
    """Handlers of `resources/list`, `resources/templates/list` and `resources/read`."""

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library

    async def list(
        self, ctx: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Page of the skills; empty without content.

        Hosts ask once, at the start of a session: never wait for the network.
        """
        cursor = params.cursor if params else None
        library = await find_stored_view(self._library, ctx)
        if library is None:
            return ListResourcesResult(resources=[])
        return await anyio.to_thread.run_sync(_list_page, library, cursor)

    async def list_templates(
        self, _: Context, __: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=[*TEMPLATES])

    async def read(self, ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Read a skill's text or file; waits for the first content.

        Raises:
            MCPError: It cannot be read; `data` has the code of the `SkillsError`.
        """
        try:
            library = await wait_for_view(self._library, ctx)
            with translate_out_of_memory():
                read = await anyio.to_thread.run_sync(_read, library, params.uri)
        except SkillsError as error:
            version = ctx.protocol_version
            raise derive_protocol_error(error, version, params.uri) from error
        return ReadResourceResult(contents=[read])


def derive_uri(name: str, file: str = SKILL_MD) -> str:
    """URI of a file of a skill, by the skill's name or path."""
    return f"{_SCHEME}{quote(name)}/{quote(file)}"


def parse_uri(uri: str) -> list[str] | None:
    """Path segments of a URI; None for another scheme."""
    scheme, separator, path = uri.partition("://")
    if not separator or scheme.lower() != _SCHEME.removesuffix("://"):
        return None
    # Separated first: an escaped slash is none.
    return [unquote(name) for name in path.split("/")[:_MAX_NAMES]]


def find_resource(index: SkillIndex, names: "PublishedNames", uri: str) -> tuple[str, str]:
    """Resolve a URI to a skill path and a file.

    Names take precedence over paths. With nested skills, the innermost one with the
    file wins.

    Raises:
        SkillNotFoundError: No skill is served there.
        SkillDisabledError: The operator has disabled it.
    """
    parts = parse_uri(uri) or []
    own = names.find(parts[0]) if len(parts) > 1 else None
    if own is not None:
        file = "/".join(parts[1:])
        if own != parts[0] or file == SKILL_MD or _has_file(index, own, file):
            return own, file
    return _find_by_path(index, parts)


def _find_by_path(index: SkillIndex, parts: Sequence[str]) -> tuple[str, str]:
    candidates = list(_split_candidates(parts))
    named = [(path, file) for path, file in candidates if index.get(path)]
    for path, file in named:
        if file == SKILL_MD or _has_file(index, path, file):
            return path, file
    if named:
        return named[0]
    if not candidates:
        raise SkillNotFoundError(
            f"This is no address of a skill. They look like "
            f"{_SCHEME}ui/react/auth/{SKILL_MD}; resources/list has them."
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
    published: "PublishedSkills",
    cursor: str | None,
    render: Callable[[SkillPath], tuple[_Entry, str] | None],
) -> tuple[list[_Entry], str | None]:
    """Page of entries after a cursor, and the next cursor.

    Cursors are paths, not offsets: a refresh between two pages neither repeats nor
    skips a remaining skill. Long entries shorten the page. `render` returns an entry
    and its JSON, or None to skip the skill.
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


def _list_page(library: LibraryView, cursor: str | None) -> ListResourcesResult:
    published = _publish(library)

    def show(path: SkillPath) -> tuple[Resource, str]:
        described = _describe(published, path)
        return described, described.model_dump_json(by_alias=True)

    resources, next_cursor = paginate(published, cursor, show)
    return ListResourcesResult(resources=resources, next_cursor=next_cursor)


def _publish(library: LibraryView) -> "PublishedSkills":
    # Late: the first answer of a server needs none of it.
    from skills_mcp.library.skill_folder import publish_skills

    return publish_skills(library.snapshot)


def _describe(published: "PublishedSkills", path: SkillPath) -> Resource:
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
        _meta=_meta(derive_provenance(snapshot.content, snapshot.index.contributors(skill))),
    )


def _read(library: LibraryView, uri: str) -> TextResourceContents | BlobResourceContents:
    published = _publish(library)
    if uri == INDEX_URI:
        return _render_index(published)
    path, file = find_resource(published.snapshot.index, published.names, uri)
    if file == SKILL_MD:
        return _render(uri, library.load_skill(path, as_file=True))
    return _render(uri, library.read_asset(path, file))


def _render_index(published: "PublishedSkills") -> TextResourceContents:
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
    """

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library

    def register(self, server: Server[Any]) -> None:
        """Register methods and capability for both protocol eras."""
        server.extensions[EXTENSION] = _SETTINGS
        server.add_request_handler("skills/list", PaginatedRequestParams, self.list)
        server.add_request_handler("skills/get", UriParams, self.get)
        server.add_request_handler("resources/directory/read", FolderParams, self.list_folder)

    async def list(self, ctx: Context, params: PaginatedRequestParams | None) -> dict[str, Any]:
        cursor = params.cursor if params else None
        library = await find_stored_view(self._library, ctx)
        if library is None:
            return {"skills": [], **_COMPLETE_RESULT}
        return await anyio.to_thread.run_sync(_list_extension_page, library, cursor)

    async def get(self, ctx: Context, params: UriParams) -> dict[str, Any]:
        """One skill.

        Raises:
            MCPError: No skill has this URI, or there is no content yet.
        """
        library = await self._wait(ctx, params.uri)
        return await anyio.to_thread.run_sync(_get_entry, library, params.uri)

    async def list_folder(self, ctx: Context, params: FolderParams) -> dict[str, Any]:
        """Direct children of a folder; always one page.

        Raises:
            MCPError: There is no such folder, or there is no content yet.
        """
        if params.cursor:
            raise _invalid_params(
                params.uri,
                f"Unknown cursor: {abbreviate_value(params.cursor)}. Leave it out.",
            )
        library = await self._wait(ctx, params.uri)
        return await anyio.to_thread.run_sync(_list_folder, library, params.uri)

    async def _wait(self, ctx: Context, uri: str) -> LibraryView:
        try:
            return await wait_for_view(self._library, ctx)
        except SkillsError as error:
            raise derive_protocol_error(error, LATEST_MODERN_VERSION, uri) from error


def declare_extension(result: Mapping[str, Any]) -> dict[str, Any]:
    """Declare the extension in the handshake era: the SDK omits it there."""
    extensions = {"extensions": {EXTENSION: _SETTINGS}}
    return {**result, "capabilities": {**result["capabilities"], **extensions}}


def _list_extension_page(library: LibraryView, cursor: str | None) -> dict[str, Any]:
    published = _publish(library)

    def show(path: SkillPath) -> tuple[dict[str, Any], str] | None:
        skill = published.open(path)
        entry = _render_entry(skill) if skill else None
        return (entry, json.dumps(entry)) if entry else None

    skills, next_cursor = paginate(published, cursor, show)
    more = {"nextCursor": next_cursor} if next_cursor else {}
    return {"skills": skills, **more, **_COMPLETE_RESULT}


def _get_entry(library: LibraryView, uri: str) -> dict[str, Any]:
    match parse_uri(uri):
        case [name, file] if file == SKILL_MD and (skill := _open_skill(library, name)):
            return {"skill": _render_entry(skill), **_COMPLETE_RESULT}
        case _:
            raise _invalid_params(
                uri,
                f"No skill is served at {abbreviate_value(uri)}. skills/list has them all.",
            )


def _list_folder(library: LibraryView, uri: str) -> dict[str, Any]:
    parts = parse_uri(uri) or [""]
    skill = _open_skill(library, parts[0])
    folder = "".join(f"{name}/" for name in parts[1:])
    children = _render_children(skill, folder) if skill else []
    if not children:
        raise _invalid_params(
            uri,
            f"{abbreviate_value(uri)} is no folder of a skill. The address of a skill in "
            f"skills/list without /{SKILL_MD} is one.",
        )
    return {"resources": children, **_COMPLETE_RESULT}


def _open_skill(library: LibraryView, name: str) -> "PublishedSkill | None":
    published = _publish(library)
    path = published.names.find(name)
    return None if path is None else published.open(path)


def _render_entry(skill: "PublishedSkill") -> dict[str, Any]:
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


def _render_children(skill: "PublishedSkill", folder: str) -> list[dict[str, Any]]:
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
            name=name if entry.file == SKILL_MD else child,
            description=skill.text.frontmatter["description"] if entry.file == SKILL_MD else None,
            mime_type=entry.mime_type,
            size=entry.size_bytes,
        )
    return [
        child.model_dump(by_alias=True, exclude_none=True, mode="json")
        for child in children.values()
    ]


def _invalid_params(uri: str, message: str) -> MCPError:
    return MCPError(code=INVALID_PARAMS, message=message, data={"uri": uri})


PROMPT = Prompt(
    name="skill",
    title="Use a skill",
    description="Add this organisation's rules for a task to the conversation.",
    arguments=[
        PromptArgument(
            name="task",
            title="Task",
            description="The task in your words, or the path of a skill.",
            required=True,
        )
    ],
)


@dataclass(frozen=True, slots=True)
class SkillPrompt:
    """Handlers of `prompts/list` and `prompts/get`."""

    _library: SkillLibrary
    _find_offered: Callable[[Context], Collection[str]]

    async def list(self, _: Context, __: PaginatedRequestParams | None) -> ListPromptsResult:
        return ListPromptsResult(prompts=[PROMPT])

    async def get(self, ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
        """Messages for a task.

        Raises:
            MCPError: There is no such prompt, no task, or no content.
        """
        task = _require_task(params)
        try:
            library = await wait_for_view(self._library, ctx)
            with translate_out_of_memory():
                texts = await _compose(library, task)
        except SkillsError as error:
            raise MCPError(
                code=INTERNAL_ERROR, message=str(error), data={"code": error.code}
            ) from error
        offered = self._find_offered(ctx)
        return GetPromptResult(
            description=PROMPT.description,
            messages=[_render_message(text, offered) for text in texts],
        )


def _render_message(text: str, offered: Collection[str]) -> PromptMessage:
    content = replace_unavailable_tools(text, offered) if text.startswith("{") else text
    return PromptMessage(role="user", content=TextContent(type="text", text=content))


def _require_task(params: GetPromptRequestParams) -> str:
    if params.name != PROMPT.name:
        message = f"Unknown prompt: {abbreviate_value(params.name)}. There is: {PROMPT.name}"
        raise MCPError(code=INVALID_PARAMS, message=message)
    task = (params.arguments or {}).get("task", "").strip()
    if not task:
        message = "task is missing: describe the task, or pass the path of a skill."
        raise MCPError(code=INVALID_PARAMS, message=message)
    return task


async def _compose(library: LibraryView, task: str) -> list[str]:
    skill = library.snapshot.index.get(task.strip("/"))
    path = skill.path if skill else None
    reply = await get_skill(library, GetSkill(context=task, skill_path=path))
    limit = library.config.responses.max_characters
    blocks = render_tool_result(reply, ReplyRules("markdown", limit)).content
    texts = [block.text for block in blocks if isinstance(block, TextContent)]
    introduction = (
        f"Follow this skill of this organisation in what comes next: {path}"
        if path
        else f"{task}\n\nThis organisation's skills say about it:"
    )
    return [introduction, *texts]


_MAX_VALUES = 100  # of the protocol


class PathCompletion:
    """Completes skill paths and file names."""

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library

    async def complete(self, ctx: Context, params: CompleteRequestParams) -> CompleteResult:
        """Prefix matches before substring matches; never waits for the network."""
        library = await find_stored_view(self._library, ctx)
        if library is None:
            return _render_completion([])
        return await anyio.to_thread.run_sync(_complete, library, params)


def _complete(library: LibraryView, params: CompleteRequestParams) -> CompleteResult:
    return _render_completion(
        _rank_matches(_list_candidates(library, params), params.argument.value)
    )


def _list_candidates(library: LibraryView, params: CompleteRequestParams) -> Iterable[str]:
    index, argument = library.snapshot.index, params.argument.name
    if isinstance(params.ref, PromptReference):
        is_path = (params.ref.name, argument) == (PROMPT.name, "task")
    else:
        is_ours = any(entry.uri_template == params.ref.uri for entry in TEMPLATES)
        is_path = is_ours and argument == "skill_path"
        if is_ours and argument == "file":
            context_arguments = (params.context.arguments if params.context else None) or {}
            skill = index.get(context_arguments.get("skill_path", ""))
            return [entry.file for entry in skill.entries()] if skill else ()
    return [row.path for row in index.listed] if is_path else ()


def _rank_matches(known: Iterable[str], typed: str) -> list[str]:
    query = typed.strip().casefold()
    found = sorted(value for value in known if query in value.casefold())
    return sorted(found, key=lambda value: not value.casefold().startswith(query))


def _render_completion(values: list[str]) -> CompleteResult:
    return CompleteResult(
        completion=Completion(
            values=values[:_MAX_VALUES],
            total=len(values),
            has_more=len(values) > _MAX_VALUES,
        )
    )
