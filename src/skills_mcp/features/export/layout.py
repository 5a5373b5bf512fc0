"""Skills as packages with short names, their links, the layouts of an export, and its lock.

Sources: the Agent Skills standard, and
https://code.claude.com/docs/en/plugin-marketplaces and the discovery of Agent
Skills, version 0.2.0, https://schemas.agentskills.io/discovery/0.2.0/schema.json

Rule 1: a lock is reproducible. Equal commit and settings give equal bytes, on every
machine.

Rule 2: a name once given to a path stays as long as the path is exported.

Rule 3: a link is written anew only if it would lead nowhere, and did not in the source.
"""

import gzip
import io
import json
import re
import tarfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from posixpath import normpath, relpath
from typing import Any, Literal, get_args
from urllib.parse import quote, unquote

from pydantic import BaseModel, ConfigDict

from skills_mcp.errors import ExportError, FileError, InvalidPathError, SkillsError
from skills_mcp.features.authoring.markdown import find_relative_links, parse_markdown
from skills_mcp.features.authoring.validation import is_reference
from skills_mcp.files.durable import atomic_write, read_regular
from skills_mcp.files.paths import can_find, parse_relative
from skills_mcp.library import skill_folder
from skills_mcp.library.answers import read_plugin_files
from skills_mcp.skills import model
from skills_mcp.skills.composition import compose_skill
from skills_mcp.skills.inheritance import find_owners
from skills_mcp.skills.model import Skill, SkillPath, hyphenate
from skills_mcp.skills.skill_index import SkillIndex
from skills_mcp.skills.skill_parser import MAX_DESCRIPTION, SKILL_MD
from skills_mcp.skills.source_layout import EXPORT_LOCK
from skills_mcp.text.rendering import abbreviate_value, count_noun

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
            return skill, SKILL_MD
        for above in (source, *source.parents):
            main = above.with_name(f"{above.name}.md") if above.name else above
            if skill := self._resolve(above / SKILL_MD) or self._resolve(main):
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


def assign_names(
    paths: Iterable[model.SkillPath],
    given: Mapping[model.SkillPath, str],
    occupied: Collection[str] = frozenset(),
) -> Mapping[model.SkillPath, str]:
    """Name each path by its shortest unique suffix, in any order of the paths.

    Digits are added only where no suffix is unique, such as for `api` beside `API`.

    Args:
        paths: All exported skills.
        given: Names of an earlier export.
        occupied: Names of folders that no export has written.

    >>> names = assign_names(["web/auth", "ui/react/auth", "pdf"], {})
    >>> sorted(names.values())
    ['pdf', 'react-auth', 'web-auth']
    """
    suffixes = {path: _spell_suffixes(path) for path in sorted(paths)}
    names = {path: given[path] for path in suffixes if model.is_standard_name(given.get(path, ""))}
    taken = {*names.values(), *occupied}
    for length in range(max(map(len, suffixes.values()), default=0)):
        spelled = {path: each[length] for path, each in suffixes.items() if length < len(each)}
        _add_unique(names, taken, spelled)
    _add_unique(names, taken, {p: s[-1] for p, s in suffixes.items() if s and p not in names})
    for path in suffixes.keys() - names.keys():
        name = model.append_digest(path)
        names[path] = model.append_digest(path, digits=model.LONG_DIGITS) if name in taken else name
    return {path: names[path] for path in suffixes}


def _add_unique(
    names: dict[model.SkillPath, str], taken: set[str], spelled: Mapping[model.SkillPath, str]
) -> None:
    counts = Counter(spelled.values())
    for path, name in spelled.items():
        is_free = counts[name] == 1 and name not in taken and model.is_standard_name(name)
        if is_free and path not in names:
            names[path] = name
            taken.add(name)


def _spell_suffixes(path: model.SkillPath) -> list[str]:
    """Spell the suffixes of a path, the shortest first; none for one in another script."""
    words = [model.hyphenate(part) for part in path.split("/")]
    if not words[-1]:
        return []
    return ["-".join(filter(None, words[at:])) for at in range(len(words) - 1, -1, -1)]


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


def detect_format(folder: Path) -> FolderFormat:
    """Detect the format by the names of a folder and its parent.

    >>> detect_format(Path("web/.claude/skills")), detect_format(Path("out"))
    ('claude', 'plain')
    """
    names = (folder.absolute().name, folder.absolute().parent.name)
    return next((_FOLDERS[name] for name in names if name in _FOLDERS), "plain")


EXPORT_LOCK_FILE = EXPORT_LOCK

LOCK_VERSION = 2
"""Names of version 1 are made of whole paths."""

_MAX_BYTES = 256 * 1024 * 1024  # 100,000 skills have some 30 MB
_MODE = 0o644


class _FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LockedSource(_FrozenModel):
    mount: str
    name: str
    """Address of the repository; of a folder only its last name."""
    commit: str | None
    signer: str | None


class LockedSkill(_FrozenModel):
    path: str
    files: Mapping[str, str]
    """SHA-256 in hexadecimal, by path in the package."""


class LockedSettings(_FrozenModel):
    format: str
    raw: bool
    select: Sequence[str]


class ExportLock(_FrozenModel):
    """Sources and digests of an exported folder."""

    version: int = LOCK_VERSION
    sources: Sequence[LockedSource]
    settings: LockedSettings
    skills: Mapping[str, LockedSkill]
    files: Mapping[str, str] = {}
    """Digests of files outside packages, such as an index."""
    pending: Mapping[str, str] = {}
    """Files about to be written, for recovery after a crash."""

    def read_names(self) -> Mapping[SkillPath, str]:
        """Map the exported skills to their names, each given once."""
        paths = {folder.rpartition("/")[2]: skill.path for folder, skill in self.skills.items()}
        return {SkillPath(path): name for name, path in paths.items()}

    def list_files(self) -> Mapping[str, str]:
        """Map all files to their digests, relative to the folder."""
        of_skills = {
            f"{folder}/{file}": digest
            for folder, skill in self.skills.items()
            for file, digest in skill.files.items()
        }
        return {**of_skills, **self.files}

    def render(self) -> str:
        """Serialise as JSON with sorted keys, one line per skill."""
        data = self.model_dump(mode="json")
        parts = [
            f'"{key}": {_render_rows(data[key])}'
            for key in sorted(data)
            if data[key] or key not in {"files", "pending"}
        ]
        return "{\n" + ",\n".join(parts) + "\n}\n"

    def write(self, folder: Path) -> None:
        """Write the lock atomically.

        Raises:
            OSError: The disk is full or permission is denied; the old lock is
            unchanged.
        """
        with atomic_write(folder / EXPORT_LOCK_FILE, _MODE) as handle:
            handle.write(self.render().encode())


def _render_rows(value: Any) -> str:
    if not isinstance(value, dict):
        return _dump_json(value)
    rows = (f"  {_dump_json(key)}: {_dump_json(value[key])}" for key in sorted(value))
    return "{\n" + ",\n".join(rows) + "\n}"


def _dump_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _require_inside(lock: Path, name: str) -> None:
    """Refuse path traversal: others may have written the lock."""
    try:
        is_inside = "/".join(parse_relative(name)) == name
    except InvalidPathError:
        is_inside = False
    if not is_inside:
        raise ExportError(
            f"{lock} names {abbreviate_value(name)}, which is no path in the folder. Restore it "
            "from Git."
        )


def read_lock(folder: Path) -> ExportLock | None:
    """Load the lock of a folder; None if missing.

    Raises:
        ExportError: It is invalid.
    """
    file = folder / EXPORT_LOCK_FILE
    if not file.exists():
        return None
    try:
        lock = ExportLock.model_validate(json.loads(read_regular(file, _MAX_BYTES) or b""))
    except ValueError as error:
        raise ExportError(
            f"{file} cannot be read. Restore it from Git, or delete it: then files that are here "
            "are kept."
        ) from error
    for name in (*lock.list_files(), *lock.pending):
        _require_inside(file, name)
    if lock.version > LOCK_VERSION:
        raise ExportError(f"{file} was written by a newer skills-mcp. Install that version.")
    return lock


@dataclass(frozen=True, slots=True)
class PackagedSkill:
    name: str
    """Unique, and legal in the standard; also the name of the folder."""
    path: SkillPath
    description: str
    files: Mapping[str, bytes] = field(repr=False)
    remarks: tuple[str, ...] = ()
    """Truncations and omissions, for the user."""
    dropped: tuple[str, ...] = ()
    """Keys of the frontmatter that the format cannot hold."""


def package_skill(
    published: skill_folder.PublishedSkills,
    path: SkillPath,
    name: str,
    settings: LockedSettings,
    locations: ExportedLocations,
) -> PackagedSkill:
    """Package one published skill.  Blocking."""
    skill = published.snapshot.index.require(path)
    folder, links = published.open_folder(skill), PackageLinks(locations, skill)
    remarks = []
    if len(skill.description.strip()) > MAX_DESCRIPTION:
        remarks.append(f"its description was cut to {MAX_DESCRIPTION:,} characters")
    _, description = published.summarize(path)
    text = links.relocate_body(skill) if settings.raw else links.compose()
    extra_keys = skill_folder.CLAUDE_KEYS if settings.format in CLAUDE_FORMATS else ()
    fields = folder.read_fields()
    main = skill_folder.render_skill_file(skill, name, text, fields, extra_keys=extra_keys)
    files = {SKILL_MD: main.encode()}
    for file in sorted(folder.files):
        if settings.raw and file not in skill.files:
            continue
        try:
            files.setdefault(file, links.relocate_file(file, folder.read(file).data))
        except FileError as error:
            remarks.append(f"{file} was left out: {error}")
    snapshot = published.snapshot
    if plugin := read_plugin_files(snapshot.content, snapshot.index, skill):
        remarks.append(f"it lacks what it names of its plugin: {', '.join(plugin.names)}")
    dropped = tuple(skill_folder.list_dropped_keys(fields, extra_keys))
    return PackagedSkill(name, path, description, files, tuple(remarks), dropped)


WELL_KNOWN_FOLDER = ".well-known/agent-skills"
WELL_KNOWN_INDEX = f"{WELL_KNOWN_FOLDER}/index.json"

_SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_MARKETPLACE = ".claude-plugin/marketplace.json"
_PLUGIN = ".claude-plugin/plugin.json"
_COLLECTION = "organisation-skills"
_GENERAL = "general"  # for skills that lie in no folder
_DIGITS = 12
_EXECUTABLE_START = b"#!"

Files = Mapping[str, bytes]


class PlainLayout:
    """One folder per package, as read by hosts; receives one package at a time."""

    def locate(self, path: SkillPath, name: str) -> str:  # noqa: ARG002 - of others
        """Folder of a package."""
        return name

    def find_unit(self, folder: str) -> str:  # noqa: ARG002 - of others
        """Folder of the packages installed together with a package; empty for all."""
        return ""

    def add_package(self, package: PackagedSkill) -> tuple[str, Files]:
        """Folder of a package, and its files."""
        return self.locate(package.path, package.name), package.files

    def finish(self) -> Files:
        """Index files, with paths relative to the export."""
        return {}


class MarketplaceLayout(PlainLayout):
    """Claude Code plugins, one per top folder of the tree.

    A plugin's version is a content hash, so it is updated if and only if a skill
    changes.
    """

    def __init__(self) -> None:
        self._plugins: dict[str, list[PackagedSkill]] = defaultdict(list)

    def locate(self, path: SkillPath, name: str) -> str:
        return f"plugins/{_name_plugin(path)}/skills/{name}"

    def find_unit(self, folder: str) -> str:
        return "/".join(folder.split("/")[:2])

    def add_package(self, package: PackagedSkill) -> tuple[str, Files]:
        self._plugins[_name_plugin(package.path)].append(package)
        return super().add_package(package)

    def finish(self) -> Files:
        files, listed = {}, []
        for name, packages in sorted(self._plugins.items()):
            about = {
                "name": name,
                "description": f"{count_noun(len(packages), 'skill')} of {name}",
                "version": _derive_version(packages),
            }
            files[f"plugins/{name}/{_PLUGIN}"] = _render_json(about)
            listed.append({**about, "source": f"./plugins/{name}"})
        files[_MARKETPLACE] = _render_json(
            {
                "name": _COLLECTION,
                "description": "The skills of this organisation",
                "owner": {"name": _COLLECTION},
                "plugins": listed,
            }
        )
        return files


@dataclass(frozen=True, slots=True)
class WellKnownSkill:
    file: str
    data: bytes = field(repr=False)
    entry: str


class WellKnownLayout(PlainLayout):
    """Well-known index; multi-file packages become archives."""

    def __init__(self) -> None:
        self._entries: list[str] = []

    def locate(self, path: SkillPath, name: str) -> str:  # noqa: ARG002 - of others
        return f"{WELL_KNOWN_FOLDER}/{name}"

    def add_package(self, package: PackagedSkill) -> tuple[str, Files]:
        skill = build_well_known_skill(package)
        self._entries.append(skill.entry)
        return self.locate(package.path, package.name), {skill.file: skill.data}

    def finish(self) -> Files:
        return {WELL_KNOWN_INDEX: render_well_known(self._entries)}


def build_well_known_skill(package: PackagedSkill) -> WellKnownSkill:
    is_single = set(package.files) == {SKILL_MD}
    file = SKILL_MD if is_single else f"{package.name}.tar.gz"
    data = package.files[SKILL_MD] if is_single else _build_archive(package.files)
    entry = {
        "name": package.name,
        "type": "skill-md" if is_single else "archive",
        "description": package.description,
        "url": f"/{WELL_KNOWN_FOLDER}/{package.name}/{file}",
        "digest": f"sha256:{sha256(data).hexdigest()}",
    }
    text = json.dumps(entry, indent=2, ensure_ascii=False)
    return WellKnownSkill(file, data, text.replace("\n", "\n    "))


def render_well_known(entries: Sequence[str]) -> bytes:
    listed = ",".join(f"\n    {entry}" for entry in entries)
    end = "\n  " if entries else ""
    head = f'"$schema": {json.dumps(_SCHEMA)},\n  "skills": '
    return f"{{\n  {head}[{listed}{end}]\n}}\n".encode()


def _name_plugin(path: SkillPath) -> str:
    top, slash, _ = path.partition("/")
    return (hyphenate(top) if slash else "") or _GENERAL


def choose_layout(name: str) -> PlainLayout:
    layouts = {"marketplace": MarketplaceLayout, "well-known": WellKnownLayout}
    return layouts.get(name, PlainLayout)()


def _derive_version(packages: list[PackagedSkill]) -> str:
    digest = sha256()
    for package in packages:
        for file, data in sorted(package.files.items()):
            digest.update(f"{package.name}/{file}\0{sha256(data).hexdigest()}\0".encode())
    return f"0.0.0-{digest.hexdigest()[:_DIGITS]}"


def _build_archive(files: Files) -> bytes:
    """Build a reproducible tar.gz archive."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file, data in sorted(files.items()):
            entry = tarfile.TarInfo(file)
            entry.size = len(data)
            entry.mode = 0o755 if data.startswith(_EXECUTABLE_START) else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def _render_json(value: object) -> bytes:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return f"{text}\n".encode()
