"""The skills as a source of Microsoft Agent Framework.

Rule: files are read on demand. Errors are returned as text, because the framework hides
exception messages from the model.
"""

import asyncio
import json
import logging
from functools import partial
from typing import Any

from agent_framework import (
    Content,
    InlineSkill,
    InlineSkillResource,
    SkillFrontmatter,
    SkillResource,
    SkillScript,
    SkillsSource,
    SkillsSourceContext,
)
from agent_framework import Skill as FrameworkSkill

from skills_mcp.api.in_process import Skills, SyncSkills
from skills_mcp.errors import SkillsError
from skills_mcp.features.frameworks.skill_names import SkillNameCache, read_whole_file
from skills_mcp.library.answers import render_error
from skills_mcp.skills.model import Script, Skill
from skills_mcp.text.rendering import truncate_text

_logger = logging.getLogger(__name__)

_UNLIMITED = 2**30  # bytes: the number of skills is the limit
_MAX_DESCRIPTION = 1024  # the framework refuses a longer one


class ServedSkillsSource(SkillsSource):
    """Source of open skills for `SkillsProvider`, read for each run of an agent.

    `max_skills` limits listed, and so loadable, skills; default: the limits of
    `catalog`.
    """

    def __init__(self, skills: Skills | SyncSkills, *, max_skills: int | None = None) -> None:
        self._skills = skills.to_async()
        self._names = SkillNameCache(skills)
        self._max_skills = max_skills
        self._left_out = 0
        self._revision = ""
        self._listed: list[FrameworkSkill] = []

    async def get_skills(self, context: SkillsSourceContext) -> list[FrameworkSkill]:  # noqa: ARG002 - the framework passes it
        revision = self._skills.revision  # first: what changes meanwhile is listed anew
        if revision != self._revision:
            self._listed = await self._list()
            self._revision = revision
        return list(self._listed)

    async def _list(self) -> list[FrameworkSkill]:
        max_bytes = None if self._max_skills is None else _UNLIMITED
        catalog = await self._skills.compose_catalog(
            max_entries=self._max_skills, max_bytes=max_bytes
        )
        self._warn(catalog.total - len(catalog.entries))
        names = (await asyncio.to_thread(self._names.read)).names
        return [
            ServedSkill(self._skills, entry.skill, names[entry.skill.path])
            for entry in catalog.entries
            if entry.skill.path in names  # else a refresh has come in between
        ]

    def _warn(self, left_out: int) -> None:
        if left_out > self._left_out:
            _logger.warning(
                "%d skills are not listed, so that agents cannot load them: pass a "
                "larger max_skills, or fewer skills with narrow",
                left_out,
            )
        self._left_out = left_out


class ServedSkill(FrameworkSkill):
    """A skill with text and files read on demand."""

    def __init__(self, skills: Skills, skill: Skill, name: str) -> None:
        self._skills = skills
        self._skill = skill
        description = truncate_text(skill.description or name, _MAX_DESCRIPTION)
        self._frontmatter = SkillFrontmatter(
            name=name, description=description, metadata={"path": skill.path}
        )

    @property
    def frontmatter(self) -> SkillFrontmatter:
        return self._frontmatter

    async def get_content(self) -> str:
        try:
            loaded = await self._skills.load(self._skill.path)
            folder = await self._skills.open_folder(self._skill.path)
        except SkillsError as error:
            return render_framework_error(error)
        descriptions = {entry.file: entry.description for entry in loaded.skill.entries()}
        inline_skill = InlineSkill(
            frontmatter=self._frontmatter,
            instructions=loaded.instructions,
            resources=[self._resource(file, descriptions.get(file)) for file in folder.files],
            scripts=[
                ServedScript(self._skills, self._skill.path, script.file, script)
                for script in loaded.skill.scripts
                if script.execution == "server"
            ],
        )
        content: str = await inline_skill.get_content()
        return content

    async def get_resource(self, name: str) -> SkillResource:
        return self._resource(name)

    async def get_script(self, name: str) -> SkillScript:
        return ServedScript(self._skills, self._skill.path, name)

    def _resource(self, file: str, description: str | None = None) -> SkillResource:
        read = partial(_read, self._skills, self._skill.path, file)
        return InlineSkillResource(name=file, description=description, function=read)


class ServedScript(SkillScript):
    def __init__(self, skills: Skills, path: str, file: str, script: Script | None = None) -> None:
        super().__init__(name=file, description=script.description if script else None)
        self._skills = skills
        self._path = path
        self._arguments = script.args if script else ()

    @property
    def parameters_schema(self) -> dict[str, Any] | None:
        if not self._arguments:
            return None
        about = {
            argument.name: {"type": "string", "description": argument.description}
            for argument in self._arguments
        }
        required = [argument.name for argument in self._arguments if argument.required]
        return {"type": "object", "properties": about, "required": required}

    async def run(
        self,
        skill: FrameworkSkill,  # noqa: ARG002 - the framework passes it
        args: dict[str, Any] | list[str] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> str:
        if isinstance(args, list):
            return "Error: This script takes named arguments: pass args as an object."
        named = {name: str(value) for name, value in (args or {}).items()}
        try:
            ran = await self._skills.run_script(self._path, self.name, named)
        except SkillsError as error:
            return render_framework_error(error)
        fields = ("exit_code", "stdout", "stderr", "timed_out")
        return json.dumps({field: getattr(ran.result, field) for field in fields})


async def _read(skills: Skills, path: str, file: str) -> str | Content:
    try:
        content = await asyncio.to_thread(read_whole_file, skills.to_sync(), path, file)
    except SkillsError as error:
        return render_framework_error(error)
    if content.is_binary:
        return Content.from_data(content.data, content.mime_type)
    return content.data.decode()


def render_framework_error(error: SkillsError) -> str:
    return f"Error: {render_error(error)['message']}"
