"""A Markdown file as an author sees it: its lines, and the text below the head."""

import re
from dataclasses import dataclass
from pathlib import Path

from skills_mcp.errors import MissingFileError
from skills_mcp.files.opening import open_inside
from skills_mcp.skills.discovery import MAX_SKILL_BYTES

_MARKDOWN = ".md"
_HEAD = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Markdown:
    """A file that was read."""

    text: str
    head: str
    """What stands between the first two lines of `---`."""
    body: str
    """What stands below the frontmatter."""
    first_line: int
    """Where the body begins, from 1."""

    def line(self, *keys: str) -> int:
        """Return where the first of these keys stands in the frontmatter, from 1."""
        last = self.first_line - 1
        head = self.text.split("\n", last)[:last]
        numbers = {line.partition(":")[0]: n for n, line in enumerate(head, 1)}
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

    An image may be a text, too: whatever can be read by a model counts.
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
    head = _HEAD.match(text)
    end = head.end() if head else 0
    block = head[1] if head else ""
    return Markdown(text, block, text[end:], 1 + text.count("\n", 0, end))
