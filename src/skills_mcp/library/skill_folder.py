"""Skills as folders, as the MCP extension publishes them, and as people preview them.

Rule: no events are tracked. Listing, searching or copying skills does not deliver one
to an agent; delivery uses `load_skill` and `read_file`.
"""

import json
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from weakref import WeakKeyDictionary

from skills_mcp import errors
from skills_mcp.content.git.remote import derive_edit_url, derive_page_url
from skills_mcp.files.opening import open_inside
from skills_mcp.library.answers import (
    Provenance,
    derive_file_provenance,
    derive_provenance,
    find_repository,
    sha256_of,
)
from skills_mcp.skills.composition import SkillCost, compose_skill, derive_cost
from skills_mcp.skills.document import decode_markdown, get_mapping, parse_document
from skills_mcp.skills.inheritance import (
    escape_headers,
    files_in_lineage,
    find_in_lineage,
    find_owners,
)
from skills_mcp.skills.model import ProblemList, Skill, SkillPath, map_standard_names
from skills_mcp.skills.skill_files import FileContent, derive_mime_type, read_skill_file
from skills_mcp.skills.skill_index import INDEX, ROOT, SkillIndex, SkillPatterns
from skills_mcp.skills.skill_parser import MAX_DESCRIPTION, SKILL_MD, is_package_file
from skills_mcp.snapshots.skill_snapshot import Snapshot
from skills_mcp.text.rendering import truncate_text

_STANDARD_FIELDS = ("license", "compatibility", "allowed-tools")

CLAUDE_KEYS = frozenset(
    {"agent", "argument-hint", "context", "disable-model-invocation", "hooks"}
    | {"model", "user-invocable", "when_to_use", "paths", "effort", "shell", "arguments"}
    | {"disallowed-tools"}
)
"""Non-standard frontmatter keys of Claude Code, at the top; others refuse them."""

_MAX_KEY = 100  # YAML takes no key beyond 1,024 characters, and none has so many

_RESERVED = "io.modelcontextprotocol/"  # keys that a host may set

_TOOL_COMMA = re.compile(r"\s*,\s*(?![^()]*\))")
_WHOLE_NUMBER = re.compile(r"0|[1-9]\d{0,8}")

_PLAIN_KEY = re.compile("[A-Za-z_][A-Za-z_-]*")

# What YAML cannot hold, not even in quotes, or takes for the end of a line.
_INVALID_IN_YAML = re.compile(
    "[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+"
)


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A skill with every file readable under its name."""

    skill: Skill
    files: Mapping[str, int]
    """File sizes in bytes, including inherited files, without its own Markdown."""
    _own_file: str
    _index: SkillIndex
    _owners: Mapping[str, Skill]
    _max_bytes: int

    def compose(self) -> str:
        return compose_skill(self._index, self.skill).instructions

    def read_fields(self) -> Mapping[str, Any]:
        """Parse the frontmatter of a package.  Blocking.

        Every value is a string as written, or a list or mapping of strings. Empty for a
        rule, and for a file changed since indexing.
        """
        if not self._own_file:
            return {}
        limit = self.skill.files[self._own_file].size_bytes
        try:
            raw = read_skill_file(self.skill, self._own_file, max_bytes=limit).data
        except errors.FileError:
            return {}
        report = ProblemList(self.skill.file)
        text = decode_markdown(raw, report, lenient=True) or ""
        document = parse_document(text, report, lenient=True)
        return document.fields if document else {}

    def read(self, file: str) -> FileContent:
        """Read a whole file.  Blocking.

        Raises:
            FileError: It cannot be read; see the subclass.
        """
        if file not in self.files:
            raise errors.UndeclaredFileError(
                f"{self.skill.path} has no file {file!r}. Use one of its files."
            )
        return read_skill_file(self._owners[file], file, max_bytes=self._max_bytes)


def open_skill_folder(index: SkillIndex, skill: Skill, *, max_bytes: int) -> SkillFolder:
    """A skill as a folder; files above `max_bytes` are not read."""
    owners = find_owners(index, skill)
    main = skill.location.name if skill.location else ""
    if skill.directory is None or skill.directory / main != skill.location:
        main = ""  # a rule lies beside its folder
    owners.pop(main, None)
    sizes = {file: owner.files[file].size_bytes for file, owner in owners.items()}
    return SkillFolder(skill, sizes, main, index, owners, max_bytes)


def render_skill_file(
    skill: Skill,
    name: str,
    text: str,
    fields: Mapping[str, Any] | None = None,
    *,
    extra_keys: Collection[str] = (),
) -> str:
    """`SKILL.md` conforming to the Agent Skills standard.

    `name` is in the characters of the standard. Of `fields`, from `read_fields`,
    standard fields and further keys are passed on.
    """
    known = _select_fields(fields or {}, extra_keys)
    return render_document(build_frontmatter(skill, name, known), text)


def list_dropped_keys(fields: Mapping[str, Any], extra_keys: Collection[str]) -> list[str]:
    """List the keys that `render_skill_file` does not pass on."""
    known = _select_fields(fields, extra_keys)
    inner = get_mapping(known, "metadata")
    dropped = fields.keys() - known.keys() - {"name", "description"}
    below = get_mapping(fields, "metadata").keys() - inner.keys()
    return sorted((*dropped, *(f"metadata.{key}" for key in below)))


def _select_fields(fields: Mapping[str, Any], extra_keys: Collection[str]) -> dict[str, Any]:
    known = {
        key: _render_value(key, value, is_extra=key in extra_keys)
        for key, value in fields.items()
        if key in extra_keys or (key in _STANDARD_FIELDS and not isinstance(value, Mapping))
    }
    if fields:  # a rule has none; its keywords become metadata
        metadata = get_mapping(fields, "metadata").items()
        known["metadata"] = {
            key: ", ".join(map(str, value)) if isinstance(value, list) else value
            for key, value in metadata
            if _is_flat(value)
        }
    return known


def _is_flat(value: object) -> bool:
    """Whether a value of `metadata`, which the standard defines as a text, can be one."""
    items = value if isinstance(value, list) else [value]
    return all(isinstance(item, str) for item in items)


def _render_value(key: str, value: Any, *, is_extra: bool) -> Any:
    if key == "argument-hint":  # a text with brackets, which YAML takes for a list
        return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else value
    if key == "allowed-tools":  # one text in the standard, without commas
        items = value if isinstance(value, list) else _TOOL_COMMA.split(value)
        return " ".join(map(str, items))
    if is_extra:
        return _restore_types(value)
    return " ".join(map(str, value)) if isinstance(value, list) else value


def _restore_types(value: Any) -> Any:
    """Booleans and whole numbers, which `read_fields` has as texts."""
    match value:
        case "true" | "false":
            return value == "true"
        case str() if _WHOLE_NUMBER.fullmatch(value):
            return int(value)
        case list():
            return [_restore_types(item) for item in value]
        case dict():
            return {key: _restore_types(item) for key, item in value.items()}
        case _:
            return value


def build_frontmatter(skill: Skill, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Frontmatter with a legal name, the path and a rule's keywords in `metadata`."""
    description = truncate_text(skill.description.strip(), MAX_DESCRIPTION)
    metadata = {
        key: value
        for key, value in get_mapping(fields, "metadata").items()
        if not key.startswith(_RESERVED)
    }
    if not fields and skill.keywords:
        metadata["keywords"] = ", ".join(skill.keywords)
    frontmatter: dict[str, Any] = {"name": name}
    frontmatter |= {"description": description or f"The skill {skill.path}"}
    frontmatter |= {key: value for key, value in fields.items() if key not in frontmatter}
    frontmatter["metadata"] = metadata | {"path": skill.path}
    cleaned: dict[str, Any] = json.loads(_quote(_drop_long_keys(frontmatter)))
    return cleaned


def render_document(frontmatter: Mapping[str, Any], text: str) -> str:
    lines = "".join(map(_render_field, frontmatter.items()))
    return f"---\n{lines}---\n\n{text}\n"


def _render_field(field: tuple[str, Any]) -> str:
    """A mapping of strings goes on lines of its own, for strict parsers."""
    key, value = field
    is_plain = isinstance(value, Mapping) and all(isinstance(item, str) for item in value.values())
    if not is_plain or not value:
        return f"{_render_key(key)}: {_quote(value)}\n"
    inner = "".join(f"  {_render_key(k)}: {_quote(v)}\n" for k, v in value.items())
    return f"{_render_key(key)}:\n{inner}"


def _drop_long_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        known = ((k, v) for k, v in value.items() if len(k) <= _MAX_KEY)
        return {k: _drop_long_keys(v) for k, v in known}
    return list(map(_drop_long_keys, value)) if isinstance(value, list) else value


def _render_key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else _quote(key)


def _quote(value: object) -> str:
    return _INVALID_IN_YAML.sub(" ", json.dumps(value, ensure_ascii=False))


logger = logging.getLogger(__name__)

MAX_PUBLISHED_FILES = 512
"""Files of one skill including `SKILL.md`, a limit of the extension."""

MAX_PUBLISHED_BYTES = 16 * 1024 * 1024
"""Total size of one skill, a limit of the extension."""

_MARKDOWN = "text/markdown"


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
    has the same bytes, so a digest changes only with the skill.
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
        typed = {
            key: _render_value(key, value, is_extra=True) if key in CLAUDE_KEYS else value
            for key, value in frontmatter.items()
        }
        return PublishedText(frontmatter, render_document(typed, folder.compose()))

    def open(self, path: SkillPath) -> PublishedSkill | None:
        """Read a published skill with file digests.  Blocking.

        None, and a log record, above the limits of the extension.
        """
        skill = self._index.require(path)
        text = self.compose(skill)
        raw = text.text.encode()
        main = PublishedFile(SKILL_MD, _MARKDOWN, len(raw), sha256_of(raw))
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
        found.pop(SKILL_MD, None)
        return found

    def _read_files(self, skill: Skill, files: Mapping[str, Skill]) -> Iterator[PublishedFile]:
        for file, owner in files.items():
            try:
                content = read_skill_file(owner, file, max_bytes=self._max_bytes)
            except errors.FileError as error:
                self.names.log_omission(skill.path, str(error))
                continue
            kind = derive_mime_type(file, content)
            size, digest = len(content.data), sha256_of(content.data)
            yield PublishedFile(file, kind, size, digest)


_NAMES: WeakKeyDictionary[SkillIndex, PublishedNames] = WeakKeyDictionary()
"""Names of each set of skills in use, as building them takes time."""


def publish_skills(snapshot: Snapshot) -> PublishedSkills:
    names = _NAMES.get(snapshot.index)
    if names is None:
        names = _NAMES[snapshot.index] = PublishedNames(snapshot.index)
    return PublishedSkills(snapshot, names)


def _is_shared_rule(path: SkillPath) -> bool:
    return path.rpartition("/")[2] in {ROOT, INDEX}


SkillFormat = Literal["package", "rule"]


def derive_skill_format(file: str, path: str) -> SkillFormat:
    return "package" if is_package_file(file, path) else "rule"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSection:
    path: SkillPath
    file: str
    commit: str | None
    body: str = field(repr=False)
    """The agent's text, without the section header."""
    is_own: bool
    page_url: str = ""
    """Page at the forge; empty if unknown."""
    edit_url: str = ""
    """Editor of the forge; empty if unknown, or where no branch is served."""


@dataclass(frozen=True, slots=True)
class PreviewFile:
    file: str
    size_bytes: int
    owner: SkillPath
    """The skill itself or an ancestor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillPreview:
    skill: Skill
    format: SkillFormat
    sections: tuple[TextSection, ...]
    """From the most general rule to the skill's own text."""
    text: str = field(repr=False)
    """Equal to `load_skill`: without a header if nothing is inherited."""
    guidance: str = field(repr=False)
    """Equal to `get_skill`."""
    files: tuple[PreviewFile, ...]
    cost: SkillCost
    digest: str
    provenance: Provenance
    copies: tuple[SkillPath, ...]
    audience: tuple[Mapping[str, Sequence[str]], ...] | None
    """Required claims of each matching grant; None without grants."""


def compose_preview(snapshot: Snapshot, skill: Skill) -> SkillPreview:
    index, content = snapshot.index, snapshot.content
    composed = snapshot.compose(skill)
    owners = find_owners(index, skill)
    return SkillPreview(
        skill=skill,
        format=derive_skill_format(skill.file, skill.path),
        sections=tuple(_render_section(snapshot, member, skill) for member in composed.parts),
        text=composed.instructions,
        guidance=composed.guidance,
        files=tuple(
            PreviewFile(file, owner.files[file].size_bytes, owner.path)
            for file, owner in sorted(owners.items())
        ),
        cost=derive_cost(index, skill),
        digest=composed.digest,
        provenance=derive_provenance(content, composed.parts),
        copies=index.other_places(skill.path),
        audience=_find_audience(snapshot, skill),
    )


def _find_audience(
    snapshot: Snapshot, skill: Skill
) -> tuple[Mapping[str, Sequence[str]], ...] | None:
    grants = snapshot.config.access
    if not grants:
        return None
    fitting = (
        grant
        for grant in grants
        if SkillPatterns(grant.allow).fit(skill) and not SkillPatterns(grant.deny).fit(skill)
    )
    return tuple(grant.when for grant in fitting)


def _render_section(snapshot: Snapshot, member: Skill, skill: Skill) -> TextSection:
    provenance = derive_file_provenance(snapshot.content, member)
    return TextSection(
        path=member.path,
        file=provenance.path,
        commit=provenance.commit,
        body=escape_headers(member.body),
        is_own=member.path == skill.path,
        **_derive_urls(snapshot, member, provenance),
    )


def _derive_urls(snapshot: Snapshot, skill: Skill, provenance: Provenance) -> dict[str, str]:
    source = find_repository(snapshot.content, skill)
    if provenance.commit is None or source is None:
        return {}
    forges, file = snapshot.config.web.forges, provenance.path
    return {
        "page_url": derive_page_url(source.url, provenance.commit, file, forges),
        "edit_url": derive_edit_url(source.url, source.branch, file, forges),
    }


def read_markdown(skill: Skill, *, max_bytes: int) -> str:
    """Read the Markdown file of a skill as written.  Blocking.

    Raises:
        MissingFileError: It has been deleted.
        FileTooLargeError: It exceeds `max_bytes`.
    """
    if skill.root is None or skill.location is None:
        raise errors.MissingFileError(f"{skill.file} is not there any more")
    parts = skill.location.relative_to(skill.root).parts
    with open_inside(skill.root, parts) as handle:
        data = handle.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise errors.FileTooLargeError(f"{skill.file} has more than {max_bytes:,} bytes")
    return data.decode("utf-8", "replace")
