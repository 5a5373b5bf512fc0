"""Skill page: composed text with origins, files, facts, use.

Rule: Markdown is untrusted. Raw HTML is escaped and nothing is loaded: links lead to
the web or to files of the skill; images become links.
"""

from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import islice

from anyio.from_thread import check_cancelled
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from skills_mcp.errors import SkillsError
from skills_mcp.features.web.page import (
    derive_display_name,
    get_site_state,
    get_visible_library,
    render_template,
)
from skills_mcp.features.web.rendered_markdown import (
    MAX_RENDERED_CHARACTERS,
    convert_to_html,
    quote_path,
)
from skills_mcp.features.web.rest import derive_media_type
from skills_mcp.features.web.skill_use import describe_missing_use, find_use
from skills_mcp.library import SkillLibrary
from skills_mcp.library.browsing import BrowsedSkill, BrowseRequest
from skills_mcp.library.preview import SkillPreview, TextSection
from skills_mcp.skills.model import Skill

_VIEWS = {
    "": "Rendered",
    "origin": "By line",
    "agent": "As an agent gets it",
    "raw": "Raw file",
    "history": "History",
}

_MAX_SIMILAR = 4  # as many as `get_skill` offers to choose from

_MAX_WORDS = 500  # characters of a description that is looked for

_MAX_LINES = 10_000
"""Numbered table rows on one page. A skill has some hundred."""

_MAX_PREVIEW_BYTES = 200_000
"""Per file; a larger one is a download."""


@dataclass(frozen=True, slots=True)
class RenderedSection:
    """A section of the text, as HTML or numbered lines."""

    section: TextSection
    html: Markup | None = None
    """None if too long to render."""
    lines: tuple[tuple[int, str], ...] = ()
    left_out: int = 0
    """Number of omitted lines."""


@dataclass(frozen=True, slots=True)
class FilePreview:
    """A previewed file."""

    file: str
    size_bytes: int
    text: str | None
    """None if not displayed."""
    is_image: bool
    reason: str = ""
    """Error message; empty if readable."""


def show_skill(request: Request) -> Response:
    library = get_visible_library(request)
    preview = library.preview(request.path_params["path"])
    requested = request.query_params.get("view", "")
    view = requested if requested in _VIEWS else ""
    file = request.query_params.get("file", "")
    prefix = get_site_state(request).prefix
    address = f"{prefix}/skills/{quote_path(preview.skill.path)}"
    return render_template(
        request,
        "skill.html",
        preview=preview,
        skill=preview.skill,
        title=derive_display_name(preview.skill),
        address=address,
        api=f"{prefix}/api/skills/{quote_path(preview.skill.path)}",
        views=_VIEWS,
        view=view,
        raw=_read_raw(library, preview.skill) if view == "raw" else "",
        history=library.read_history(preview.skill.path) if view == "history" else None,
        page_url=preview.sections[-1].page_url,
        use=find_use(request, preview.skill.path),
        missing_use=describe_missing_use(request),
        sections=_derive_sections(request, preview, view, address),
        shown=_read_file_preview(library, preview.skill, file) if file else None,
        near=_find_similar(library, preview),
        mcp_url=_derive_mcp_url(request, library),
    )


def _derive_sections(
    request: Request, preview: SkillPreview, view: str, address: str
) -> list[RenderedSection]:
    """Sections of the text; empty for other views."""
    match view:
        case "":
            return _render_sections(request, preview, address)
        case "origin":
            return _number_sections(preview)
        case _:
            return []


def _number_sections(preview: SkillPreview) -> list[RenderedSection]:
    sections, first, remaining = [], 1, _MAX_LINES
    for section in preview.sections:
        lines = section.body.splitlines()
        numbered = tuple(islice(enumerate(lines, first), remaining))
        left_out = len(lines) - len(numbered)
        sections.append(RenderedSection(section, lines=numbered, left_out=left_out))
        first, remaining = first + len(lines), remaining - len(numbered)
    return sections


def _render_sections(
    request: Request, preview: SkillPreview, address: str
) -> list[RenderedSection]:
    return [
        RenderedSection(section, _find_html(request, section.body, address))
        for section in preview.sections
    ]


def _find_html(request: Request, text: str, address: str) -> Markup | None:
    check_cancelled()
    if len(text) > MAX_RENDERED_CHARACTERS:
        return None
    key = address, sha256(text.encode("utf-8", "surrogatepass")).digest()
    link = partial(_link_file, address)
    render = partial(convert_to_html, text, link, check_cancelled)
    return get_site_state(request).rendered.get(key, render)


def _read_raw(library: SkillLibrary, skill: Skill) -> str:
    """Source of a skill, or the error message."""
    try:
        return library.read_raw(skill.path)
    except SkillsError as error:
        return str(error)


def _link_file(address: str, file: str) -> str:
    return f"{address}?file={quote_path(file)}#file"


def _read_file_preview(library: SkillLibrary, skill: Skill, file: str) -> FilePreview:
    try:
        content = library.preview_file(skill.path, file)
    except SkillsError as error:
        return FilePreview(file[:200], 0, None, is_image=False, reason=str(error))
    kind, is_inline = derive_media_type(file, content)
    size = len(content.data)
    if content.is_binary or size > _MAX_PREVIEW_BYTES:
        is_image = is_inline and kind.startswith("image/")
        return FilePreview(file, size, None, is_image=is_image)
    return FilePreview(file, size, content.data.decode(), is_image=False)


def _find_similar(library: SkillLibrary, preview: SkillPreview) -> tuple[BrowsedSkill, ...]:
    """Similar skills by the description, the competitors in routing.

    Inherited rules are excluded: an agent gets them with the skill.
    """
    own_paths = {skill.path for skill in preview.sections}
    words = preview.skill.description[:_MAX_WORDS]
    request = BrowseRequest(query=words, limit=_MAX_SIMILAR + len(own_paths))
    found = library.browse(request).skills
    return tuple(skill for skill in found if skill.path not in own_paths)[:_MAX_SIMILAR]


def _derive_mcp_url(request: Request, library: SkillLibrary) -> str:
    base = library.config.http.base_url.rstrip("/") or str(request.base_url).rstrip("/")
    return f"{base}/mcp"
