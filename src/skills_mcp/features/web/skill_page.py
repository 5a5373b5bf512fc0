"""Skill page: composed text with origins, files, facts, use.

Rule: Markdown is untrusted. Raw HTML is escaped and nothing is loaded: links lead to
the web or to files of the skill; images become links.
"""

import posixpath
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache, partial
from hashlib import sha256
from itertools import islice
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from anyio.from_thread import check_cancelled
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from skills_mcp.errors import SkillsError
from skills_mcp.features.authoring.skill_overlap import find_rivals
from skills_mcp.features.effect.evidence import find_evidence
from skills_mcp.features.history.source_history import SourceLogs, find_power_changes, read_history
from skills_mcp.features.report.database_report import SkillComment, SkillCounts
from skills_mcp.features.web.browsing import derive_title, open_facets
from skills_mcp.features.web.catalogue_page import list_crumbs
from skills_mcp.features.web.page import (
    describe_for_person,
    find_counts,
    find_logs,
    get_site_state,
    get_visible_library,
    render_template,
)
from skills_mcp.features.web.rest import derive_media_type
from skills_mcp.features.web.upload_page import find_propose_url
from skills_mcp.library import LibraryView
from skills_mcp.library.skill_folder import SkillPreview, TextSection
from skills_mcp.skills.access import PRINCIPAL_KEY, READ, REPORT, Principal
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_audit import load_audits

_DEEPEST = 6  # of headings in HTML
_LOWER = 2  # a page has a heading of its own, and each of its parts another

MAX_RENDERED_CHARACTERS = 100_000
"""Per text: the slowest Markdown takes 15 µs a character, so 1.5 s.

The longest public skill has half as many.
"""

# Of a paragraph, a heading or a cell; a longer one is shown as it is. Rules within one
# look back over it, and that must not add up.
_MAX_INLINE_CHARACTERS = 20_000

_WEB = frozenset({"http", "https"})

FileLink = Callable[[str], str]
"""URL of a skill's file, by its path."""


def convert_to_html(
    text: str, link: FileLink, check_cancelled: Callable[[], None] = lambda: None
) -> Markup:
    r"""Render untrusted Markdown as HTML.

    Args:
        text: Untrusted.
        link: URL of a file of the skill.
        check_cancelled: Raises to cancel.

    >>> convert_to_html("<b>[x](javascript:alert(1))", str)
    Markup('<p>&lt;b&gt;[x](javascript:alert(1))</p>\n')
    """
    environment: MutableMapping[str, Any] = {"link": link, "check": check_cancelled}
    parser = _open_parser()
    tokens = parser.parse(text, environment)
    _lower_headings(tokens)
    html = parser.renderer.render(tokens, parser.options, environment)
    return Markup(html)  # noqa: S704 - the renderer has escaped it


def derive_href(target: str, link: FileLink) -> str:
    """Sanitise a link target; empty if not allowed.

    >>> derive_href("https://acme.com", str), derive_href("docs/a.md#b", str)
    ('https://acme.com', 'docs/a.md')
    >>> [derive_href(each, str) for each in ("//acme.com", "/etc", "x:y")]
    ['', '', '']
    """
    try:
        parts = urlsplit(target)
    except ValueError:
        return ""
    if parts.scheme in _WEB and parts.netloc:
        return target
    if parts.scheme or parts.netloc or parts.path.startswith("/") or not parts.path:
        return ""
    return link(unquote(parts.path).removeprefix("./"))


@cache
def _open_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.core.ruler.at("inline", _parse_inline)
    parser.add_render_rule("link_open", _render_link)
    parser.add_render_rule("image", _render_image)
    return parser


def _parse_inline(state: StateCore) -> None:
    for token in state.tokens:
        if token.type != "inline":
            continue
        state.env["check"]()
        token.children = []
        if len(token.content) <= _MAX_INLINE_CHARACTERS:
            state.md.inline.parse(token.content, state.md, state.env, token.children)
        else:
            token.children.append(Token("text", "", 0, content=token.content))


def _lower_headings(tokens: Sequence[Token]) -> None:
    """Nest headings below the page's own, without gaps in the levels."""
    above: list[str] = []
    for token in tokens:
        if token.type == "heading_open":
            while above and above[-1] >= token.tag:
                above.pop()
            above.append(token.tag)
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(_DEEPEST, len(above) + _LOWER)}"


def _render_link(
    renderer: RendererHTML,
    tokens: Sequence[Token],
    number: int,
    options: OptionsDict,
    environment: MutableMapping[str, Any],
) -> str:
    target = str(tokens[number].attrGet("href") or "")
    href = derive_href(target, environment["link"])
    token = Token("link_open", "a", 1)
    if href:
        token.attrSet("href", href)
        token.attrSet("rel", "noopener noreferrer nofollow")
    return renderer.renderToken([token], 0, options, environment)


def _render_image(
    _: RendererHTML,
    tokens: Sequence[Token],
    number: int,
    __: OptionsDict,
    environment: MutableMapping[str, Any],
) -> str:
    target = str(tokens[number].attrGet("src") or "")
    label = escape(f"Image: {tokens[number].content or target}")
    if href := derive_href(target, environment["link"]):
        return f'<a href="{escape(href)}" rel="noopener noreferrer">{label}</a>'
    return str(label)


def quote_path(path: str) -> str:
    return quote(path, safe="/")


_LONG_DAYS = 30
"""Without use, after which the words of a skill may be the reason."""

_HEIGHT = 40
"""Height of the chart, in SVG units."""


@dataclass(frozen=True, slots=True)
class WeekBar:
    """A bar of the chart, one week."""

    first: date
    given: int
    height: int
    """At least 1, so an unused week stays visible."""


@dataclass(frozen=True, slots=True)
class SkillUsage:
    """Usage section of a skill's page."""

    counts: SkillCounts
    bars: tuple[WeekBar, ...]
    comments: Sequence[SkillComment]
    """Empty for callers without the scope of the report: they quote agents."""
    since: date
    """The day on which counting began."""
    is_long_unused: bool
    """Whether nothing was given in a month in which it was there unchanged."""

    @property
    def height(self) -> int:
        return _HEIGHT


def find_use(request: Request, path: str, changed: datetime | None) -> SkillUsage | None:
    """Use of a skill; None if unknown."""
    known = find_counts(request)
    if known is None:
        return None
    counts = known.skills.get(path, SkillCounts())
    maximum = max(counts.weeks) or 1
    bars = tuple(
        WeekBar(known.week(number), count, max(1, count * _HEIGHT // maximum))
        for number, count in enumerate(counts.weeks)
    )
    principal: Principal = request.scope[PRINCIPAL_KEY]
    since = known.since or known.first
    return SkillUsage(
        counts,
        bars,
        counts.comments if principal.may(REPORT) else (),
        since,
        _is_long_unused(since, changed),
    )


def _is_long_unused(since: date, changed: datetime | None) -> bool:
    """Whether there was time enough for agents to get a skill."""
    month_ago = datetime.now(UTC).date() - timedelta(days=_LONG_DAYS)
    return changed is not None and max(since, changed.date()) <= month_ago


def describe_analytics_off(request: Request) -> str:
    """Explain that the user of this machine records nothing; empty otherwise."""
    is_local = get_site_state(request).local_events is not None
    if not is_local or get_visible_library(request).config.analytics.enabled:
        return ""
    return "Not known: analytics are off on this machine; analytics.enabled turns them on."


def _describe_uncounted(request: Request) -> str:
    if get_site_state(request).local_events is None:
        return "Not known: this server keeps no events (events.enabled)."
    recorded = "Not counted here: the report has what this machine has recorded."
    return describe_analytics_off(request) or recorded


def describe_missing_use(request: Request) -> str:
    """Explain missing counts."""
    counts = get_site_state(request).counts
    if counts is None:
        return _describe_uncounted(request)
    if counts.failure:
        return "It cannot be counted just now: the database of events does not answer."
    if counts.get_stale() is None:
        return "Being counted; reload the page in a moment."
    if get_visible_library(request).config.analytics.enabled:
        return "Not known: no event has arrived yet."
    return (
        "Not known: no event has arrived yet. Operators: analytics.enabled counts the "
        "agents of this server."
    )


_VIEWS = {
    "": "Text",
    "origin": "By line",
    "agent": "As an agent gets it",
    "raw": "Raw file",
    "history": "History",
}

_MAX_NEAR = 4  # as many as `get_skill` offers to choose from

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


@dataclass(frozen=True, slots=True)
class SkillMaintenance:
    """Who looks after a skill, and its last change."""

    owner: str
    changed: datetime | None
    reason: str = ""
    """Why the last change is not known."""


def show_skill(request: Request) -> Response:
    library = get_visible_library(request)
    preview = library.preview(request.path_params["path"])
    requested = request.query_params.get("view", "")
    view = requested if requested in _VIEWS else ""
    file = request.query_params.get("file", "")
    shown = _read_file_preview(library, preview.skill, file) if file else None
    prefix = get_site_state(request).prefix
    if shown and shown.reason and (linked := _find_linked(library, preview, file)):
        return RedirectResponse(f"{prefix}/skills/{quote_path(linked)}")
    logs = find_logs(request)
    maintenance = _find_maintenance(library, preview.skill.path, logs)
    address = f"{prefix}/skills/{quote_path(preview.skill.path)}"
    return render_template(
        request,
        "skill.html",
        preview=preview,
        skill=preview.skill,
        successor=library.snapshot.index.successors.get(preview.skill.path),
        title=derive_title(preview.skill.path, preview.skill.body),
        crumbs=list_crumbs(preview.skill.path.rpartition("/")[0]),
        connection=_derive_connection(request, library),
        maintenance=maintenance,
        opens_all=request.query_params.get("parts", "") == "open",
        address=address,
        api=f"{prefix}/api/skills/{quote_path(preview.skill.path)}",
        views=_VIEWS,
        view=view,
        raw=_read_raw(library, preview.skill) if view == "raw" else "",
        history=read_history(library, preview.skill.path, logs, _MAX_CHANGES)
        if view == "history"
        else None,
        page_url=preview.sections[-1].page_url,
        edit_url=preview.sections[-1].edit_url,
        propose_url=find_propose_url(request, library.snapshot, preview.skill),
        use=find_use(request, preview.skill.path, maintenance.changed),
        missing_use=describe_missing_use(request),
        sections=_derive_sections(request, preview, view, address),
        shown=shown,
        effect=find_evidence(library.snapshot).get(preview.skill.path),
        near=list(_find_near(library, preview.skill)),
        powers=_list_powers(library, preview.skill),
        find_power_changes=partial(find_power_changes, library, preview.skill.path),
    )


_MAX_CHANGES = 20  # on one page, of 400 lines each


def _list_powers(library: LibraryView, skill: Skill) -> Sequence[Any] | None:
    """Powers of the skill and its ancestors; None without the feature that knows them."""
    listed = (audit.list_powers(library.snapshot.index, skill) for audit in load_audits())
    return next((powers for powers in listed if powers is not None), None)


def _derive_sections(
    request: Request, preview: SkillPreview, view: str, address: str
) -> list[RenderedSection]:
    """Sections of the text; empty for other views."""
    if view == "origin":
        return _number_sections(preview)
    sections = () if view else preview.sections
    return [RenderedSection(each, _find_html(request, each.body, address)) for each in sections]


def _number_sections(preview: SkillPreview) -> list[RenderedSection]:
    sections, first, remaining = [], 1, _MAX_LINES
    for section in preview.sections:
        lines = section.body.splitlines()
        numbered = tuple(islice(enumerate(lines, first), remaining))
        left_out = len(lines) - len(numbered)
        sections.append(RenderedSection(section, lines=numbered, left_out=left_out))
        first, remaining = first + len(lines), remaining - len(numbered)
    return sections


def _find_html(request: Request, text: str, address: str) -> Markup | None:
    check_cancelled()
    if len(text) > MAX_RENDERED_CHARACTERS:
        return None
    key = address, sha256(text.encode("utf-8", "surrogatepass")).digest()
    render = partial(convert_to_html, text, partial(_link_file, address), check_cancelled)
    return get_site_state(request).rendered.get(key, render)


def _read_raw(library: LibraryView, skill: Skill) -> str:
    """Source of a skill, or the error message."""
    try:
        return library.read_raw(skill.path)
    except SkillsError as error:
        return str(error)


def _link_file(address: str, file: str) -> str:
    return f"{address}?file={quote_path(file)}#file"


def _find_linked(library: LibraryView, preview: SkillPreview, file: str) -> str:
    """Skill whose Markdown file lies there, as seen from one of the sections; else empty.

    Not known when the links are rendered: callers who see different skills share them.
    """
    index = library.snapshot.index
    for section in preview.sections[::-1] if file.endswith(".md") else ():
        folder = posixpath.dirname(index.require(section.path).file)
        with suppress(SkillsError):
            return index.resolve(posixpath.normpath(posixpath.join(folder, file))).path
    return ""


def _read_file_preview(library: LibraryView, skill: Skill, file: str) -> FilePreview:
    try:
        content = library.preview_file(skill.path, file)
    except SkillsError as error:
        return FilePreview(file[:200], 0, None, is_image=False, reason=describe_for_person(error))
    kind, is_inline = derive_media_type(file, content)
    size = len(content.data)
    if content.is_binary or size > _MAX_PREVIEW_BYTES:
        is_image = is_inline and kind.startswith("image/")
        return FilePreview(file, size, None, is_image=is_image)
    return FilePreview(file, size, content.data.decode(), is_image=False)


@dataclass(frozen=True, slots=True)
class NearSkill:
    """A skill that competes for the same tasks."""

    path: str
    title: str
    phrase: str
    """A phrase of this skill's description that finds the other one, too."""
    own_words: tuple[str, ...]
    """Words that only this skill has."""
    other_words: tuple[str, ...]


def _find_near(library: LibraryView, skill: Skill) -> Iterator[NearSkill]:
    """Yield the competitors of a skill in routing, and what parts them."""
    for overlap in find_rivals(library.snapshot, skill, _MAX_NEAR):
        own, other = overlap.seen_from(skill.path)
        title = derive_title(other.path, library.snapshot.index.require(other.path).body)
        phrase = next(iter(own.phrases or other.phrases), "")
        yield NearSkill(other.path, title, phrase, own.parting_words, other.parting_words)


@dataclass(frozen=True, slots=True)
class AgentConnection:
    """How agents connect to this server."""

    url: str
    """Empty for a server whose port is another one the next time."""
    issuer: str
    """Identity provider of a required sign-in; empty for none."""


def _derive_connection(request: Request, library: LibraryView) -> AgentConnection:
    http = library.config.http
    base = http.base_url.rstrip("/") or str(request.base_url).rstrip("/")
    issuer = "" if READ in (http.anonymous or ()) else http.auth.issuer
    return AgentConnection("" if http.port == 0 else f"{base}/mcp", issuer)


def _find_maintenance(library: LibraryView, path: str, logs: SourceLogs | None) -> SkillMaintenance:
    """Owner, and last change or the reason why it is not known."""
    facets = open_facets(library.snapshot)
    position = library.snapshot.index.find(path)
    maintenance = facets.maintenance(logs)
    owner = "" if position is None else maintenance.owners[position]
    changed = None if position is None else maintenance.changed[position]
    if changed or position is None:
        return SkillMaintenance(owner, changed)
    log = facets.find_log(position, logs)
    if log is None:
        return SkillMaintenance(owner, None, "being read; reload the page in a moment")
    return SkillMaintenance(
        owner, None, log.reason or f"not in the last {len(log.commits)} commits"
    )
