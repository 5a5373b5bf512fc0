"""REST API: list of skills, one skill, its files.

Rule: visibility and error messages equal those of the MCP tools. It is for catalogues
and scripts; only agents' requests over MCP count as use.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import Field, TypeAdapter
from pydantic.json_schema import JsonSchemaMode
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from skills_mcp.about import __version__
from skills_mcp.errors import InvalidArgumentsError, SkillNotFoundError
from skills_mcp.features.authoring.uploads import AddedPackage
from skills_mcp.features.effect.evidence import find_evidence
from skills_mcp.features.report.report_text import (
    derive_report_notes,
    describe_effects,
    select_area,
)
from skills_mcp.features.report.usage_report import UsageReport, render_report
from skills_mcp.features.web.browsing import (
    COMMIT_TEXT,
    FACETS,
    OWNER_TEXT,
    BrowseRequest,
    SkillListReply,
    browse,
)
from skills_mcp.features.web.page import find_logs, find_uses, get_visible_library
from skills_mcp.features.web.usage_page import load_visible_report
from skills_mcp.http.routes import tagged_response
from skills_mcp.library import LibraryView, Loss
from skills_mcp.library.skill_folder import SkillFormat, SkillPreview
from skills_mcp.processes.memory import gc_paused
from skills_mcp.skills.model import Level, Problem, Scope, Skill
from skills_mcp.skills.skill_files import FileContent


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
    commit: Annotated[str | None, Field(description=COMMIT_TEXT)]
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
    owner: Annotated[str, Field(description=OWNER_TEXT)]
    origin: Scope
    keywords: list[str]
    examples: list[str]
    commit: Annotated[str | None, Field(description=COMMIT_TEXT)]
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
    warning: Annotated[
        str | None,
        Field(description="The skills that are gone since; null unless they are many."),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalDetail:
    """Why a request was refused, in the words of the tools."""

    code: str
    message: Annotated[str, Field(description="It says what to do next.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalReply:
    """A request that was refused."""

    error: RefusalDetail


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


def build_upload_reply(
    done: AddedPackage, *, is_served: bool, loss: Loss | None = None
) -> UploadReply:
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
        problems=[_render_problem(problem) for problem in package.problems],
        warning=f"{loss}." if loss else None,
    )


def _render_problem(problem: Problem) -> CheckedProblem:
    names = (field.name for field in fields(CheckedProblem))
    return CheckedProblem(**{name: getattr(problem, name) for name in names})


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


_DESCRIPTION = Path(__file__).with_name("openapi.yaml")
_MAX_DIGITS = 9  # more are outside of every range, and Python may refuse them


@cache
def load_openapi_document() -> Mapping[str, Any]:
    import yaml

    document: dict[str, Any] = yaml.safe_load(_DESCRIPTION.read_bytes())
    kinds = (SkillListReply, PreviewReply, UploadReply, ReportReply, RefusalReply)
    mode: JsonSchemaMode = "serialization"
    _, schemas = TypeAdapter.json_schemas(
        [(kind, mode, TypeAdapter(kind)) for kind in kinds],
        by_alias=True,
        ref_template="#/components/schemas/{model}",
    )
    document["info"]["version"] = __version__
    document["components"]["schemas"] = schemas["$defs"]
    return document


def parse_query(request: Request, path: str) -> Mapping[str, Any]:
    """Parse the query of a path by its description, with defaults; text may be empty.

    Raises:
        InvalidArgumentsError: A parameter is unknown, or no number within its bounds.
    """
    operation = load_openapi_document()["paths"][path]["get"]
    schemas = {each["name"]: each["schema"] for each in operation["parameters"]}
    if unknown := sorted(request.query_params.keys() - schemas.keys()):
        raise InvalidArgumentsError(
            f"{unknown[0][:50]!r} is no parameter. There are: {', '.join(sorted(schemas))}."
        )
    return {
        name: _parse_parameter(name, request.query_params.get(name, ""), schema)
        for name, schema in schemas.items()
    }


def _parse_parameter(name: str, text: str, schema: Mapping[str, Any]) -> str | int:
    if schema["type"] == "string":
        return text
    if not text:
        return int(schema["default"])
    lowest, highest = schema["minimum"], schema["maximum"]
    number = int(text[:_MAX_DIGITS]) if text.isascii() and text.isdecimal() else -1
    if lowest <= number <= highest:
        return number
    raise InvalidArgumentsError(f"{name}: must be a number from {lowest} to {highest}.")


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
        Route("/api/report", _send_report),
    ]


def _show_document(request: Request) -> Response:
    data = JSONResponse(load_openapi_document()).body
    return tagged_response(request.scope, bytes(data), "application/json")


def _list_skills(request: Request) -> Response:
    query = parse_query(request, "/api/skills")
    page = browse(
        get_visible_library(request).snapshot,
        BrowseRequest(
            query=query["q"],
            chosen={name: query[name] for name in FACETS if query[name]},
            cursor=query["cursor"],
            limit=query["limit"],
            sort=query["sort"],
            uses=find_uses(request),
            logs=find_logs(request),
        ),
    )
    return _reply(request, page)


def _send_report(request: Request) -> Response:
    query = parse_query(request, "/api/report")
    with gc_paused():
        report = load_visible_report(request, query["days"], query["around"].strip())
        picked = select_area(report, query["area"]) if query["area"] else report
        notes = derive_report_notes(report, without_skills="")
        notes += describe_effects(report, find_evidence(get_visible_library(request).snapshot))
        return JSONResponse({**render_report(picked), "notes": list(notes)})


def _preview_skill(request: Request) -> Response:
    preview = get_visible_library(request).preview(request.path_params["path"])
    return _reply(request, build_preview_reply(preview))


def _send_file(request: Request) -> Response:
    path, file = request.path_params["path"], request.path_params["file"]
    content, name = _read_file(get_visible_library(request), f"{path}{_FILES_SEGMENT}{file}")
    kind, is_inline = derive_media_type(name, content)
    disposition = "inline" if is_inline else "attachment"
    file_name = quote(name.rpartition("/")[2])
    headers = {
        "Content-Disposition": f"{disposition}; filename*=UTF-8''{file_name}",
        "Content-Security-Policy": _FILE_POLICY,
    }
    return tagged_response(request.scope, content.data, kind, headers)


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


def _reply(request: Request, reply: object) -> Response:
    return tagged_response(request.scope, render_reply(reply), "application/json")
