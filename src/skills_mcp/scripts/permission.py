"""From a request to a command, through the cascade of 001 §8.4 in its order."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skills_mcp.config import Scripts
from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.safe_path import parse_relative
from skills_mcp.scripts import policy
from skills_mcp.scripts.runner import Command
from skills_mcp.skills.assets import locate
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.inheritance import find_script
from skills_mcp.skills.model import Script, Skill


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRequest:
    """What a caller wants to run."""

    skill_path: str
    file: str
    args: Mapping[str, str]
    cwd: str | None = None
    """The absolute path of a folder; None runs the script where the server runs."""


@dataclass(frozen=True, slots=True)
class Permitted:
    """A request that every rule allows."""

    skill: Skill
    script: Script
    command: Command


def permit(
    request: ScriptRequest,
    index: SkillIndex,
    rules: Scripts,
    environment: Mapping[str, str],
) -> Permitted:
    """Return the command for a request, or refuse it.  Blocking: looks at the disk.

    Raises:
        ScriptRefusedError: A rule forbids it; the subclass says which.
        SkillNotFoundError: There is no such skill.
        InvalidPathError: The file could lie outside the skill's folder.
        MissingFileError: The script is declared, but not there.
        ChangedFileError: It is not what it was when the skills were read.
        InvalidArgumentsError: `cwd` is no absolute folder, or a value has a NUL.
    """
    policy.require_enabled(rules)
    skill = index.require(request.skill_path)
    parse_relative(request.file)
    # Inherited scripts are offered by get_skill, so they can be run, too.
    found = find_script(index, skill, request.file)
    script = policy.require_declared(skill.path, request.file, found)
    policy.require_server(skill.path, script)
    policy.require_arguments(script, request.args)
    policy.require_extension(rules, script.file)
    path = locate(found.owner if found else skill, script.file)
    command = Command(
        words=(*policy.require_runner(rules, script.file), str(path)),
        environment=policy.derive_environment(environment, request.args),
        working_directory=_working_directory(request.cwd),
        timeout_seconds=rules.timeout_seconds,
        max_output_bytes=rules.max_output_bytes,
    )
    return Permitted(skill, script, command)


def _working_directory(cwd: str | None) -> Path:
    # os.path: a name that no file system takes is no folder, and no exception.
    if cwd is not None:
        if os.path.isabs(cwd) and os.path.isdir(cwd):  # noqa: PTH112, PTH117
            return Path(cwd)
        raise InvalidArgumentsError(
            "cwd: must be the absolute path of a folder that exists. Leave it out to "
            "run where the server runs."
        )
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise InvalidArgumentsError(
            "cwd: the folder in which the server runs is gone. Pass the absolute path "
            "of another one."
        ) from error
