"""The page of a skill: its text and where each part comes from, files, facts."""

from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import islice

from anyio.from_thread import check_cancelled
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from skills_mcp.errors import SkillsError
from skills_mcp.features.web.page import derive_title, library_of, render_page, state_of
from skills_mcp.features.web.rendered_markdown import (
    MAX_RENDERED_CHARACTERS,
    quote_path,
    render_markdown,
)
from skills_mcp.features.web.rest import derive_type
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

_NEAR = 4  # as many as `get_skill` offers to choose from

_MAX_WORDS = 500  # characters of a description that is looked for

_MAX_LINES = 10_000
"""With numbers, on one page: each is a row of a table. A skill has some hundred."""

_MAX_SHOWN_BYTES = 200_000
"""Of a file on the page; a larger one is a download."""


@dataclass(frozen=True, slots=True)
class RenderedSection:
    """A part of the text, and its HTML or its numbered lines."""

    section: TextSection
    html: Markup | None = None
    """None for a text that is too long to be rendered."""
    lines: tuple[tuple[int, str], ...] = ()
    left_out: int = 0
    """How many lines are not shown."""


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file of the skill, as the page shows it."""

    file: str
    size_bytes: int
    text: str | None
    """None for what is not shown."""
    is_image: bool
    reason: str = ""
    """Why it cannot be read; empty if it can."""


def show_skill(request: Request) -> Response:
    """Return the page of the skill at the path of the address."""
    library = library_of(request)
    preview = library.preview(request.path_params["path"])
    asked = request.query_params.get("view", "")
    view = asked if asked in _VIEWS else ""
    file = request.query_params.get("file", "")
    prefix = state_of(request).prefix
    here = f"{prefix}/skills/{quote_path(preview.skill.path)}"
    return render_page(
        request,
        "skill.html",
        preview=preview,
        skill=preview.skill,
        title=derive_title(preview.skill),
        address=here,
        api=f"{prefix}/api/skills/{quote_path(preview.skill.path)}",
        views=_VIEWS,
        view=view,
        raw=_read_raw(library, preview.skill) if view == "raw" else "",
        history=library.read_history(preview.skill.path) if view == "history" else None,
        page_url=preview.sections[-1].page_url,
        use=find_use(request, preview.skill.path),
        missing_use=describe_missing_use(request),
        sections=_derive_sections(request, preview, view, here),
        shown=_read_shown(library, preview.skill, file) if file else None,
        near=_find_near(library, preview),
        mcp_url=_derive_mcp_url(request, library),
    )


def _derive_sections(
    request: Request, preview: SkillPreview, view: str, here: str
) -> list[RenderedSection]:
    """Return the parts of the text; none for a view that has no parts."""
    match view:
        case "":
            return _render_sections(request, preview, here)
        case "origin":
            return _number_sections(preview)
        case _:
            return []


def _number_sections(preview: SkillPreview) -> list[RenderedSection]:
    sections, first, room = [], 1, _MAX_LINES
    for each in preview.sections:
        lines = each.body.splitlines()
        numbered = tuple(islice(enumerate(lines, first), room))
        left_out = len(lines) - len(numbered)
        sections.append(RenderedSection(each, lines=numbered, left_out=left_out))
        first, room = first + len(lines), room - len(numbered)
    return sections


def _render_sections(
    request: Request, preview: SkillPreview, here: str
) -> list[RenderedSection]:
    return [
        RenderedSection(each, _find_html(request, each.body, here))
        for each in preview.sections
    ]


def _find_html(request: Request, text: str, here: str) -> Markup | None:
    check_cancelled()
    if len(text) > MAX_RENDERED_CHARACTERS:
        return None
    key = here, sha256(text.encode("utf-8", "surrogatepass")).digest()
    link = partial(_link_file, here)
    render = partial(render_markdown, text, link, check_cancelled)
    return state_of(request).rendered.get(key, render)


def _read_raw(library: SkillLibrary, skill: Skill) -> str:
    """Return the file of a skill, or why it cannot be read."""
    try:
        return library.read_raw(skill.path)
    except SkillsError as error:
        return str(error)


def _link_file(here: str, file: str) -> str:
    return f"{here}?file={quote_path(file)}#file"


def _read_shown(library: SkillLibrary, skill: Skill, file: str) -> ShownFile:
    try:
        content = library.preview_file(skill.path, file)
    except SkillsError as error:
        return ShownFile(file[:200], 0, None, is_image=False, reason=str(error))
    kind, is_shown = derive_type(file, content)
    size = len(content.data)
    if content.is_binary or size > _MAX_SHOWN_BYTES:
        is_image = is_shown and kind.startswith("image/")
        return ShownFile(file, size, None, is_image=is_image)
    return ShownFile(file, size, content.data.decode(), is_image=False)


def _find_near(
    library: SkillLibrary, preview: SkillPreview
) -> tuple[BrowsedSkill, ...]:
    """Return the skills that the words of this one find as well: its rivals.

    The rules above it are none: an agent gets them with it.
    """
    its = {each.path for each in preview.sections}
    words = preview.skill.description[:_MAX_WORDS]
    request = BrowseRequest(query=words, limit=_NEAR + len(its))
    found = library.browse(request).skills
    return tuple(each for each in found if each.path not in its)[:_NEAR]


def _derive_mcp_url(request: Request, library: SkillLibrary) -> str:
    base = library.config.http.base_url.rstrip("/") or str(request.base_url).rstrip("/")
    return f"{base}/mcp"
