"""The skills as a store and a toolset of Haystack.

Rule: a store closes only skills opened by itself.
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

from skills_mcp.api.in_process import Skills, SyncSkills, open_sync
from skills_mcp.errors import SkillNotFoundError, UndeclaredFileError
from skills_mcp.features.frameworks.skill_names import SkillNameCache
from skills_mcp.skills.model import Skill


class StoreSource(TypedDict, total=False):
    """Serialisable location of skills; see `skills_mcp.open_sync`."""

    directory: str | list[str]
    repo: str
    branch: str
    ref: str
    config: str


class ServedSkillStore:
    """A `SkillStore` of open skills, or of skills opened on first use.

    Open skills are never closed by the store. Only the name of the token's variable is
    saved.
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
        self._borrowed = skills.to_sync() if skills else None
        self._token = token
        self._source = source
        self._opened: tuple[SyncSkills, SkillNameCache] | None = None
        self._lock = Lock()

    def close(self) -> None:
        """Close skills opened by the store; the next use reopens them."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened and not self._borrowed:
            opened[0].close()

    @property
    def revision(self) -> str:
        return self._open()[0].revision

    def list_skills(self) -> dict[str, SkillInfo]:
        skills, names = self._open()
        entries = skills.compose_catalog("lines").entries
        return to_skill_infos(names, [entry.skill for entry in entries])

    def search_skills(
        self, query: Annotated[str, "The task, with the technologies involved."]
    ) -> str:
        """Find the skills for a task, also those that load_skill does not list."""
        skills, names = self._open()
        found = to_skill_infos(names, [hit.skill for hit in skills.search(query).hits])
        lines = (f"- {info.name}: {info.description}" for info in found.values())
        return "\n".join(lines) or "No skill fits this task. Go on without one."

    def load_skill(self, name: str) -> tuple[str, list[str]]:
        skills, path = self._find(name)
        return skills.load(path).instructions, sorted(skills.open_folder(path).files)

    def read_skill_file(self, name: str, path: str) -> str | ImageContent | FileContent:
        """Read a file of a skill or an ancestor.

        Raises:
            KeyError: There is no such skill; the message names similar ones.
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
        """Serialise the location.

        Raises:
            ValueError: A store of open skills exists only in this process.
        """
        if self._borrowed:
            raise ValueError("A store of open skills cannot be saved: give directory= or repo=")
        token = {"token": self._token} if self._token else {}
        return default_to_dict(self, **self._source, **token)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "ServedSkillStore":
        return default_from_dict(cls, data)

    def _open(self) -> tuple[SyncSkills, SkillNameCache]:
        with self._lock:
            if not self._opened:
                token = self._token.resolve_value() if self._token else None
                skills = self._borrowed or open_sync(**self._source, token=token).open()
                self._opened = skills, SkillNameCache(skills)
            return self._opened

    def _find(self, name: str) -> tuple[SyncSkills, str]:
        skills, names = self._open()
        try:
            return skills, names.read().find(name).path
        except SkillNotFoundError as error:
            raise KeyError(str(error)) from error


def to_skill_infos(names: SkillNameCache, skills: Iterable[Skill]) -> dict[str, SkillInfo]:
    named = names.read().names
    found = ((named[skill.path], skill) for skill in skills if skill.path in named)
    return {name: SkillInfo(name, " ".join(skill.description.split())) for name, skill in found}


class ServedSkillToolset(SkillToolset):
    """A `SkillToolset` with search, listing changed skills anew."""

    __module__ = "skills_mcp.haystack"  # as saved pipelines name it

    def __init__(self, store: ServedSkillStore) -> None:
        super().__init__(store)
        self._revision = ""
        self.tools.append(create_tool_from_function(store.search_skills))

    def warm_up(self) -> None:
        revision = getattr(self._store, "revision", "")  # no part of the protocol
        if revision != self._revision:
            self._is_warmed_up = False
        super().warm_up()
        self._revision = revision
