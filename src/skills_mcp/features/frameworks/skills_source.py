"""The skills as a source of Microsoft Agent Framework.

Rule: nothing is read before an agent asks for it.  An error is returned as text, as
the framework keeps the message of an exception from the model.
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
from skills_mcp.features.frameworks.skill_names import SkillNames
from skills_mcp.library.answers import render_error
from skills_mcp.skills.model import Script, Skill
from skills_mcp.text.rendering import cut_text

_logger = logging.getLogger(__name__)

_UNLIMITED = 2**30  # bytes: the number of skills is the limit
_MAX_DESCRIPTION = 1024  # the framework refuses a longer one


class ServedSkillsSource(SkillsSource):
    """The skills as `SkillsProvider` takes them, anew for each run of an agent.

    Args:
        skills: Open already; they are not closed here. `skills.narrow(…)` for some.
        max_skills: The most skills that are listed, and so can be loaded; without it
            as many as `catalog.max_entries` and `catalog.max_bytes` allow.
    """

    def __init__(
        self, skills: Skills | SyncSkills, *, max_skills: int | None = None
    ) -> None:
        self._skills = skills.to_async()
        self._names = SkillNames(skills)
        self._max_skills = max_skills
        self._left_out = 0
        self._revision = ""
        self._listed: list[FrameworkSkill] = []

    async def get_skills(self, context: SkillsSourceContext) -> list[FrameworkSkill]:  # noqa: ARG002 - the framework passes it
        """Return the skills of the catalog; their texts are not read."""
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
            ServedSkill(self._skills, each.skill, names[each.skill.path])
            for each in catalog.entries
            if each.skill.path in names  # else a refresh has come in between
        ]

    def _warn(self, left_out: int) -> None:
        """Say once how many skills no agent can load."""
        if left_out > self._left_out:
            _logger.warning(
                "%d skills are not listed, so that agents cannot load them: pass a "
                "larger max_skills, or fewer skills with narrow",
                left_out,
            )
        self._left_out = left_out


class ServedSkill(FrameworkSkill):
    """One skill, whose text and files are read when an agent asks for them."""

    def __init__(self, skills: Skills, skill: Skill, name: str) -> None:
        self._skills = skills
        self._skill = skill
        description = cut_text(skill.description or name, _MAX_DESCRIPTION)
        self._frontmatter = SkillFrontmatter(
            name=name, description=description, metadata={"path": skill.path}
        )

    @property
    def frontmatter(self) -> SkillFrontmatter:
        """What the model is told before it loads the skill."""
        return self._frontmatter

    async def get_content(self) -> str:
        """Return the text below the rules above it, and the lists of its files."""
        try:
            loaded = await self._skills.load(self._skill.path)
            folder = await self._skills.open_folder(self._skill.path)
        except SkillsError as error:
            return render_refusal(error)
        said = {entry.file: entry.description for entry in loaded.skill.entries()}
        whole = InlineSkill(
            frontmatter=self._frontmatter,
            instructions=loaded.instructions,
            resources=[self._resource(file, said.get(file)) for file in folder.files],
            scripts=[
                ServedScript(self._skills, self._skill.path, each.file, each)
                for each in loaded.skill.scripts
                if each.execution == "server"
            ],
        )
        content: str = await whole.get_content()
        return content

    async def get_resource(self, name: str) -> SkillResource:
        """Return a file, which is looked up when it is read."""
        return self._resource(name)

    async def get_script(self, name: str) -> SkillScript:
        """Return a script, which is looked up when it is run."""
        return ServedScript(self._skills, self._skill.path, name)

    def _resource(self, file: str, description: str | None = None) -> SkillResource:
        read = partial(_read, self._skills, self._skill.path, file)
        return InlineSkillResource(name=file, description=description, function=read)


class ServedScript(SkillScript):
    """A script that a skill declares for the server, run in the sandbox."""

    def __init__(
        self, skills: Skills, path: str, file: str, script: Script | None = None
    ) -> None:
        super().__init__(name=file, description=script.description if script else None)
        self._skills = skills
        self._path = path
        self._arguments = script.args if script else ()

    @property
    def parameters_schema(self) -> dict[str, Any] | None:
        """The named arguments that the script declares."""
        if not self._arguments:
            return None
        about = {
            each.name: {"type": "string", "description": each.description}
            for each in self._arguments
        }
        required = [each.name for each in self._arguments if each.required]
        return {"type": "object", "properties": about, "required": required}

    async def run(
        self,
        skill: FrameworkSkill,  # noqa: ARG002 - the framework passes it
        args: dict[str, Any] | list[str] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> str:
        """Run it, and return what it printed and how it ended as JSON."""
        if isinstance(args, list):
            return "Error: This script takes named arguments: pass args as an object."
        named = {name: str(value) for name, value in (args or {}).items()}
        try:
            ran = await self._skills.run_script(self._path, self.name, named)
        except SkillsError as error:
            return render_refusal(error)
        shown = ("exit_code", "stdout", "stderr", "timed_out")
        return json.dumps({each: getattr(ran.result, each) for each in shown})


async def _read(skills: Skills, path: str, file: str) -> str | Content:
    try:
        found = await skills.read(path, file)
        part = found.part
        content = part.content
        if part.truncated:
            folder = await skills.open_folder(path)
            content = await asyncio.to_thread(folder.read, found.file)
    except SkillsError as error:
        return render_refusal(error)
    if content.is_binary:
        return Content.from_data(content.data, content.mime_type)
    return content.data.decode()


def render_refusal(error: SkillsError) -> str:
    """Return an error as the framework shows its own to the model."""
    return f"Error: {render_error(error)['message']}"
