"""Page rendering: templates, layout, shared state, and error responses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from anyio.from_thread import check_cancelled
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from skills_mcp.about import __version__
from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.events.collector.skill_counts import CatalogueCounts
from skills_mcp.features.web.upload_desk import UploadQueue
from skills_mcp.features.web.visitors import VISITOR_KEY, Visitor
from skills_mcp.library import SkillLibrary
from skills_mcp.processes.byte_cache import ByteCache
from skills_mcp.processes.remembered import BackgroundCache
from skills_mcp.skills.principal import PRINCIPAL_KEY, Principal
from skills_mcp.text.rendering import describe_age

# Of HTML: some thousand texts, or forty of the slowest to render.
_MAX_RENDERED_BYTES = 32 * 1024 * 1024

_ANONYMOUS = Visitor(principal=None)


@dataclass(frozen=True, slots=True)
class NavigationLink:
    """A link in the page header."""

    title: str
    path: str
    needed: str = ""
    """Scope required by the page; empty for none."""


@dataclass(frozen=True, slots=True)
class SiteState:
    """Shared state of all requests."""

    library: SkillLibrary
    navigation: tuple[NavigationLink, ...]
    prefix: str
    """Path prefix behind a proxy with other services."""
    events: EventStore | None
    """Events of all machines; None if none are kept."""
    counts: BackgroundCache[CatalogueCounts] | None
    """Use of each skill; None if no events are kept."""
    desk: UploadQueue | None = None
    """Upload queue; None if uploads are off."""
    rendered: ByteCache[tuple[str, bytes], Markup] = field(
        default_factory=lambda: ByteCache(_MAX_RENDERED_BYTES, len, check_cancelled),
        repr=False,
    )
    """Rendered skill texts, by address of the skill and digest of the text."""


def get_site_state(request: Request) -> SiteState:
    state: SiteState = request.app.state.site
    return state


def get_visible_library(request: Request) -> SkillLibrary:
    """Library limited to the caller's visibility.

    Raises:
        KeyError: The request bypassed authentication, a defect of this program.
    """
    principal: Principal = request.scope[PRINCIPAL_KEY]
    return get_site_state(request).library.seen_by(principal.access)


def find_counts(request: Request) -> CatalogueCounts | None:
    """Cached use of each skill; None while unknown."""
    counts = get_site_state(request).counts
    return counts.get_stale() if counts else None


def is_use_unknown(request: Request) -> bool:
    """Whether events are kept, but could not be counted."""
    counts = get_site_state(request).counts
    return counts is not None and counts.get_stale() is None and bool(counts.failure)


def find_used(request: Request) -> frozenset[str] | None:
    """Paths of used skills; None while unknown."""
    counts = find_counts(request)
    return counts.used_paths if counts else None


def render_template(
    request: Request, template: str, *, status: int = 200, **content: Any
) -> HTMLResponse:
    """Render a template with the layout.

    Args:
        request: The request to answer.
        template: Name of a template based on `layout.html`.
        status: Status code.
        content: Template variables; autoescaped.
    """
    html = (
        _open_templates().get_template(template).render(_build_layout_variables(request) | content)
    )
    return HTMLResponse(html, status)


def _build_layout_variables(request: Request) -> dict[str, Any]:
    """Variables of `layout.html`."""
    state = get_site_state(request)
    visitor: Visitor = request.scope.get(VISITOR_KEY, _ANONYMOUS)
    principal: Principal | None = request.scope.get(PRINCIPAL_KEY)
    scopes = principal.scopes if principal else frozenset()
    return {
        "navigation": [link for link in state.navigation if link.needed in {"", *scopes}],
        "here": request.url.path,
        "root": state.prefix,
        "visitor": visitor,
        "version": __version__,
    }


@cache
def _open_templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("skills_mcp.features.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["query"] = _render_query
    templates.filters["age"] = describe_age
    templates.filters["title_of"] = derive_display_name
    templates.filters["stopped"] = end_sentence
    templates.filters["diff_kind"] = _name_diff_line
    return templates


def _name_diff_line(line: str) -> str:
    """CSS class of a line of a unified diff."""
    if line.startswith(
        ("diff ", "index ", "--- a/", "--- /dev/null", "+++ b/", "+++ /dev/null", "@@")
    ):
        return "place"
    return {"+": "added", "-": "removed"}.get(line[:1], "same")


class _Titled(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def name(self) -> str: ...


def derive_display_name(skill: _Titled) -> str:
    """Display name: folder rules are shown by their path."""
    is_plain = skill.name not in {"_index", "_root"}
    return skill.name if is_plain else skill.path


def end_sentence(text: str) -> str:
    """Add a full stop, unless the text ends with punctuation.

    >>> end_sentence("save it as UTF-8"), end_sentence("write description: …")
    ('save it as UTF-8.', 'write description: …')
    """
    return text if text.endswith((".", "…", "!", "?")) else f"{text}."


def _render_query(parameters: Mapping[str, str | None]) -> str:
    """Build a query string from the non-empty values."""
    from urllib.parse import urlencode

    encoded = urlencode({name: value for name, value in parameters.items() if value})
    return f"?{encoded}" if encoded else ""
