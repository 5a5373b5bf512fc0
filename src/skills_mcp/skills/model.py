"""The values that everything else speaks of; frozen, and free of any format."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NewType

SkillPath = NewType("SkillPath", str)
"""`ui/react/auth`: a skill's place in the tree, never a place on a disk."""

Execution = Literal["claude", "server"]
"""Who runs a script: the agent in its own shell, or this server."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that a skill hands out: a template, an example, an image."""

    file: str
    description: str
    type: str


@dataclass(frozen=True, slots=True)
class Argument:
    """A named argument of a script."""

    name: str
    description: str
    required: bool


@dataclass(frozen=True, slots=True)
class Script:
    """A file that can be run, and by whom."""

    file: str
    description: str
    execution: Execution
    args: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One file of knowledge, with everything it declares (001 §4.2)."""

    path: SkillPath
    file: str
    """The Markdown file, relative to the content's root."""
    name: str
    description: str
    keywords: tuple[str, ...]
    body: str
    inherit: bool
    priority: int
    assets: tuple[Asset, ...]
    scripts: tuple[Script, ...]
    directory: Path | None
    """The folder of the same name, which holds the assets and scripts, if any."""

    def entries(self) -> Iterator[Asset | Script]:
        """Iterate over everything the skill can hand out, assets first (001 §7.5)."""
        yield from self.assets
        yield from self.scripts


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the content that its author should know: data, never raised."""

    file: str
    reason: str
    hint: str
    """What to write instead."""
    level: Literal["error", "warning"] = "error"
    """`error`: the file is not served. `warning`: served, with a part ignored."""

    is_passing: bool = False
    """Whether reading the same content again may go better: a disk had a bad day."""

    def __str__(self) -> str:
        return f"{self.file}: {self.reason} ({self.hint})"
