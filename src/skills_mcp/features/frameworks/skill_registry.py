"""The skills as a registry of Google ADK: search, and load by name.

Rule: files are read on demand, and the model sees errors in ADK's format.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from google.adk.skills import models
from google.adk.skills.prompt import format_skills_as_xml
from google.adk.skills.skill_registry import SkillRegistry

from skills_mcp.api.in_process import Skills, SyncSkills
from skills_mcp.errors import SkillsError
from skills_mcp.features.frameworks.skill_names import SkillNameCache, read_whole_file
from skills_mcp.library.answers import render_error
from skills_mcp.library.skill_folder import SkillFolder
from skills_mcp.skills.model import Skill, to_standard_name
from skills_mcp.text.rendering import truncate_text

_MAX_DESCRIPTION = 1024  # ADK refuses a longer one
_MAX_LISTED = 200  # as find_skill_files


class _LazyFiles(Mapping[str, Any]):
    def __init__(self, files: Mapping[str, str], read: Callable[[str], Any]) -> None:
        self._files = files
        self._read = read

    def __getitem__(self, name: str) -> Any:
        return self._read(self._files[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


class ServedSkillRegistry(SkillRegistry):
    """Registry of open skills for ADK's `SkillToolset(registry=…)`.

    `max_results` limits search hits; default `search.limit`.
    """

    def __init__(self, skills: Skills | SyncSkills, *, max_results: int | None = None) -> None:
        self._skills = skills.to_async()
        self._names = SkillNameCache(skills)
        self._max_results = max_results
        self._listed = ("", "")  # the revision, and the list of it

    async def get_skill(self, *, name: str) -> models.Skill:
        """Instructions including inherited rules, with files.

        Raises:
            SkillsError: There is no such name; ADK shows the model the message.
        """
        found = await asyncio.to_thread(self._find, name)
        loaded = await self._skills.load(found.path)
        folder = await self._skills.open_folder(found.path)
        (frontmatter,) = await asyncio.to_thread(self._describe, [loaded.skill])
        resources, listed = self._open(folder)
        return models.Skill(
            frontmatter=frontmatter, instructions=loaded.instructions + listed, resources=resources
        )

    async def search_skills(self, *, query: str) -> list[models.Frontmatter]:
        found = await self._skills.search(query, limit=self._max_results)
        return await asyncio.to_thread(self._describe, [hit.skill for hit in found.hits])

    def search_tool_description(self) -> str:
        return (
            "Finds the skills for a task, the best first. Describe the task in your "
            "own words; load_skill takes the names that are returned."
        )

    async def compose_instruction(self, _context: object = None) -> str:
        """Current list of skills, as `instruction` of an agent.

        ADK calls it for each request. The limits are `catalog.max_entries` and
        `catalog.max_bytes`.
        """
        revision = self._skills.revision  # first: what changes meanwhile is listed anew
        if revision != self._listed[0]:
            self._listed = revision, await self._list()
        return self._listed[1]

    async def run_script(
        self, skill_name: str, file_path: str, args: dict[str, str]
    ) -> dict[str, Any]:
        """Run a script that a skill declares for the server.

        Args:
            skill_name: The name of the skill.
            file_path: The script, as the skill lists it.
            args: The named arguments that the script declares; empty for none.

        Returns:
            exit_code, stdout, stderr and timed_out, or error and error_code.
        """
        try:
            skill = await asyncio.to_thread(self._find, skill_name)
            ran = await self._skills.run_script(skill.path, file_path, args)
        except SkillsError as error:
            rendered = render_error(error)
            return {"error": rendered["message"], "error_code": rendered["code"]}
        fields = ("exit_code", "stdout", "stderr", "timed_out")
        return {name: getattr(ran.result, name) for name in fields}

    async def _list(self) -> str:
        catalog = await self._skills.compose_catalog()
        entries = [entry.skill for entry in catalog.entries]
        described = await asyncio.to_thread(self._describe, entries)
        listed = format_skills_as_xml([*described])
        more = catalog.total - len(entries)
        return f"{listed}\n{more:,} more: search_skills finds them." if more else listed

    def _find(self, name: str) -> Skill:
        return self._names.read().find(name)

    def _describe(self, skills: Iterable[Skill]) -> list[models.Frontmatter]:
        names = self._names.read().names
        return [
            models.Frontmatter(
                name=names.get(skill.path) or to_standard_name(skill.path),
                description=truncate_text(skill.description or skill.name, _MAX_DESCRIPTION),
                metadata={"path": skill.path},
            )
            for skill in skills
        ]

    def _open(self, folder: SkillFolder) -> tuple[models.Resources, str]:
        kinds = group_by_adk_folder(folder)
        path, skills = folder.skill.path, self._skills.to_sync()

        # ADK asks without `await`: so a local file is read, and no more than that.
        def fetch(file: str) -> str | bytes:
            content = read_whole_file(skills, path, file)
            return content.data if content.is_binary else content.data.decode()

        def read(file: str) -> str | bytes:
            try:
                return fetch(file)
            except SkillsError as error:
                return render_error(error)["message"]

        def read_script(file: str) -> models.Script:
            try:
                content = fetch(file)
            except SkillsError:
                raise KeyError(file) from None  # ADK would run a message
            if isinstance(content, bytes):
                raise KeyError(file)
            return models.Script(src=content)

        files: dict[str, Any] = {
            k: _LazyFiles(own, read_script if k == "scripts" else read) for k, own in kinds.items()
        }
        return models.Resources.model_construct(**files), render_adk_files(folder, kinds)


def group_by_adk_folder(folder: SkillFolder) -> dict[str, dict[str, str]]:
    kinds: dict[str, dict[str, str]] = {"references": {}, "assets": {}, "scripts": {}}
    for file in sorted(folder.files):
        kind, _, rest = file.partition("/")
        if rest and kind in kinds:
            kinds[kind][rest] = file
        else:
            kinds["assets"].setdefault(file, file)
    return kinds


def render_adk_files(folder: SkillFolder, kinds: dict[str, dict[str, str]]) -> str:
    descriptions = {entry.file: entry.description for entry in folder.skill.entries()}
    lines = [
        f"- {kind}/{name}" + (f": {descriptions[file]}" if descriptions.get(file) else "")
        for kind, files in kinds.items()
        for name, file in files.items()
    ]
    if not lines:
        return ""
    head = "\n\nFiles of this skill, for load_skill_resource:\n\n"
    return head + "\n".join(lines[:_MAX_LISTED])
