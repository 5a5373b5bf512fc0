"""Links of exported texts, whose files lie elsewhere than in the source.

Rule: a link is written anew only if it would lead nowhere, and did not in the source.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from posixpath import normpath, relpath
from urllib.parse import quote, unquote

from skills_mcp.errors import SkillsError
from skills_mcp.features.authoring.markdown import find_relative_links, parse_markdown
from skills_mcp.features.authoring.validation import is_reference
from skills_mcp.files.paths import can_find
from skills_mcp.library.skill_folder import SKILL_FILE
from skills_mcp.skills.composition import compose_skill
from skills_mcp.skills.inheritance import find_owners
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.skill_index import SkillIndex

_TITLE = r"(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'))?"
_LABEL = r"((?:[^\[\]]|\[[^\]]{0,500}\](?:\([^)]{0,500}\))?+){0,1000}+)"


class ExportedLocations:
    """Folders of the exported skills, by their files in the source.

    Args:
        index: The exported skills.
        locate: Folder of a skill in the export; None if it is not exported.
        find_unit: Folder of what is installed together with a package.
    """

    def __init__(
        self,
        index: SkillIndex,
        locate: Callable[[SkillPath], str | None],
        find_unit: Callable[[str], str],
    ) -> None:
        self.index = index
        self.locate = locate
        self.find_unit = find_unit
        self.lost: Counter[SkillPath] | None = None
        """Counts the links of each skill to files that are not exported, which become
        plain text; None to leave them."""
        self._known: dict[str, Skill | None] = {}

    def find(self, source: Path, root: Path | None) -> str | None:
        """Find the exported file, or folder, of one in the source."""
        skill, file = self._find_skill(source, root)
        folder = self.locate(skill.path) if skill else None
        return normpath(f"{folder}/{file}") if folder else None

    def _find_skill(self, source: Path, root: Path | None) -> tuple[Skill | None, str]:
        if skill := self._resolve(source):
            return skill, SKILL_FILE
        for above in (source, *source.parents):
            main = above.with_name(f"{above.name}.md") if above.name else above
            if skill := self._resolve(above / SKILL_FILE) or self._resolve(main):
                file = source.relative_to(above).as_posix()
                is_there = any(f"{each}/".startswith(f"{file}/") for each in skill.files)
                return (skill if is_there or file == "." else None), file
            if above == root:
                break
        return None, ""

    def _resolve(self, source: Path) -> Skill | None:
        """Find the skill of a Markdown file, or of an identical copy."""
        key = str(source)
        if key not in self._known:
            try:
                is_file = key.endswith(".md") and source.is_file()
                self._known[key] = self.index.resolve(key) if is_file else None
            except (SkillsError, OSError, ValueError):
                self._known[key] = None
        return self._known[key]


class PackageLinks:
    """Rewrites the links of one package."""

    def __init__(self, locations: ExportedLocations, skill: Skill) -> None:
        self._locations = locations
        self._skill = skill
        self._folder = locations.locate(skill.path) or ""
        self._owners = find_owners(locations.index, skill)

    def compose(self) -> str:
        """Composed text of the skill, with its links relocated."""
        composition = compose_skill(self._locations.index, self._skill)
        parts = (replace(part, body=self.relocate_body(part)) for part in composition.parts)
        return replace(composition, parts=tuple(parts)).instructions

    def relocate_body(self, part: Skill) -> str:
        """Body of the skill, or of a part that it inherits or requires."""
        location = part.location
        if location is None:
            return part.body
        own = location.parent if part.directory == location.parent else location.with_suffix("")
        return self._relocate(part.body, "", (location.parent, own))

    def relocate_file(self, file: str, data: bytes) -> bytes:
        """Bytes of a file; only references are Markdown with links of their own."""
        folder = self._owners[file].directory
        if not file.endswith(".md") or not is_reference(file) or folder is None:
            return data
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return data
        below = file.rpartition("/")[0]
        return self._relocate(text, below, (folder / below, folder)).encode()

    def _relocate(self, text: str, below: str, bases: Sequence[Path]) -> str:
        here = normpath(f"{self._folder}/{below}")
        moved = {}
        for link in find_relative_links(parse_markdown(text.encode())):
            written = re.split("[#?]", link.target, maxsplit=1)[0]
            path = unquote(written)
            if self._has(below, path) or path.startswith(("/", "~")):
                continue
            sources = [Path(normpath(f"{base.as_posix()}/{path}")) for base in bases]
            found = next(filter(None, map(self._find, sources)), None)
            if found and self._locations.find_unit(found) == self._locations.find_unit(here):
                is_same = found == normpath(f"{here}/{path}")
                new = quote(relpath(found, here)) + link.target[len(written) :]
                moved[link.target] = link.target if is_same else new
            elif self._locations.lost is not None and any(map(can_find, sources)):
                self._locations.lost[self._skill.path] += 1
                text = _unlink(text, link.target, next(filter(can_find, sources)), self._skill.root)
        return _move(text, moved) if moved else text

    def _has(self, below: str, path: str) -> bool:
        """Whether the package has a file where the link leads, or at its top."""
        return any(normpath(f"{base}/{path}") in self._owners for base in (below or ".", "."))

    def _find(self, source: Path) -> str | None:
        for file, owner in self._owners.items():
            if owner.directory and owner.directory / file == source:
                return f"{self._folder}/{file}"
        return self._locations.find(source, self._skill.root)


def _move(text: str, moved: Mapping[str, str]) -> str:
    """Replace all targets at once: a new one may be the old one of another link."""
    targets = "|".join(map(re.escape, sorted(moved, key=len, reverse=True)))
    start = r"\]\(\s*<?|^ {0,3}\[[^\]\n]+\]:[ \t]*<?"
    pattern = re.compile(rf"({start})({targets})(?=>?(?:[\s)]|$))", re.MULTILINE)
    return pattern.sub(lambda found: found[1] + moved[found[2]], text)


def _unlink(text: str, target: str, source: Path, root: Path | None) -> str:
    """Write a link as its words and the path in the source."""
    inside = source.relative_to(root).as_posix() if root and source.is_relative_to(root) else ""
    quoted = re.escape(target)
    definition = rf"^ {{0,3}}\[[^\]\n]+\]:[ \t]*<?{quoted}>?{_TITLE}[ \t]*$"
    text = re.sub(definition, "", text, flags=re.MULTILINE)

    def name(found: re.Match[str]) -> str:
        is_named = not inside or found[1].strip("`") in {target, inside}
        return found[1] if is_named else f"{found[1]} (`{inside}`)"

    return re.sub(rf"!?\[{_LABEL}\]\(\s*<?{quoted}>?{_TITLE}\s*\)", name, text)
