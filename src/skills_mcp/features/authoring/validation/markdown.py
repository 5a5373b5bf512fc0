"""Markdown source: lines, frontmatter, body, links, and unsafe text.

Links come from a Markdown parser: a pattern would match text in code, too, such as
fences within lists, spans of several backticks, and HTML comments.
"""

import posixpath
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from skills_mcp.errors import MissingFileError
from skills_mcp.features.authoring.frontmatter_text import FRONTMATTER
from skills_mcp.features.authoring.validation.rules import RuleFinding
from skills_mcp.files.opening import open_inside
from skills_mcp.skills.discovery import MAX_SKILL_BYTES
from skills_mcp.text.rendering import abbreviate_value

_MARKDOWN = ".md"


@dataclass(frozen=True, slots=True)
class Markdown:
    """A Markdown file, split at its frontmatter."""

    text: str
    frontmatter: str
    body: str
    first_line: int

    def line(self, *keys: str) -> int:
        """Line of the first of these keys in the frontmatter, from 1."""
        last = self.first_line - 1
        lines = self.text.split("\n", last)[:last]
        numbers = {line.partition(":")[0]: n for n, line in enumerate(lines, 1)}
        return next((numbers[key] for key in keys if key in numbers), 1)


def read_bytes(root: Path, file: str) -> bytes | None:
    """Read a file below `root`; None if too large or unreadable."""
    try:
        with open_inside(root, tuple(file.split("/"))) as handle:
            raw = handle.read(MAX_SKILL_BYTES + 1)
    except (OSError, MissingFileError):
        return None
    return raw if len(raw) <= MAX_SKILL_BYTES else None


def read_text(root: Path, file: str) -> str | None:
    """Read a text file below `root`; None if binary, too large or unreadable.

    The suffix does not matter: an SVG image is text for a model.
    """
    raw = read_bytes(root, file)
    if raw is None or (b"\0" in raw and not file.endswith(_MARKDOWN)):
        return None
    if file.endswith(_MARKDOWN):
        return parse_markdown(raw).text
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def parse_markdown(raw: bytes) -> Markdown:
    r"""Split a file at its frontmatter, if any.

    >>> parse_markdown(b"---\nname: a\n---\nRules.").first_line
    4
    """
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    text = text.replace("\r\n", "\n")
    found = FRONTMATTER.match(text)
    end = found.end() if found else 0
    block = found[1] if found else ""
    return Markdown(text, block, text[end:], 1 + text.count("\n", 0, end))


MAX_CHARACTERS = 256 * 1024
"""Above nearly all real texts; the parser is quadratic in the worst case."""

MAX_BRACKETS = 5_000
"""Twenty times any known text; the parser allocates some objects per bracket."""

MAX_LINK_FINDINGS = 100
"""Per text: more broken links have one cause."""

_BREAKS = frozenset({"softbreak", "hardbreak"})
_NOT_LOCAL = re.compile(r"[a-z][a-z0-9+.-]+:|//|#|\?|$", re.IGNORECASE)
# A link that does not lead to another site at first sight, or a definition of one.
_MAY_BE_LOCAL = re.compile(r"\](?::|\(\s*+<?+(?![a-z][a-z0-9+.-]+:|//|#|\?))", re.IGNORECASE)
_ABSOLUTE = re.compile(r"/(?!/)|~/|[a-z]:[\\/]", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"[<>{}$*|]|\.\.\.|…")


class Link(NamedTuple):
    target: str
    line: int


@dataclass(frozen=True, slots=True)
class LinkContext:
    """Base folders and limits for the links of a file."""

    home: Path
    """Root of the content; nothing outside is read."""
    package: str
    """Folder of the package; a link out of it breaks in a separate installation."""
    bases: tuple[str, ...]
    """Possible base folders of a link, relative to `home`."""
    files: Collection[str] = ()


class _Parser(MarkdownIt):
    def normalizeLink(self, url: str) -> str:  # noqa: N802 - the parser's own name
        return url


def find_links(markdown: Markdown) -> Iterator[Link]:
    """Find links and images in a body, except in code."""
    text = markdown.body
    if "](" not in text and "]:" not in text:
        return
    for token in _parser().parse(text):
        if token.type == "inline" and token.map:
            yield from _inline(token.children or [], markdown.first_line + token.map[0])


def check_links(markdown: Markdown, context: LinkContext) -> Iterator[RuleFinding]:
    """Check links to files.  Tests for their existence."""
    text = markdown.body
    if len(text) > MAX_CHARACTERS or text.count("[") > MAX_BRACKETS:
        return
    yield from islice(_check_links(markdown, context), MAX_LINK_FINDINGS)


def _check_links(markdown: Markdown, context: LinkContext) -> Iterator[RuleFinding]:
    if not _MAY_BE_LOCAL.search(markdown.body):
        return  # most texts: to parse them takes longest of all
    for target, line in find_links(markdown):
        if not _NOT_LOCAL.match(target) and not _PLACEHOLDER.search(target):
            yield from _check_link(target, line, context)


@cache
def _parser() -> _Parser:
    parser = _Parser("commonmark")
    parser.disable(["emphasis", "entity"])  # a third of the time, and no link
    return parser


def _inline(tokens: list[Token], line: int) -> Iterator[Link]:
    for token in tokens:
        if token.type in _BREAKS:
            line += 1
        target = token.attrGet("href") or token.attrGet("src")
        if target is not None:
            yield Link(str(target), line)


def _check_link(target: str, line: int, context: LinkContext) -> Iterator[RuleFinding]:
    quoted = abbreviate_value(target)
    if _ABSOLUTE.match(target):
        reason = f"links to {quoted}, an absolute path"
        hint = "write a path relative to the file, or a whole URL"
        yield RuleFinding("link-absolute", reason, hint, line)
        return
    path = unquote(re.split("[#?]", target, maxsplit=1)[0])
    candidates = [posixpath.normpath(f"{base}/{path}") for base in context.bases]
    existing = [p for p in candidates if _is_outside(p, "") or _exists(context.home / p)]
    if any(not _is_outside(candidate, context.package) for candidate in existing):
        return
    if existing:
        reason = f"links to {quoted}, which is outside of the package"
        hint = "copy the file into the package, which may be installed alone"
        yield RuleFinding("link-outside", reason, hint, line)
        return
    reason = f"links to {quoted}, which does not exist"
    yield RuleFinding("link-broken", reason, _suggest_target(path, candidates, context), line)


def _is_outside(path: str, package: str) -> bool:
    if path == ".." or path.startswith(("../", "/")):
        return True
    return bool(package) and not f"{path}/".startswith(f"{package}/")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False  # a name that no file can have


def _suggest_target(path: str, candidates: Sequence[str], context: LinkContext) -> str:
    name = posixpath.basename(path.rstrip("/"))
    guess = next((f for f in context.files if posixpath.basename(f) == name), None)
    if any(_exists(context.home / f"{candidate}.md") for candidate in candidates):
        guess = f"{path.rstrip('/')}.md"
    if guess:
        return f"did you mean {guess}?"
    return "correct the path, add the file, or delete the link"
