"""Safe HTML from the Markdown of skills."""

from collections.abc import Callable, MutableMapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup, escape

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
