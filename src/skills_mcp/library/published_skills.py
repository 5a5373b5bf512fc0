"""Skills as folders with unique names: what the MCP extension for skills publishes.

A folder has `SKILL.md`, the text with all that the skill inherits below frontmatter,
and the files that `get_asset` returns for the skill.

Rule: the same content has the same bytes, so a digest stays until a skill changes.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skills_mcp.errors import FileError
from skills_mcp.library.answers import compose_instructions, derive_sha256
from skills_mcp.library.skill_folder import (
    MAIN,
    SkillFolder,
    derive_frontmatter,
    open_folder,
    render_document,
)
from skills_mcp.skills.assets import FileContent, read_file
from skills_mcp.skills.index import INDEX, ROOT, SkillIndex
from skills_mcp.skills.inheritance import files_in_chain, find_in_chain
from skills_mcp.skills.legal_names import name_paths
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.snapshots.snapshot import Snapshot

logger = logging.getLogger(__name__)

MAX_FILES = 512
"""Of one skill, its `SKILL.md` among them, as the extension has it."""

MAX_BYTES = 16 * 1024 * 1024
"""Of all files of one skill together, as the extension has it."""

_MARKDOWN = "text/markdown"
_PLAIN = "text/plain"


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of a published skill, and the digest of its bytes."""

    file: str
    mime_type: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PublishedText:
    """The `SKILL.md` of a skill."""

    frontmatter: Mapping[str, Any]
    """What YAML makes of the beginning of `text`; every scalar is a text."""
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PublishedSkill:
    """A skill with all of its files."""

    text: PublishedText
    files: tuple[PublishedFile, ...]
    """Its `SKILL.md` first."""


class PublishedNames:
    """The names of the skills of one state, and what the log was told about them."""

    def __init__(self, index: SkillIndex) -> None:
        self._paths = name_paths(row.path for row in index.listed)
        self._names = {path: name for name, path in self._paths.items()}
        self.published: Sequence[SkillPath] = tuple(
            row.path for row in index.listed if not _is_above_others(row.path)
        )
        """The paths of the skills that are published, in order."""
        self._told: set[tuple[str, str]] = set()

    def name_of(self, path: SkillPath) -> str:
        """Return the name of a skill that is offered."""
        return self._names[path]

    def find(self, name: str) -> SkillPath | None:
        """Return the path of the published skill with this name."""
        path = self._paths.get(name)
        return None if path is None or _is_above_others(path) else path

    def tell(self, path: SkillPath, left_out: str) -> None:
        """Log what is not published, once for each state of the skills."""
        if (path, left_out) not in self._told:
            self._told.add((path, left_out))
            logger.warning("Not published of %s: %s", path, left_out)


class PublishedSkills:
    """The skills of one state as folders, each with a name of its own.

    Rules that others inherit have a name and a text, too, but are not published.

    Args:
        snapshot: The state.
        names: Those of its skills.
    """

    def __init__(self, snapshot: Snapshot, names: PublishedNames) -> None:
        self.snapshot = snapshot
        self.names = names
        self._index = snapshot.index
        self._max_bytes = snapshot.config.assets.max_size_bytes

    def summarize(self, path: SkillPath) -> tuple[str, str]:
        """Return the name and the description of a skill, as its frontmatter has it."""
        skill = self._index.require(path)
        told = derive_frontmatter(skill, self.names.name_of(path), {})
        return told["name"], told["description"]

    def open_folder(self, skill: Skill) -> SkillFolder:
        """Return a skill's text and files as they are in this state."""
        return open_folder(self._index, skill, max_bytes=self._max_bytes)

    def compose(self, skill: Skill) -> PublishedText:
        """Return the `SKILL.md` of a skill.  Blocking."""
        folder = self.open_folder(skill)
        name = self.names.name_of(skill.path)
        frontmatter = derive_frontmatter(skill, name, folder.read_fields())
        text = compose_instructions(self._index, skill)
        return PublishedText(frontmatter, render_document(frontmatter, text))

    def open(self, path: SkillPath) -> PublishedSkill | None:
        """Return a published skill with the digests of its files.  Blocking.

        None if it has more than the extension allows; the log is told.
        """
        skill = self._index.require(path)
        text = self.compose(skill)
        raw = text.text.encode()
        main = PublishedFile(MAIN, _MARKDOWN, len(raw), derive_sha256(raw))
        files = self._find_files(skill)
        size = main.size_bytes + sum(
            min(owner.files[file].size_bytes, self._max_bytes)
            for file, owner in files.items()
        )
        if 1 + len(files) > MAX_FILES or size > MAX_BYTES:
            self.names.tell(
                path,
                f"the skill, which has {1 + len(files):,} files and {size:,} bytes; "
                f"hosts take {MAX_FILES} and {MAX_BYTES:,}. Divide it.",
            )
            return None
        return PublishedSkill(text, (main, *self._read_files(skill, files)))

    def _find_files(self, skill: Skill) -> dict[str, Skill]:
        """Return each file that `get_asset` returns for a skill, and whose it is."""
        found = {}
        for file in files_in_chain(self._index, skill):
            located = find_in_chain(self._index, skill, file)
            # Not another file in its place that differs only in case.
            if located and located.entry.file == file and file in located.owner.files:
                found[file] = located.owner
        found.pop(MAIN, None)
        return found

    def _read_files(
        self, skill: Skill, files: Mapping[str, Skill]
    ) -> Iterator[PublishedFile]:
        for file, owner in files.items():
            try:
                content = read_file(owner, file, max_bytes=self._max_bytes)
            except FileError as error:
                self.names.tell(skill.path, str(error))
                continue
            kind = derive_mime_type(file, content)
            size, digest = len(content.data), derive_sha256(content.data)
            yield PublishedFile(file, kind, size, digest)


def derive_mime_type(file: str, content: FileContent) -> str:
    """Return the MIME type of a file: Markdown, another text, or that of its bytes."""
    if content.is_binary:
        return content.mime_type
    return _MARKDOWN if file.lower().endswith(".md") else _PLAIN


def _is_above_others(path: SkillPath) -> bool:
    return path.rpartition("/")[2] in {ROOT, INDEX}
