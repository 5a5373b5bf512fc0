"""A page: its template, and what every page shows around its own content."""

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
from skills_mcp.features.web.upload_desk import UploadDesk
from skills_mcp.features.web.visitors import VISITOR_KEY, Visitor
from skills_mcp.library import SkillLibrary
from skills_mcp.processes.byte_cache import ByteCache
from skills_mcp.processes.remembered import Remembered
from skills_mcp.skills.principal import PRINCIPAL_KEY, Principal
from skills_mcp.text.rendering import describe_age

# Of HTML: some thousand texts, or forty of the slowest to render.
_MAX_RENDERED_BYTES = 32 * 1024 * 1024

_STRANGER = Visitor(principal=None)


@dataclass(frozen=True, slots=True)
class NavigationLink:
    """A link that every page has at its top."""

    title: str
    path: str
    needed: str = ""
    """The scope without which the page refuses; empty if there is none."""


@dataclass(frozen=True, slots=True)
class SiteState:
    """What all requests to the pages share."""

    library: SkillLibrary
    navigation: tuple[NavigationLink, ...]
    prefix: str
    """What stands in front of every path, where a proxy serves other things, too."""
    events: EventStore | None
    """The events of all machines; None if none are kept."""
    counts: Remembered[CatalogueCounts] | None
    """How often agents got each skill; None if no events are kept."""
    desk: UploadDesk | None = None
    """Where archives come in; None if no skills are added."""
    rendered: ByteCache[tuple[str, bytes], Markup] = field(
        default_factory=lambda: ByteCache(_MAX_RENDERED_BYTES, len, check_cancelled),
        repr=False,
    )
    """Texts of skills as HTML, by the address of a skill and the digest of a text."""


def state_of(request: Request) -> SiteState:
    """Return what all requests share."""
    state: SiteState = request.app.state.site
    return state


def library_of(request: Request) -> SkillLibrary:
    """Return the skills as the caller of a request sees them.

    Raises:
        KeyError: The request came past the sign-in, which is a defect of this program.
    """
    principal: Principal = request.scope[PRINCIPAL_KEY]
    return state_of(request).library.seen_by(principal.access)


def find_counts(request: Request) -> CatalogueCounts | None:
    """Return how often agents got each skill; None as long as that is not known."""
    counts = state_of(request).counts
    return counts.look() if counts else None


def is_use_unknown(request: Request) -> bool:
    """Whether events are kept, and cannot be counted just now."""
    counts = state_of(request).counts
    return counts is not None and counts.look() is None and bool(counts.failure)


def find_used(request: Request) -> frozenset[str] | None:
    """Return the paths of the skills that agents got; None if that is not known."""
    counts = find_counts(request)
    return counts.used_paths if counts else None


def render_page(
    request: Request, template: str, *, status: int = 200, **content: Any
) -> HTMLResponse:
    """Return a page.

    Args:
        request: What is answered.
        template: The file of the template, which extends `layout.html`.
        status: That of the answer.
        content: What the template shows; everything is escaped.
    """
    html = _open_templates().get_template(template).render(_frame(request) | content)
    return HTMLResponse(html, status)


def _frame(request: Request) -> dict[str, Any]:
    """Return what `layout.html` shows."""
    state = state_of(request)
    visitor: Visitor = request.scope.get(VISITOR_KEY, _STRANGER)
    principal: Principal | None = request.scope.get(PRINCIPAL_KEY)
    scopes = principal.scopes if principal else frozenset()
    return {
        "navigation": [
            each for each in state.navigation if each.needed in {"", *scopes}
        ],
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
    templates.filters["title_of"] = derive_title
    templates.filters["stopped"] = end_sentence
    templates.filters["diff_kind"] = _name_diff_line
    return templates


def _name_diff_line(line: str) -> str:
    """Return the class of a line of a unified diff."""
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


def derive_title(skill: _Titled) -> str:
    """Return what a page calls a skill: the rules of a folder have no other name."""
    is_plain = skill.name not in {"_index", "_root"}
    return skill.name if is_plain else skill.path


def end_sentence(text: str) -> str:
    """Return a sentence with a full stop, unless it ends with a sign already.

    >>> end_sentence("save it as UTF-8"), end_sentence("write description: …")
    ('save it as UTF-8.', 'write description: …')
    """
    return text if text.endswith((".", "…", "!", "?")) else f"{text}."


def _render_query(given: Mapping[str, str | None]) -> str:
    """Return the query of a URL with those values that are not empty."""
    from urllib.parse import urlencode

    told = urlencode({name: value for name, value in given.items() if value})
    return f"?{told}" if told else ""
