"""What a walk over a folder finds, before anything of it is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from skills_mcp.skills.model import Problem, Stamp


@dataclass(frozen=True, slots=True)
class RuleFile:
    """A Markdown file in the tree, and the folder that belongs to it."""

    file: str
    directory: Path | None
    markdown: tuple[str, ...] = ()
    """The Markdown files in that folder, by their paths in it."""
    stamp: Stamp | None = field(default=None, compare=False)
    """How the file looks; None if nobody can say."""


@dataclass(frozen=True, slots=True)
class Package:
    """A folder with a `SKILL.md`, and every file in it."""

    folder: str
    """Relative to the root; empty for the root itself."""
    main: str
    files: Mapping[str, Stamp]
    """Without the main one."""
    stamp: Stamp | None = field(default=None, compare=False)
    """How the main one looks; None if nobody can say."""

    @property
    def file(self) -> str:
        """The `SKILL.md`, relative to the root."""
        return f"{self.folder}/{self.main}" if self.folder else self.main


@dataclass(frozen=True, slots=True)
class Untouched:
    """A folder that is known, and was not looked into."""

    folder: str


Found = RuleFile | Package | Problem | Untouched
