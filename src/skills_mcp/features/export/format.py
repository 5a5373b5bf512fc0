"""For whom a folder is: hosts read the same packages, each in a folder of its own."""

from pathlib import Path
from typing import Literal, get_args

FolderFormat = Literal[
    "claude", "agents", "gemini", "copilot", "plain", "marketplace", "well-known"
]
"""For whom a folder is written."""

FORMATS: tuple[FolderFormat, ...] = get_args(FolderFormat)

# Where each host looks, in a project and in the home of a person.
_FOLDERS: dict[str, FolderFormat] = {
    ".claude": "claude",
    ".agents": "agents",
    ".gemini": "gemini",
    ".github": "copilot",
    ".copilot": "copilot",
}

CLAUDE: tuple[FolderFormat, ...] = ("claude", "marketplace")
"""What Claude Code reads."""

CLAUDE_KEYS = frozenset(
    {"agent", "argument-hint", "context", "disable-model-invocation", "hooks"}
    | {"model", "user-invocable", "when_to_use"}
)
"""Keys that Claude Code reads beside those of the standard, and others refuse."""


def derive_format(folder: Path) -> FolderFormat:
    """Return for whom a folder is, by the name of the one that holds it.

    >>> derive_format(Path("web/.claude/skills")), derive_format(Path("out"))
    ('claude', 'plain')
    """
    names = (folder.absolute().name, folder.absolute().parent.name)
    return next((_FOLDERS[name] for name in names if name in _FOLDERS), "plain")
