"""The content as a server reads it, and where on the disk each part of it lies."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from skills_mcp.config import Settings
from skills_mcp.content.local import LocalFolder
from skills_mcp.content.source import Checkout, Content, Mount, Part
from skills_mcp.skills.found import Package, RuleFile
from skills_mcp.skills.homes import Home, find_homes
from skills_mcp.skills.model import Problem, Skill
from skills_mcp.skills.walk import Walk
from skills_mcp.snapshots.snapshot import Snapshot, take_snapshot

_OF_THE_TOP = "beside-skills"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder that is meant as a skill."""

    home: Path
    """The folder that `found` is relative to."""
    found: RuleFile | Package
    skill: Skill | None
    """What is served of it, if it is served."""

    @property
    def file(self) -> Path:
        """Where its Markdown file lies."""
        return self.home / self.found.file

    @property
    def is_notice(self) -> bool:
        """Whether it speaks to people, as `README.md` does."""
        return self.skill is None and self.file.stem.isupper() and not self.is_package

    @property
    def is_package(self) -> bool:
        """Whether the standard has a word to say."""
        return isinstance(self.found, Package)

    @property
    def whole(self) -> Path:
        """Where all of it lies: a package is a folder."""
        return self.resources if self.is_package else self.file

    @property
    def resources(self) -> Path:
        """Where the files lie that belong to it."""
        return self.file.parent if self.is_package else self.file.with_suffix("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """All content below one folder."""

    top: Path
    snapshot: Snapshot
    homes: tuple[Home, ...]
    entries: tuple[Entry, ...]
    """Every file and folder that is meant as a skill, served or not."""

    def problems(self) -> Iterator[Problem]:
        """Iterate over what the server reports, with the paths of this machine."""
        for problem in self.snapshot.problems:
            yield replace(problem, file=str(self._locate(problem)))

    def _locate(self, problem: Problem) -> Path:
        """Return the file of a problem, which names it from the start of its home."""
        at_top = self.top / problem.file
        if problem.rule == _OF_THE_TOP:
            return at_top
        places = [
            home.directory / problem.file.removeprefix(home.prefix)
            for home in reversed(self.homes)  # the first one's prefix is empty
            if problem.file.startswith(home.prefix)
        ]
        # A name that was escaped to be shown is not there.
        return next(filter(os.path.lexists, (*places, at_top)), places[-1])


def load_tree(top: Path, subfolder: str = "") -> Tree:
    """Read all content of a folder, with the settings that it brings itself.

    The operator's settings and environment stay out of it: content is right or wrong
    on every machine alike.
    """
    mount = Mount(source=LocalFolder(top, "the path"), subfolder=subfolder)
    checkout = Checkout(top, None, datetime.now(UTC))
    snapshot = take_snapshot(Content((Part(mount, checkout),)), Settings())
    homes = find_homes(top, subfolder)
    served = {skill.location: skill for skill in snapshot.index}
    limit = snapshot.config.limits.max_files
    entries = (
        Entry(home.directory, found, served.get(home.directory / found.file))
        for home in homes
        for found in Walk(home.directory, limit, packages_only=home.packages_only).run()
        if isinstance(found, RuleFile | Package)
    )
    return Tree(top=top, snapshot=snapshot, homes=homes, entries=tuple(entries))
