"""A Markdown file as an author sees it: its lines, its frontmatter and its body."""

import re
from dataclasses import dataclass
from pathlib import Path

from skills_mcp.errors import MissingFileError
from skills_mcp.files.opening import open_inside
from skills_mcp.skills.discovery import MAX_SKILL_BYTES

_MARKDOWN = ".md"
_FRONTMATTER = re.compile(
    r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)


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
    found = _FRONTMATTER.match(text)
    end = found.end() if found else 0
    block = found[1] if found else ""
    return Markdown(text, block, text[end:], 1 + text.count("\n", 0, end))
