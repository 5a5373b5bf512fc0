"""Content for a test: folders that stand somewhere in the tree, and their snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from skills_mcp.config import Layer, Limits, Settings
from skills_mcp.content.source import (
    Checkout,
    Content,
    ContentPart,
    LocalFolder,
    Mode,
    Mount,
    Surveyed,
)
from skills_mcp.skills.model import Problem, Scope, Skill
from skills_mcp.skills.skill_discovery import RootWalk
from skills_mcp.skills.source_layout import (
    FolderTree,
    RelativeRoot,
    Selection,
    SkillRoot,
    find_layout,
)
from skills_mcp.snapshots.loaded_skills import classify_walk, read_skill_root
from skills_mcp.snapshots.skill_records import SkillTable
from skills_mcp.snapshots.skill_snapshot import Snapshot, take_snapshot


class FixedSource(LocalFolder):
    """A source that has one checkout and never gets another one."""

    mode: Mode  # type: ignore[assignment]

    def __init__(self, checkout: Checkout, mode: Mode) -> None:
        super().__init__(checkout.directory)
        self.checkout = checkout
        self.mode = mode

    def open(self) -> Checkout | None:
        return self.checkout


def part_of(  # noqa: PLR0913 - what an operator can say of a source
    folder: Path,
    *,
    at: str = "",
    subfolder: str = "",
    scope: Scope = "org",
    revision: str | None = None,
    surveyed: Surveyed | None = None,
    everywhere: bool = False,
    plugins: tuple[str, ...] = (),
) -> ContentPart:
    """Return a folder's share of the content; with a revision it is a commit."""
    checkout = Checkout(folder, revision, datetime.now(UTC), surveyed or {})
    source = FixedSource(checkout, "git" if revision else "local")
    selection = Selection(subfolder, everywhere, plugins)
    return ContentPart(Mount(source=source, at=at, selection=selection, scope=scope), checkout)


def homes_of(folder: Path, subfolder: str = "", **more: Any) -> tuple[SkillRoot, ...]:
    """Return where the skills of a folder begin."""
    layout = find_layout(FolderTree(folder), Selection(subfolder, **more))
    return tuple(home.at(folder, "", "org") for home in layout.homes)


@dataclass(frozen=True)
class LoadedSkills:
    """What one folder holds."""

    skills: tuple[Skill, ...]
    problems: tuple[Problem, ...]


def load_skills(
    folder: Path,
    *,
    prefix: str = "",
    scope: Scope = "org",
    limits: Limits | None = None,
) -> LoadedSkills:
    """Read every skill of a folder, in the order of their files."""
    home = SkillRoot(folder, prefix, scope=scope, file_prefix=prefix)
    limited = limits or Limits()
    walk = RootWalk(FolderTree(folder), RelativeRoot(""), limited).run()
    read = read_skill_root(home, classify_walk(home, walk, lambda _: "", frozenset()), {})
    records = [record for record in read.records if record.skill]
    table = SkillTable.pack([(0, record) for record in records], [home])
    return LoadedSkills(tuple(table), tuple(problem for _, problem in read.findings))


def take(*parts: Path | ContentPart, settings: Mapping[str, Any] | None = None) -> Snapshot:
    """Read folders as the content of a server whose operator has set `settings`."""
    content = (part_of(each) if isinstance(each, Path) else each for each in parts)
    layers = (Layer("operator", settings),) if settings else ()
    return take_snapshot(Content(tuple(content)), Settings(layers))
