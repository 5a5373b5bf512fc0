"""A skill as a folder of its own: its text with all that it inherits, and its files.

Rule: nothing here is an event. What lists, searches or copies skills has not given one
to an agent; what does asks `load_skill` and `read_file`.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from skills_mcp.errors import FileError, UndeclaredFileError
from skills_mcp.library.answers import compose_instructions
from skills_mcp.skills.assets import FileContent, read_file
from skills_mcp.skills.document import decode, mapping_of, parse_document
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.inheritance import find_owners
from skills_mcp.skills.model import ProblemList, Skill
from skills_mcp.text.rendering import cut_text

MAIN = "SKILL.md"
"""The file of a folder that has the skill's text."""

_PASSED_ON = ("license", "compatibility", "allowed-tools")
"""What else the Agent Skills standard knows, beside `metadata`."""

_MAX_KEY = 100  # YAML takes no key beyond 1,024 characters, and none has so many

MAX_DESCRIPTION = 1024
"""Characters that the Agent Skills standard allows."""

_RESERVED = "io.modelcontextprotocol/"  # keys that a host may set

_PLAIN_KEY = re.compile("[A-Za-z_][A-Za-z_-]*")

# What YAML cannot hold, not even in quotes, or takes for the end of a line.
_UNFIT = re.compile(
    "[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+"
)


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A skill, and every file that can be read by its name."""

    skill: Skill
    files: Mapping[str, int]
    """The size of each file in bytes, those that it inherits as well.

    Its own Markdown is not among them: `compose` has its text.
    """
    _main: str
    _index: SkillIndex
    _owners: Mapping[str, Skill]
    _max_bytes: int

    def compose(self) -> str:
        """Return the skill's text, below the rules that it inherits."""
        return compose_instructions(self._index, self.skill)

    def read_fields(self) -> Mapping[str, Any]:
        """Return the frontmatter of a package.  Blocking.

        Every value is the text that its author wrote, or a list or mapping of texts.
        A rule has none, nor has a file that has changed since the skills were read.
        """
        if not self._main:
            return {}
        limit = self.skill.files[self._main].size_bytes
        try:
            raw = read_file(self.skill, self._main, max_bytes=limit).data
        except FileError:
            return {}
        report = ProblemList(self.skill.file)
        text = decode(raw, report, lenient=True) or ""
        document = parse_document(text, report, lenient=True)
        return document.fields if document else {}

    def read(self, file: str) -> FileContent:
        """Return the whole of a file.  Blocking.

        Raises:
            FileError: It cannot be handed out; the subclass says why.
        """
        if file not in self.files:
            raise UndeclaredFileError(
                f"{self.skill.path} has no file {file!r}. Use one of its files."
            )
        return read_file(self._owners[file], file, max_bytes=self._max_bytes)


def open_folder(index: SkillIndex, skill: Skill, *, max_bytes: int) -> SkillFolder:
    """Return a skill as a folder; larger files than `max_bytes` are not read."""
    owners = find_owners(index, skill)
    main = skill.location.name if skill.location else ""
    if skill.directory is None or skill.directory / main != skill.location:
        main = ""  # a rule lies beside its folder
    owners.pop(main, None)
    sizes = {file: each.files[file].size_bytes for file, each in owners.items()}
    return SkillFolder(skill, sizes, main, index, owners, max_bytes)


def render_main(
    skill: Skill,
    name: str,
    text: str,
    fields: Mapping[str, Any] | None = None,
    *,
    kept: Collection[str] = (),
) -> str:
    """Return the `SKILL.md` of a folder with this name, as the standard has it.

    Args:
        skill: Whose description it is; its path is in the metadata.
        name: That of the folder, in the characters that the standard allows.
        text: What `compose` or `load_skill` returns.
        fields: What `read_fields` returns; what the standard knows of it is passed on.
        kept: Other keys that are passed on, too.
    """
    passed = {*_PASSED_ON, *kept}
    known = {
        # A list of tools is one text in the standard.
        key: " ".join(map(str, value)) if isinstance(value, list) else value
        for key, value in (fields or {}).items()
        if key in passed and not isinstance(value, Mapping)
    }
    metadata = mapping_of(fields or {}, "metadata").items()
    if fields:  # a rule has none; its keywords become metadata
        known["metadata"] = {k: v for k, v in metadata if isinstance(v, str)}
    return render_document(derive_frontmatter(skill, name, known), text)


def derive_frontmatter(
    skill: Skill, name: str, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the frontmatter of a skill: its author's, with a legal name.

    The path is in the metadata, and so are the keywords of a rule.

    Args:
        skill: Whose description it is.
        name: In the characters that the standard allows.
        fields: What `read_fields` returns.
    """
    description = cut_text(skill.description.strip(), MAX_DESCRIPTION)
    metadata = {
        key: value
        for key, value in mapping_of(fields, "metadata").items()
        if not key.startswith(_RESERVED)
    }
    if not fields and skill.keywords:
        metadata["keywords"] = ", ".join(skill.keywords)
    told: dict[str, Any] = {"name": name}
    told |= {"description": description or f"The skill {skill.path}"}
    told |= {key: value for key, value in fields.items() if key not in told}
    told["metadata"] = metadata | {"path": skill.path}
    cleaned: dict[str, Any] = json.loads(_quote(_without_long_keys(told)))
    return cleaned


def render_document(frontmatter: Mapping[str, Any], text: str) -> str:
    """Return a text below its frontmatter, as `SKILL.md` has it."""
    lines = "".join(map(_render_field, frontmatter.items()))
    return f"---\n{lines}---\n\n{text}\n"


def _render_field(field: tuple[str, Any]) -> str:
    """Return a field; a mapping of texts has lines of its own, for strict readers."""
    key, value = field
    is_plain = isinstance(value, Mapping) and all(
        isinstance(each, str) for each in value.values()
    )
    if not is_plain or not value:
        return f"{_render_key(key)}: {_quote(value)}\n"
    inner = "".join(f"  {_render_key(k)}: {_quote(v)}\n" for k, v in value.items())
    return f"{_render_key(key)}:\n{inner}"


def _without_long_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        known = ((k, v) for k, v in value.items() if len(k) <= _MAX_KEY)
        return {k: _without_long_keys(v) for k, v in known}
    return list(map(_without_long_keys, value)) if isinstance(value, list) else value


def _render_key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else _quote(key)


def _quote(value: object) -> str:
    """Return a value in JSON, which YAML holds."""
    return _UNFIT.sub(" ", json.dumps(value, ensure_ascii=False))
