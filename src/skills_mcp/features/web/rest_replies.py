"""Reply types of the REST API, the source of its OpenAPI document."""

from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter

from skills_mcp.features.authoring.intake.uploads import AddedPackage
from skills_mcp.features.report import UsageReport
from skills_mcp.library.browsing import BrowsedPage, SkillFormat
from skills_mcp.library.preview import SkillPreview
from skills_mcp.skills.model import Level, Scope, Skill

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


def build_list_reply(page: BrowsedPage) -> SkillListReply:
    return SkillListReply(
        skills=[
            SkillSummary(
                path=skill.path,
                name=skill.name,
                description=skill.description,
                format=skill.format,
                source=skill.source,
                area=skill.area,
                owner=skill.owner,
                origin=skill.origin,
                always_apply=skill.always_apply,
                commit=skill.commit,
                problems=skill.problems,
            )
            for skill in page.skills
        ],
        total=page.total,
        next=page.next_cursor,
        facets={
            name: [
                FacetCount(value=facet_value.value, count=facet_value.count)
                for facet_value in values
            ]
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
        problems=[
            CheckedProblem(
                file=problem.file,
                line=problem.line,
                level=problem.level,
                rule=problem.rule,
                reason=problem.reason,
                hint=problem.hint,
            )
            for problem in package.problems
        ],
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
