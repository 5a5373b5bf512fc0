"""Export formats, and the folders of hosts."""

from pathlib import Path
from typing import Literal, get_args

FolderFormat = Literal[
    "claude", "agents", "gemini", "copilot", "plain", "marketplace", "well-known"
]

FORMATS: tuple[FolderFormat, ...] = get_args(FolderFormat)

# Where each host looks, in a project and in the home of a person.
_FOLDERS: dict[str, FolderFormat] = {
    ".claude": "claude",
    ".agents": "agents",
    ".gemini": "gemini",
    ".github": "copilot",
    ".copilot": "copilot",
}

CLAUDE_FORMATS: tuple[FolderFormat, ...] = ("claude", "marketplace")

CLAUDE_KEYS = frozenset(
    {"agent", "argument-hint", "context", "disable-model-invocation", "hooks"}
    | {"model", "user-invocable", "when_to_use"}
)
"""Non-standard frontmatter keys of Claude Code; others refuse them."""


def detect_format(folder: Path) -> FolderFormat:
    """Detect the format by the names of a folder and its parent.

    >>> detect_format(Path("web/.claude/skills")), detect_format(Path("out"))
    ('claude', 'plain')
    """
    names = (folder.absolute().name, folder.absolute().parent.name)
    return next((_FOLDERS[name] for name in names if name in _FOLDERS), "plain")
