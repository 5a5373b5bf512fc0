"""Commands in a skill's folder: `run_skill_command` (000 §3.5, §6.2).

They run in a private copy of the folder. A snapshot is shared by every window and
never changes, so nothing that a command writes may end up in it.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from skills_mcp.config import Commands
from skills_mcp.errors import (
    CommandError,
    CommandsDisabledError,
    InvalidArgumentsError,
    MissingFileError,
    shorten,
)
from skills_mcp.scripts.policy import derive_environment
from skills_mcp.scripts.runner import Command
from skills_mcp.skills.assets import copy_files
from skills_mcp.skills.model import Skill

_PYTHON = frozenset({"python", "python3"})

# NUL ends a C string; a lone surrogate is no character, so it has no bytes.
_NOT_IN_AN_ARGUMENT = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """What a caller wants to run in the folder of a skill."""

    skill_name: str
    """A path, or a name that only one skill has."""
    command: str
    args: tuple[str, ...] = ()


def require_enabled(rules: Commands) -> None:
    """Refuse every command when they are switched off.

    Raises:
        CommandsDisabledError: `commands.enabled` is false.
    """
    if not rules.enabled:
        raise CommandsDisabledError(
            "Commands are switched off here (commands.enabled). Run it in your own "
            "shell, in the folder that load_skill names."
        )


def require_allowed(request: CommandRequest, rules: Commands) -> None:
    """Refuse what the operator does not allow (000 §6.2).

    Raises:
        CommandError: The program is not in `commands.allowed`.
        InvalidArgumentsError: An argument holds what no process can be given.
    """
    if request.command not in rules.allowed:
        raise CommandError(
            f"{shorten(request.command)} may not run here. The operator allows: "
            f"{', '.join(rules.allowed) or 'nothing'} (commands.allowed)."
        )
    if any(map(_NOT_IN_AN_ARGUMENT.search, request.args)):
        raise InvalidArgumentsError(
            "args: one holds a NUL character or half a surrogate pair. Remove it."
        )


@contextmanager
def prepared(
    request: CommandRequest,
    skill: Skill,
    rules: Commands,
    environment: Mapping[str, str],
) -> Iterator[Command]:
    """Copy the skill's folder, yield the command to run in it, and clean up.

    Blocking.

    Raises:
        FileError: A file of the skill cannot be copied; the subclass says why.
    """
    allowed = derive_environment(environment, {})
    # A process that has left its group may still write into it: then the copy stays.
    with _temporary_folder() as folder:
        _copy(skill, Path(folder))
        yield Command(
            words=derive_words(request.command, request.args, allowed),
            environment=allowed,
            working_directory=Path(folder),
            timeout_seconds=rules.timeout_seconds,
            max_output_bytes=rules.max_output_bytes,
        )


def _temporary_folder() -> "tempfile.TemporaryDirectory[str]":
    try:
        return tempfile.TemporaryDirectory(
            prefix="skills-mcp-", ignore_cleanup_errors=True
        )
    except OSError as error:
        raise MissingFileError(
            f"no temporary folder can be made: {error.strerror}. Run the command in "
            "your own shell, or ask the operator to look at TMPDIR."
        ) from error


def _copy(skill: Skill, folder: Path) -> None:
    try:
        copy_files(skill, folder)
    except OSError as error:
        raise MissingFileError(
            f"the folder of {skill.path} cannot be copied: {error.strerror}. Run the "
            "command in your own shell, or ask the operator to look at TMPDIR."
        ) from error


def derive_words(
    command: str, args: Sequence[str], environment: Mapping[str, str]
) -> tuple[str, ...]:
    """Return what is started: Python through `uv`, where there is one (000 §3.5).

    uv reads the dependencies that a script declares inside itself (PEP 723) only
    if it is given the script, not if it is given Python.
    """
    if command not in _PYTHON:
        return (command, *args)
    if shutil.which("uv", path=environment.get("PATH")) is None:
        return ("python3", *args)
    is_script = bool(args) and args[0].endswith(".py")
    program = () if is_script else ("python",)
    return ("uv", "run", "--no-project", *program, *args)
