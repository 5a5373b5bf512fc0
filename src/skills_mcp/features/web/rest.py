"""REST API: list of skills, one skill, its files.

Rule: visibility and error messages equal those of the MCP tools. It is for catalogues
and scripts; only agents' requests over MCP count as use.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from pydantic import Field, TypeAdapter
from pydantic.json_schema import JsonSchemaMode
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from skills_mcp.about import __version__
from skills_mcp.errors import InvalidArgumentsError, SkillNotFoundError
from skills_mcp.features.authoring.uploads import AddedPackage
from skills_mcp.features.report.usage_report import UsageReport
from skills_mcp.features.web.browsing import (
    FACETS,
    MAX_PAGE_SIZE,
    BrowsedPage,
    BrowseRequest,
    browse,
)
from skills_mcp.features.web.page import find_used, get_visible_library
from skills_mcp.features.web.usage_page import MAX_REPORT_DAYS, send_report
from skills_mcp.library import LibraryView
from skills_mcp.library.skill_preview import SkillFormat, SkillPreview
from skills_mcp.skills.model import Level, Scope, Skill
from skills_mcp.skills.skill_files import FileContent

_COMMIT = "The commit of its source; null for a folder."

_OWNER = "The person or team that its author names; empty if none."

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillSummary:
    """A skill in a list."""

    path: Annotated[str, Field(description="Its place in the tree.")]
    name: str
    description: str
    format: SkillFormat
    source: Annotated[
        str, Field(description="Where its source stands in the tree; `.` for the top.")
    ]
    area: Annotated[str, Field(description="The first folder of its path, or `.`.")]
    owner: Annotated[str, Field(description=_OWNER)]
    origin: Scope
    always_apply: bool
    commit: Annotated[str | None, Field(description=_COMMIT)]
    problems: Annotated[int, Field(description="How many problems its file has.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetCount:
    """One value of a facet, and how many skills choosing it would leave."""

    value: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillListReply:
    """A page of the skills that fit."""

    skills: list[SkillSummary]
    total: Annotated[int, Field(description="How many fit, on all pages.")]
    next: Annotated[str | None, Field(description="The cursor of the next page; null on the last.")]
    facets: dict[str, list[FacetCount]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInventory:
    """What lies in the folder of a skill."""

    has_skill_md: Annotated[bool, Field(alias="hasSkillMd")]
    has_scripts: Annotated[bool, Field(alias="hasScripts")]
    script_files: Annotated[list[str], Field(alias="scriptFiles")]
    reference_files: Annotated[list[str], Field(alias="referenceFiles")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainMember:
    """A part of the composed text, from the most general rule to the skill's own."""

    path: str
    file: Annotated[str, Field(description="Within its repository or folder.")]
    commit: Annotated[str | None, Field(description=_COMMIT)]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A file that can be read by the name of the skill."""

    file: str
    size_bytes: int
    inherited_from: Annotated[str | None, Field(description="The skill above whose file it is.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewReply:
    """A skill with its text, as an agent gets it, and its files."""

    path: str
    name: str
    description: str
    format: SkillFormat
    owner: Annotated[str, Field(description=_OWNER)]
    origin: Scope
    keywords: list[str]
    examples: list[str]
    commit: Annotated[str | None, Field(description=_COMMIT)]
    source_path: Annotated[
        str, Field(description="Its Markdown file within the repository or folder.")
    ]
    digest: str
    content: Annotated[str, Field(description="The text as an agent gets it.")]
    chain: list[ChainMember]
    files: list[ListedFile]
    file_inventory: Annotated[FileInventory, Field(alias="fileInventory")]
    current_version: Annotated[
        str,
        Field(
            alias="currentVersion",
            description="The commit; the digest where there is none.",
        ),
    ]
    is_active: Annotated[
        bool,
        Field(
            alias="isActive",
            description="Always true: what is not offered is not found.",
        ),
    ]
    also_at: Annotated[list[str], Field(description="The paths of identical copies.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedProblem:
    """What a check of the package has found."""

    file: str
    line: int
    level: Level
    rule: str
    reason: str
    hint: Annotated[str, Field(description="What to write instead.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadReply:
    """A skill that was added."""

    skill_id: Annotated[str, Field(alias="skillId", description="What its folder is called.")]
    path: Annotated[str, Field(description="Its place in the tree.")]
    name: str
    description: str
    digest: Annotated[str, Field(description="The SHA-256 of the archive.")]
    file_inventory: Annotated[FileInventory, Field(alias="fileInventory")]
    current_version: Annotated[
        str,
        Field(
            alias="currentVersion",
            description="When it was put in place, in UTC, such as 20260212-143000; "
            "empty if it waits for a review.",
        ),
    ]
    replaced_version: Annotated[
        str | None,
        Field(
            alias="replacedVersion",
            description="The version before, which is kept; null if it is new.",
        ),
    ]
    is_active: Annotated[bool, Field(alias="isActive", description="Whether agents get it now.")]
    branch: Annotated[
        str | None,
        Field(description="Where it waits for a review; null if it is in its folder."),
    ]
    review_url: Annotated[
        str | None,
        Field(
            alias="reviewUrl",
            description="The page that opens the review; null if the forge is unknown.",
        ),
    ]
    problems: list[CheckedProblem]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalDetail:
    """Why a request was refused, in the words of the tools."""

    code: str
    message: Annotated[str, Field(description="It says what to do next.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalReply:
    """A request that was refused."""

    error: RefusalDetail


def _copy_fields(kind: type[Reply], source: object) -> Reply:
    """Build a reply from the attributes of the same names."""
    names = (field.name for field in fields(kind))  # type: ignore[arg-type]
    return kind(**{name: getattr(source, name) for name in names})


def build_list_reply(page: BrowsedPage) -> SkillListReply:
    return SkillListReply(
        skills=[_copy_fields(SkillSummary, skill) for skill in page.skills],
        total=page.total,
        next=page.next_cursor,
        facets={
            name: [_copy_fields(FacetCount, value) for value in values]
            for name, values in page.facets.items()
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportReply(UsageReport):
    """What agents asked for, and what they got."""

    notes: Annotated[tuple[str, ...], Field(description="What the report lacks.")]


def build_preview_reply(preview: SkillPreview) -> PreviewReply:
    skill, provenance = preview.skill, preview.provenance
    return PreviewReply(
        path=skill.path,
        name=skill.name,
        description=skill.description,
        format=preview.format,
        owner=skill.owner,
        origin=skill.scope,
        keywords=list(skill.keywords),
        examples=list(skill.examples),
        commit=provenance.commit,
        source_path=provenance.path,
        digest=preview.digest,
        content=preview.text,
        chain=[
            ChainMember(
                path=entry.path,
                file=entry.file,
                commit=entry.commit,
                content=entry.body,
            )
            for entry in preview.sections
        ],
        files=[
            ListedFile(
                file=entry.file,
                size_bytes=entry.size_bytes,
                inherited_from=None if entry.owner == skill.path else entry.owner,
            )
            for entry in preview.files
        ],
        file_inventory=_derive_inventory(skill, preview.format),
        current_version=provenance.commit or preview.digest,
        is_active=True,
        also_at=list(preview.copies),
    )


def build_upload_reply(done: AddedPackage, *, is_served: bool) -> UploadReply:
    package = done.package
    return UploadReply(
        skill_id=package.name,
        path=done.path,
        name=package.skill.name,
        description=package.description,
        digest=package.digest,
        file_inventory=_derive_inventory(package.skill, "package"),
        current_version=done.version,
        replaced_version=done.replaced,
        is_active=is_served,
        branch=done.review.branch if done.review else None,
        review_url=(done.review.url or None) if done.review else None,
        problems=[_copy_fields(CheckedProblem, problem) for problem in package.problems],
    )


def _derive_inventory(skill: Skill, kind: SkillFormat) -> FileInventory:
    found = skill.inventory
    scripts = found.script_files if found else [entry.file for entry in skill.scripts]
    references = found.reference_files if found else [entry.file for entry in skill.assets]
    return FileInventory(
        has_skill_md=kind == "package",
        has_scripts=bool(scripts),
        script_files=list(scripts),
        reference_files=list(references),
    )


def render_reply(reply: Any) -> bytes:
    return TypeAdapter(type(reply)).dump_json(reply, by_alias=True)


_SERIALISED: JsonSchemaMode = "serialization"

_REFUSALS = {
    "400": "A parameter cannot be read.",
    "401": "The token is missing or refused; where sign-in is configured.",
    "403": "The operator does not offer the skill, or the token lacks a scope.",
    "404": "There is no such skill or file for this caller, or no event is kept.",
    "503": "Nothing is loaded yet, the events cannot be read, or the server is busy. "
    "Try again after the seconds of `Retry-After`.",
}

_FACET_MEANINGS = {
    "source": "Where the source stands in the tree; `.` for the top.",
    "area": "The first folder of the path; `.` for none.",
    "format": "`package` or `rule`.",
    "owner": "The person or team that the author names; `.` for none.",
    "origin": "`org`, `repo` or `user`: whose skill it is.",
    "problems": "`yes` or `no`.",
    "used": "`yes` or `no`, where it is known.",
}


def build_openapi_document() -> Mapping[str, Any]:
    kinds = (SkillListReply, PreviewReply, UploadReply, ReportReply, RefusalReply)
    inputs = [(kind, _SERIALISED, TypeAdapter(kind)) for kind in kinds]
    _, schemas = TypeAdapter.json_schemas(
        inputs, by_alias=True, ref_template="#/components/schemas/{model}"
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Skills",
            "version": __version__,
            "description": "The skills that a caller may see, for catalogues and "
            "scripts. Agents ask over MCP.",
        },
        "paths": {
            "/api/skills": {"get": _list_operation()},
            "/api/skills/upload-install": {"post": _upload_operation()},
            "/api/skills/{path}/preview": {"get": _preview_operation()},
            "/api/skills/{path}/files/{file}": {"get": _file_operation()},
            "/api/report": {"get": _report_operation()},
        },
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _list_operation() -> Mapping[str, Any]:
    limit = {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE, "default": 50}
    return {
        "operationId": "listSkills",
        "summary": "List the skills, found by words and narrowed by facets",
        "parameters": [
            _query("q", "A task, a name or a path; without it, all skills."),
            _query("limit", "The most skills of a page.", limit),
            _query("cursor", "`next` of the page before."),
            *(_query(name, _FACET_MEANINGS[name]) for name in FACETS),
            _query("scope", "Patterns of skills, with commas: as if no others were."),
        ],
        "responses": _responses(_json(SkillListReply)),
    }


def _preview_operation() -> Mapping[str, Any]:
    return {
        "operationId": "previewSkill",
        "summary": "Return the text of a skill as an agent gets it, and its files",
        "parameters": [_PATH],
        "responses": _responses(_json(PreviewReply)),
    }


def _file_operation() -> Mapping[str, Any]:
    file = {"schema": {"type": "string", "contentMediaType": "text/plain"}}
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = {
        "text/plain": file,
        "application/octet-stream": binary,
        "image/*": binary,
    }
    named = "The file within the skill's folder, with slashes."
    return {
        "operationId": "readSkillFile",
        "summary": "Return a file of a skill",
        "parameters": [_PATH, _in_path("file", named)],
        "responses": {
            **_responses({"description": "The file.", "content": content}),
            "413": _refusal("The file is larger than `assets.max_size_bytes`."),
        },
    }


def _report_operation() -> Mapping[str, Any]:
    days = {"type": "integer", "minimum": 1, "maximum": MAX_REPORT_DAYS, "default": 30}
    return {
        "operationId": "readReport",
        "summary": "Return what agents asked for, for callers with skills:report",
        "parameters": [
            _query("days", "The number of days, up to today in UTC.", days),
            _query("area", "The part of the tree whose skills the lists have."),
            _query("around", "A commit, or how it begins, to compare around."),
        ],
        "responses": _responses(_json(ReportReply)),
    }


def _upload_operation() -> Mapping[str, Any]:
    archive = {
        "type": "string",
        "format": "binary",
        "description": "A .zip or .tar.gz of one skill, called by its kind.",
    }
    form = {"type": "object", "required": ["file"], "properties": {"file": archive}}
    return {
        "operationId": "uploadSkill",
        "summary": "Add a skill from an archive, where the operator allows it",
        "requestBody": {
            "required": True,
            "content": {"multipart/form-data": {"schema": form}},
        },
        "responses": {
            "201": _json(UploadReply),
            "400": _refusal("There is no archive in the body."),
            "401": _refusal(_REFUSALS["401"]),
            "403": _refusal("The caller lacks the scope `skills:upload`."),
            "404": _refusal("The operator has not turned on adding skills."),
            "409": _refusal(
                "The folder or the repository cannot take it; what was there still is."
            ),
            "413": _refusal("The request is larger than `http.max_body_bytes`."),
            "422": _refusal("The archive is unsafe, damaged, or holds no skill."),
            "503": _refusal(_REFUSALS["503"]),
        },
    }


def _query(name: str, meaning: str, schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "description": meaning,
        "schema": schema or {"type": "string"},
    }


def _in_path(name: str, meaning: str) -> dict[str, Any]:
    return {**_query(name, meaning), "in": "path", "required": True}


_PATH = _in_path("path", "The path of the skill, with slashes, or a name of its own.")


def _json(kind: type[object]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {
        "description": (kind.__doc__ or "").strip(),
        "content": {"application/json": {"schema": schema}},
    }


def _refusal(meaning: str) -> dict[str, Any]:
    return {**_json(RefusalReply), "description": meaning}


def _responses(found: Mapping[str, Any]) -> dict[str, Any]:
    refused = {status: _refusal(meaning) for status, meaning in _REFUSALS.items()}
    return {"200": found, **refused}


_DEFAULT_LIMIT = 50
_PARAMETERS = frozenset({"q", "limit", "cursor", "scope", *FACETS})

_FILES_SEGMENT = "/files/"

# Browsers show them, and they hold nothing that runs.
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

# Text that a browser would run if it were told its type.
_ACTIVE_SUFFIXES = (".html", ".htm", ".xhtml", ".svg", ".xml", ".xsl", ".xslt")

_FILE_POLICY = "default-src 'none'; sandbox"


def rest_routes() -> list[Route]:
    return [
        Route("/api/openapi.json", _show_document),
        Route("/api/skills", _list_skills),
        Route("/api/skills/{path:path}/preview", _preview_skill),
        Route("/api/skills/{path:path}/files/{file:path}", _send_file),
        Route("/api/report", send_report),
    ]


def _show_document(_: Request) -> Response:
    return JSONResponse(_open_document())


@cache
def _open_document() -> Mapping[str, object]:
    return build_openapi_document()


def _list_skills(request: Request) -> Response:
    parameters = request.query_params
    if unknown := sorted(parameters.keys() - _PARAMETERS):
        raise InvalidArgumentsError(
            f"{unknown[0][:50]!r} is no parameter. There are: {', '.join(sorted(_PARAMETERS))}."
        )
    page = browse(
        get_visible_library(request).snapshot,
        BrowseRequest(
            query=parameters.get("q", ""),
            chosen={name: parameters[name] for name in FACETS if parameters.get(name)},
            cursor=parameters.get("cursor"),
            limit=_parse_limit(parameters.get("limit", "")),
            used_paths=find_used(request),
        ),
    )
    return _reply(build_list_reply(page))


def _preview_skill(request: Request) -> Response:
    preview = get_visible_library(request).preview(request.path_params["path"])
    return _reply(build_preview_reply(preview))


def _send_file(request: Request) -> Response:
    path, file = request.path_params["path"], request.path_params["file"]
    content, name = _read_file(get_visible_library(request), f"{path}{_FILES_SEGMENT}{file}")
    kind, is_inline = derive_media_type(name, content)
    disposition = "inline" if is_inline else "attachment"
    file_name = quote(name.rpartition("/")[2])
    return Response(
        content.data,
        media_type=kind,
        headers={
            "Content-Disposition": f"{disposition}; filename*=UTF-8''{file_name}",
            "Content-Security-Policy": _FILE_POLICY,
        },
    )


def derive_media_type(file: str, content: FileContent) -> tuple[str, bool]:
    """Media type for a browser, and whether to display the file inline.

    >>> text = FileContent(b"<p>", False, "text/html")
    >>> derive_media_type("page.html", text)
    ('text/plain; charset=utf-8', False)
    """
    if content.mime_type in _IMAGES:
        return content.mime_type, True
    if content.is_binary:
        return "application/octet-stream", False
    return "text/plain; charset=utf-8", not file.casefold().endswith(_ACTIVE_SUFFIXES)


def _read_file(library: LibraryView, joined: str) -> tuple[FileContent, str]:
    """Read a file by a joined path; skill and file may both contain `files`.

    Raises:
        SkillsError: There is no such skill or file, or it cannot be served.
    """
    parts = joined.split(_FILES_SEGMENT)
    for end in range(len(parts) - 1, 0, -1):
        path, file = _FILES_SEGMENT.join(parts[:end]), _FILES_SEGMENT.join(parts[end:])
        try:
            return library.preview_file(path, file), file
        except SkillNotFoundError:
            if end == 1:
                raise
    raise SkillNotFoundError("There is no such file.")


def _parse_limit(text: str) -> int:
    """Parse the page size.

    Raises:
        InvalidArgumentsError: It is no number, or too large.
    """
    if not text:
        return _DEFAULT_LIMIT
    if text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= MAX_PAGE_SIZE:
        return int(text[:9])
    raise InvalidArgumentsError(f"limit: must be a number from 1 to {MAX_PAGE_SIZE}.")


def _reply(reply: object) -> Response:
    return Response(render_reply(reply), media_type="application/json")
