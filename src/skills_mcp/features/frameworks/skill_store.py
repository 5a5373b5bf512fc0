"""The skills as a store of Haystack, and the tools of an agent that follow changes.

Rule: a store closes what it opened, and nothing else.
"""

from base64 import b64encode
from collections.abc import Iterable
from threading import Lock
from typing import Annotated, Any, TypedDict, Unpack

from haystack.core.serialization import default_from_dict, default_to_dict
from haystack.dataclasses import FileContent, ImageContent, SkillInfo
from haystack.dataclasses.image_content import IMAGE_MIME_TYPES
from haystack.tools import SkillToolset
from haystack.tools.from_function import create_tool_from_function
from haystack.utils import Secret

from skills_mcp.api.in_process import Skills, SyncSkills
from skills_mcp.api.open_skills import open_sync
from skills_mcp.errors import SkillNotFoundError, UndeclaredFileError
from skills_mcp.features.frameworks.skill_names import SkillNames
from skills_mcp.skills.model import Skill


class StoreSource(TypedDict, total=False):
    """Where skills are, in words that a file can hold; see `skills_mcp.open_sync`."""

    directory: str | list[str]
    repo: str
    branch: str
    ref: str
    config: str


class ServedSkillStore:
    """A `SkillStore` of open skills, or of those that it opens with its first use.

    Args:
        skills: Skills that are open; the store never closes them.
        token: For a private repository; what is saved is the name of its variable.
        source: Where the skills are, without `skills`.
    """

    __module__ = "skills_mcp.haystack"  # as saved pipelines name it

    def __init__(
        self,
        skills: Skills | SyncSkills | None = None,
        *,
        token: Secret | None = None,
        **source: Unpack[StoreSource],
    ) -> None:
        if skills and (source or token):
            raise ValueError("Give either open skills or where they are, not both.")
        self._given = skills.to_sync() if skills else None
        self._token = token
        self._source = source
        self._opened: tuple[SyncSkills, SkillNames] | None = None
        self._lock = Lock()

    def close(self) -> None:
        """Close the skills if the store has opened them; the next use opens them."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened and not self._given:
            opened[0].close()

    @property
    def revision(self) -> str:
        """Another text as soon as what is served has changed."""
        return self._open()[0].revision

    def list_skills(self) -> dict[str, SkillInfo]:
        """Return the skills for a prompt by their names, as `catalog` limits them."""
        skills, names = self._open()
        entries = skills.compose_catalog("lines").entries
        return describe(names, [entry.skill for entry in entries])

    def search_skills(
        self, query: Annotated[str, "The task, with the technologies involved."]
    ) -> str:
        """Find the skills for a task, also those that load_skill does not list."""
        skills, names = self._open()
        found = describe(names, [hit.skill for hit in skills.search(query).hits])
        lines = (f"- {each.name}: {each.description}" for each in found.values())
        return "\n".join(lines) or "No skill fits this task. Go on without one."

    def load_skill(self, name: str) -> tuple[str, list[str]]:
        """Return a skill's text below the rules that it inherits, and its files."""
        skills, path = self._find(name)
        return skills.load(path).instructions, sorted(skills.open_folder(path).files)

    def read_skill_file(self, name: str, path: str) -> str | ImageContent | FileContent:
        """Return a file of a skill, or one that it inherits.

        Raises:
            KeyError: No skill has this name or path; the message names similar ones.
            FileNotFoundError: The skill has no such file; the message names some.
            ValueError: It is neither text, an image nor a PDF.
        """
        skills, skill = self._find(name)
        try:
            found = skills.read(skill, path)
        except UndeclaredFileError as error:
            raise FileNotFoundError(str(error)) from error
        content = found.part.content
        if found.part.truncated:  # Haystack has no way to ask for the rest
            content = skills.open_folder(skill).read(found.file)
        data, kind = b64encode(content.data).decode("ascii"), content.mime_type
        if kind == "application/pdf":
            return FileContent(data, kind, found.file, validation=False)
        if kind in IMAGE_MIME_TYPES:
            return ImageContent(data, kind, validation=False)
        try:
            return content.data.decode()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path} is neither text, an image nor a PDF. Do without it."
            ) from error

    def to_dict(self) -> dict[str, Any]:
        """Return where the skills are; `ValueError` if only this process can know."""
        if self._given:
            raise ValueError(
                "A store of open skills cannot be saved: give directory= or repo="
            )
        token = {"token": self._token} if self._token else {}
        return default_to_dict(self, **self._source, **token)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "ServedSkillStore":
        """Return the store that `to_dict` has saved."""
        return default_from_dict(cls, data)

    def _open(self) -> tuple[SyncSkills, SkillNames]:
        with self._lock:
            if not self._opened:
                token = self._token.resolve_value() if self._token else None
                skills = self._given or open_sync(**self._source, token=token).open()
                self._opened = skills, SkillNames(skills)
            return self._opened

    def _find(self, name: str) -> tuple[SyncSkills, str]:
        skills, names = self._open()
        try:
            return skills, names.read().find(name).path
        except SkillNotFoundError as error:
            raise KeyError(str(error)) from error


def describe(names: SkillNames, skills: Iterable[Skill]) -> dict[str, SkillInfo]:
    """Return skills by their names; one that has gone meanwhile is left out."""
    named = names.read().names
    found = ((named[skill.path], skill) for skill in skills if skill.path in named)
    return {
        name: SkillInfo(name, " ".join(skill.description.split()))
        for name, skill in found
    }


class ServedSkillToolset(SkillToolset):
    """A `SkillToolset` that can search, and lists the skills anew if they changed."""

    __module__ = "skills_mcp.haystack"  # as saved pipelines name it

    def __init__(self, store: ServedSkillStore) -> None:
        super().__init__(store)
        self._revision = ""
        self.tools.append(create_tool_from_function(store.search_skills))

    def warm_up(self) -> None:
        """List the skills, unless nothing has changed since they were listed."""
        revision = getattr(self._store, "revision", "")  # no part of the protocol
        if revision != self._revision:
            self._is_warmed_up = False
        super().warm_up()
        self._revision = revision
