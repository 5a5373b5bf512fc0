"""The skills as a registry of Google ADK: found by search, loaded by name.

Rule: nothing is read before an agent asks for it, and what goes wrong is told to the
model in the form that ADK has for it.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from google.adk.skills import models
from google.adk.skills.prompt import format_skills_as_xml
from google.adk.skills.skill_registry import SkillRegistry

from skills_mcp.api.in_process import Skills, SyncSkills
from skills_mcp.errors import SkillsError
from skills_mcp.features.frameworks.skill_names import SkillNames
from skills_mcp.library.answers import render_error
from skills_mcp.library.skill_folder import SkillFolder
from skills_mcp.skills.legal_names import spell_name
from skills_mcp.skills.model import Skill
from skills_mcp.text.rendering import cut_text

_MAX_DESCRIPTION = 1024  # ADK refuses a longer one
_MAX_LISTED = 200  # as find_skill_files


class _Files(Mapping[str, Any]):
    """Files of one skill by their names in ADK, each read when it is asked for."""

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
    """The skills as ADK's `SkillToolset(registry=…)` takes them.

    Args:
        skills: Open already; they are not closed here. `skills.narrow(…)` for some.
        max_results: The most skills that one search finds; without it `search.limit`.
    """

    def __init__(
        self, skills: Skills | SyncSkills, *, max_results: int | None = None
    ) -> None:
        self._skills = skills.to_async()
        self._names = SkillNames(skills)
        self._max_results = max_results
        self._listed = ("", "")  # the revision, and the list of it

    async def get_skill(self, *, name: str) -> models.Skill:
        """Return a skill's text with the rules above it, and its files.

        Raises:
            SkillsError: There is none of this name; ADK shows the model the message.
        """
        found = await asyncio.to_thread(self._find, name)
        loaded = await self._skills.load(found.path)
        folder = await self._skills.open_folder(found.path)
        (frontmatter,) = await asyncio.to_thread(self._describe, [loaded.skill])
        resources, listed = self._open(folder)
        return models.Skill(
            frontmatter=frontmatter,
            instructions=loaded.instructions + listed,
            resources=resources,
        )

    async def search_skills(self, *, query: str) -> list[models.Frontmatter]:
        """Return the skills that fit a query, the best first."""
        found = await self._skills.search(query, limit=self._max_results)
        skills = [hit.skill for hit in found.hits]
        return await asyncio.to_thread(self._describe, skills)

    def search_tool_description(self) -> str:
        """Return what the model is told of the search."""
        return (
            "Finds the skills for a task, the best first. Describe the task in your "
            "own words; load_skill takes the names that are returned."
        )

    async def compose_instruction(self, _context: object = None) -> str:
        """Return the list of skills, as `instruction` of an agent takes it.

        ADK calls it for each request, so that the list is always that of now. The
        limits are `catalog.max_entries` and `catalog.max_bytes`.
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
            said = render_error(error)
            return {"error": said["message"], "error_code": said["code"]}
        shown = ("exit_code", "stdout", "stderr", "timed_out")
        return {each: getattr(ran.result, each) for each in shown}

    async def _list(self) -> str:
        catalog = await self._skills.compose_catalog()
        entries = [each.skill for each in catalog.entries]
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
                name=names.get(skill.path) or spell_name(skill.path),
                description=cut_text(skill.description or skill.name, _MAX_DESCRIPTION),
                metadata={"path": skill.path},
            )
            for skill in skills
        ]

    def _open(self, folder: SkillFolder) -> tuple[models.Resources, str]:
        """Return the files of a skill, and the list of them for its instructions."""
        kinds = derive_places(folder)
        path, skills = folder.skill.path, self._skills.to_sync()

        # ADK asks without `await`: so a local file is read, and no more than that.
        def fetch(file: str) -> str | bytes:
            part = skills.read(path, file).part
            content = folder.read(file) if part.truncated else part.content
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

        readers = {"scripts": read_script}
        files: dict[str, Any] = {
            k: _Files(own, readers.get(k, read)) for k, own in kinds.items()
        }
        return models.Resources.model_construct(**files), render_places(folder, kinds)


def derive_places(folder: SkillFolder) -> dict[str, dict[str, str]]:
    """Return a skill's files by ADK's three folders; what lies in none is an asset."""
    kinds: dict[str, dict[str, str]] = {"references": {}, "assets": {}, "scripts": {}}
    for file in sorted(folder.files):
        kind, _, rest = file.partition("/")
        if rest and kind in kinds:
            kinds[kind][rest] = file
        else:
            kinds["assets"].setdefault(file, file)
    return kinds


def render_places(folder: SkillFolder, kinds: dict[str, dict[str, str]]) -> str:
    """Return the list of files for the end of a skill's instructions."""
    said = {entry.file: entry.description for entry in folder.skill.entries()}
    lines = [
        f"- {kind}/{name}" + (f": {said[file]}" if said.get(file) else "")
        for kind, files in kinds.items()
        for name, file in files.items()
    ]
    if not lines:
        return ""
    head = "\n\nFiles of this skill, for load_skill_resource:\n\n"
    return head + "\n".join(lines[:_MAX_LISTED])
