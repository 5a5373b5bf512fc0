"""Published skills."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skills_mcp.errors import FileError
from skills_mcp.library.answers import compose_instructions, sha256_of
from skills_mcp.library.skill_folder import (
    SKILL_FILE,
    SkillFolder,
    build_frontmatter,
    open_skill_folder,
    render_document,
)
from skills_mcp.skills.assets import FileContent, read_skill_file
from skills_mcp.skills.index import INDEX, ROOT, SkillIndex
from skills_mcp.skills.inheritance import files_in_lineage, find_in_lineage
from skills_mcp.skills.legal_names import map_standard_names
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.snapshots.snapshot import Snapshot

logger = logging.getLogger(__name__)

MAX_PUBLISHED_FILES = 512
"""Files of one skill including `SKILL.md`, a limit of the extension."""

MAX_PUBLISHED_BYTES = 16 * 1024 * 1024
"""Total size of one skill, a limit of the extension."""

_MARKDOWN = "text/markdown"
_PLAIN = "text/plain"


@dataclass(frozen=True, slots=True)
class PublishedFile:
    file: str
    mime_type: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PublishedText:
    frontmatter: Mapping[str, Any]
    """Parsed YAML of `text`; every scalar is a string."""
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PublishedSkill:
    text: PublishedText
    files: tuple[PublishedFile, ...]


class PublishedNames:
    """Unique names of the skills in one index, with logged omissions."""

    def __init__(self, index: SkillIndex) -> None:
        self._paths = map_standard_names(row.path for row in index.listed)
        self._names = {path: name for name, path in self._paths.items()}
        self.published: Sequence[SkillPath] = tuple(
            row.path for row in index.listed if not _is_shared_rule(row.path)
        )
        """The paths of the skills that are published, in order."""
        self._logged: set[tuple[str, str]] = set()

    def name_of(self, path: SkillPath) -> str:
        return self._names[path]

    def find(self, name: str) -> SkillPath | None:
        path = self._paths.get(name)
        return None if path is None or _is_shared_rule(path) else path

    def log_omission(self, path: SkillPath, reason: str) -> None:
        """Log an omission once for each state of the skills."""
        if (path, reason) not in self._logged:
            self._logged.add((path, reason))
            logger.warning("Not published of %s: %s", path, reason)


class PublishedSkills:
    """Skills of one snapshot as folders with unique names.

    Inherited rules have a name and a text, too, but are not published. The same content
    has
    the same bytes, so a digest changes only with the skill.
    """

    def __init__(self, snapshot: Snapshot, names: PublishedNames) -> None:
        self.snapshot = snapshot
        self.names = names
        self._index = snapshot.index
        self._max_bytes = snapshot.config.assets.max_size_bytes

    def summarize(self, path: SkillPath) -> tuple[str, str]:
        skill = self._index.require(path)
        frontmatter = build_frontmatter(skill, self.names.name_of(path), {})
        return frontmatter["name"], frontmatter["description"]

    def open_folder(self, skill: Skill) -> SkillFolder:
        return open_skill_folder(self._index, skill, max_bytes=self._max_bytes)

    def compose(self, skill: Skill) -> PublishedText:
        """Compose the `SKILL.md` of a skill.  Blocking."""
        folder = self.open_folder(skill)
        name = self.names.name_of(skill.path)
        frontmatter = build_frontmatter(skill, name, folder.read_fields())
        text = compose_instructions(self._index, skill)
        return PublishedText(frontmatter, render_document(frontmatter, text))

    def open(self, path: SkillPath) -> PublishedSkill | None:
        """Read a published skill with file digests.  Blocking.

        None, and a log record, above the limits of the extension.
        """
        skill = self._index.require(path)
        text = self.compose(skill)
        raw = text.text.encode()
        main = PublishedFile(SKILL_FILE, _MARKDOWN, len(raw), sha256_of(raw))
        files = self._find_files(skill)
        size = main.size_bytes + sum(
            min(owner.files[file].size_bytes, self._max_bytes) for file, owner in files.items()
        )
        if 1 + len(files) > MAX_PUBLISHED_FILES or size > MAX_PUBLISHED_BYTES:
            self.names.log_omission(
                path,
                f"the skill, which has {1 + len(files):,} files and {size:,} bytes; "
                f"hosts take {MAX_PUBLISHED_FILES} and {MAX_PUBLISHED_BYTES:,}. Divide it.",
            )
            return None
        return PublishedSkill(text, (main, *self._read_files(skill, files)))

    def _find_files(self, skill: Skill) -> dict[str, Skill]:
        found = {}
        for file in files_in_lineage(self._index, skill):
            located = find_in_lineage(self._index, skill, file)
            # Not another file in its place that differs only in case.
            if located and located.entry.file == file and file in located.owner.files:
                found[file] = located.owner
        found.pop(SKILL_FILE, None)
        return found

    def _read_files(self, skill: Skill, files: Mapping[str, Skill]) -> Iterator[PublishedFile]:
        for file, owner in files.items():
            try:
                content = read_skill_file(owner, file, max_bytes=self._max_bytes)
            except FileError as error:
                self.names.log_omission(skill.path, str(error))
                continue
            kind = derive_mime_type(file, content)
            size, digest = len(content.data), sha256_of(content.data)
            yield PublishedFile(file, kind, size, digest)


def derive_mime_type(file: str, content: FileContent) -> str:
    """MIME type of a file: Markdown, plain text, or detected."""
    if content.is_binary:
        return content.mime_type
    return _MARKDOWN if file.lower().endswith(".md") else _PLAIN


def _is_shared_rule(path: SkillPath) -> bool:
    return path.rpartition("/")[2] in {ROOT, INDEX}
