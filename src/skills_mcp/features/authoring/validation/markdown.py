"""A Markdown file as an author sees it: its lines, its frontmatter, body and links.

A Markdown parser finds the links, because a pattern would find text in code, too: in
fences within lists, in spans of several backticks, in HTML comments.
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
from skills_mcp.text.rendering import shorten

_MARKDOWN = ".md"


@dataclass(frozen=True, slots=True)
class Markdown:
    """A Markdown file, split at its frontmatter."""

    text: str
    """The whole file."""
    frontmatter: str
    """The text between the first two lines of `---`."""
    body: str
    """The text below the frontmatter."""
    first_line: int
    """The line in which the body begins, from 1."""

    def line(self, *keys: str) -> int:
        """Return the line of the first of these keys in the frontmatter, from 1."""
        last = self.first_line - 1
        lines = self.text.split("\n", last)[:last]
        numbers = {line.partition(":")[0]: n for n, line in enumerate(lines, 1)}
        return next((numbers[key] for key in keys if key in numbers), 1)


def read_bytes(root: Path, file: str) -> bytes | None:
    """Read a file below `root`; None if it is too large or cannot be read."""
    try:
        with open_inside(root, tuple(file.split("/"))) as handle:
            raw = handle.read(MAX_SKILL_BYTES + 1)
    except (OSError, MissingFileError):
        return None
    return raw if len(raw) <= MAX_SKILL_BYTES else None


def read_text(root: Path, file: str) -> str | None:
    """Read a file below `root`; None if it is no text, too large, or unreadable.

    The suffix does not matter: an SVG image is a text that a model can read.
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
    r"""Split a file at its frontmatter, if it has one.

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
"""Longer than nearly all real texts; a parser's worst case grows with the square."""

MAX_BRACKETS = 5_000
"""Twenty times as many as in any text known; the parser keeps some objects for each."""

MAX_FINDINGS = 100
"""Of one text: more wrong links than these have one cause."""

_BREAKS = frozenset({"softbreak", "hardbreak"})
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]+:|//|#|\?|$", re.IGNORECASE)
# A link that does not lead to another site at first sight, or a definition of one.
_MAY_BE_LOCAL = re.compile(
    r"\](?::|\(\s*+<?+(?![a-z][a-z0-9+.-]+:|//|#|\?))", re.IGNORECASE
)
_ABSOLUTE = re.compile(r"/(?!/)|~/|[a-z]:[\\/]", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"[<>{}$*|]|\.\.\.|…")


class Link(NamedTuple):
    """The target of a link, and its line, from 1."""

    target: str
    line: int


@dataclass(frozen=True, slots=True)
class LinkContext:
    """Where the links of a file begin, and where they may lead."""

    home: Path
    """Where the content begins; nothing outside it is looked at."""
    package: str
    """The folder that a package is installed with, relative to `home`; empty for all.

    A link that leads out of it breaks where the package is installed alone.
    """
    bases: tuple[str, ...]
    """The folders that a link may begin at, relative to `home`."""
    files: Collection[str] = ()
    """The skill's files, for suggestions."""


class _Parser(MarkdownIt):
    """A parser that leaves link targets as they are written."""

    def normalizeLink(self, url: str) -> str:  # noqa: N802 - the parser's own name
        return url


def find_links(markdown: Markdown) -> Iterator[Link]:
    """Iterate over the links and images of a body, without those in code."""
    text = markdown.body
    if "](" not in text and "]:" not in text:
        return
    for token in _parser().parse(text):
        if token.type == "inline" and token.map:
            yield from _inline(token.children or [], markdown.first_line + token.map[0])


def check_links(markdown: Markdown, context: LinkContext) -> Iterator[RuleFinding]:
    """Check every link that leads to a file.  Looks which files exist."""
    text = markdown.body
    if len(text) > MAX_CHARACTERS or text.count("[") > MAX_BRACKETS:
        return
    yield from islice(_check_all(markdown, context), MAX_FINDINGS)


def _check_all(markdown: Markdown, context: LinkContext) -> Iterator[RuleFinding]:
    if not _MAY_BE_LOCAL.search(markdown.body):
        return  # most texts: to parse them takes longest of all
    for target, line in find_links(markdown):
        if not _ELSEWHERE.match(target) and not _PLACEHOLDER.search(target):
            yield from _check(target, line, context)


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


def _check(target: str, line: int, context: LinkContext) -> Iterator[RuleFinding]:
    shown = shorten(target)
    if _ABSOLUTE.match(target):
        reason = f"links to {shown}, an absolute path"
        hint = "write a path relative to the file, or a whole URL"
        yield RuleFinding("link-absolute", reason, hint, line)
        return
    path = unquote(re.split("[#?]", target, maxsplit=1)[0])
    places = [posixpath.normpath(f"{base}/{path}") for base in context.bases]
    there = [p for p in places if _leads_out(p, "") or _exists(context.home / p)]
    if any(not _leads_out(place, context.package) for place in there):
        return
    if there:
        reason = f"links to {shown}, which is outside of the package"
        hint = "copy the file into the package, which may be installed alone"
        yield RuleFinding("link-outside", reason, hint, line)
        return
    reason = f"links to {shown}, which does not exist"
    yield RuleFinding("link-broken", reason, _advise(path, places, context), line)


def _leads_out(place: str, package: str) -> bool:
    if place == ".." or place.startswith(("../", "/")):
        return True
    return bool(package) and not f"{place}/".startswith(f"{package}/")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False  # a name that no file can have


def _advise(path: str, places: Sequence[str], context: LinkContext) -> str:
    name = posixpath.basename(path.rstrip("/"))
    guess = next((f for f in context.files if posixpath.basename(f) == name), None)
    if any(_exists(context.home / f"{place}.md") for place in places):
        guess = f"{path.rstrip('/')}.md"
    if guess:
        return f"did you mean {guess}?"
    return "correct the path, add the file, or delete the link"
