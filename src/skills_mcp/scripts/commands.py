"""Commands in a skill's folder: `run_skill_command` (000 §3.5, §6.2) and entries (003).

They run in a private copy of the folder, the only place where they may write. A
snapshot is shared by every window and never changes, so nothing that a command
writes may end up in it.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from skills_mcp.config import Commands, Config
from skills_mcp.errors import (
    CommandError,
    CommandsDisabledError,
    InvalidArgumentsError,
    MissingFileError,
    NoEntryError,
)
from skills_mcp.scripts.execution import Grants, PreparedCommand
from skills_mcp.scripts.policy import (
    MAX_VALUE_BYTES,
    MAX_VALUES_BYTES,
    derive_environment,
)
from skills_mcp.scripts.private_folder import private_folder
from skills_mcp.scripts.sandbox.programs import find_program, find_program_folders
from skills_mcp.scripts.script_environment import ScriptEnvironment
from skills_mcp.skills.assets import copy_files
from skills_mcp.skills.fields import split_words
from skills_mcp.skills.model import Skill
from skills_mcp.text.rendering import shorten

_UV = "uv"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRequest:
    """A caller wants to run what the skill itself declares as its entry (003)."""

    skill_name: str
    """A path, or a name that only one skill has."""
    args: str = ""
    """More words for the command, split as a shell would."""


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A command in its private copy of a skill, ready to be started."""

    words: tuple[str, ...]
    """What runs, without what a sandbox puts around it."""
    command: PreparedCommand
    sha256: str | None
    """The digest of the first file of the skill that the words name, if one does."""


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


def derive_request(
    request: CommandRequest | EntryRequest, skill: Skill
) -> CommandRequest:
    """Return the program and the arguments that a request stands for.

    Raises:
        NoEntryError: The skill declares no entry.
        InvalidArgumentsError: A quote in the arguments of an entry is never closed.
    """
    if isinstance(request, CommandRequest):
        return request
    if not skill.entry:
        raise NoEntryError(
            f"{skill.path} declares no entry. Follow the text that load_skill returns, "
            "or run one of its files with run_skill_command."
        )
    more = split_words(request.args)
    if more is None:
        raise InvalidArgumentsError(
            "args: a quote is never closed, or it ends with a backslash. Write words "
            "as for a shell: --name 'two words'"
        )
    program, *words = skill.entry
    return CommandRequest(
        skill_name=request.skill_name, command=program, args=(*words, *more)
    )


def require_allowed(request: CommandRequest, rules: Commands) -> None:
    """Refuse what the operator does not allow (000 §6.2).

    Raises:
        CommandError: The program is not in `commands.allowed`.
        InvalidArgumentsError: An argument holds what no process can be given, or is
            too long.
    """
    if request.command not in rules.allowed:
        raise CommandError(
            f"{shorten(request.command)} may not run here. The operator allows: "
            f"{', '.join(rules.allowed) or 'nothing'} (commands.allowed)."
            f"{_explain_line(request.command, rules)}"
        )
    if any(map(_NOT_IN_AN_ARGUMENT.search, request.args)):
        raise InvalidArgumentsError(
            "args: one holds a NUL character or half a surrogate pair. Remove it."
        )
    sizes = [len(argument.encode()) for argument in request.args]
    if max(sizes, default=0) > MAX_VALUE_BYTES or sum(sizes) > MAX_VALUES_BYTES:
        raise InvalidArgumentsError(
            f"args: each may have {MAX_VALUE_BYTES:,} bytes, and all together "
            f"{MAX_VALUES_BYTES:,}. Shorten them, or use a file of the skill."
        )


def _explain_line(command: str, rules: Commands) -> str:
    """Return what to write instead of a whole command line."""
    program, *words = split_words(command) or [""]
    if program not in rules.allowed or not words:
        return ""
    return f" A command is one word: command={program!r}, args={shorten(words)}"


@contextmanager
def prepared(
    request: CommandRequest,
    skill: Skill,
    rules: Config,
    script_environment: ScriptEnvironment,
) -> Iterator[PreparedRun]:
    """Copy the skill's folder, yield the command to run in it, and clean up.

    Blocking.

    Args:
        request: What to run; `require_allowed` has let it pass.
        skill: Whose folder it is.
        rules: The operator's: for commands, and for all that runs.
        script_environment: Variables, folders and sandbox of this machine.

    Raises:
        FileError: A file of the skill cannot be copied; the subclass says why.
        RunnerNotFoundError: The program is not installed.
        SandboxUnavailableError: The operator requires a sandbox, and none works.
    """
    with private_folder() as folder:
        copy = folder.path / "skill"
        copy.mkdir()
        _copy(skill, copy)
        variables = {
            **derive_environment(script_environment.variables, {}, rules.scripts),
            **folder.variables,
        }
        words = derive_words(request.command, request.args, variables)
        command = PreparedCommand(
            words=words,
            environment=variables,
            working_directory=copy,
            timeout_seconds=rules.commands.timeout_seconds,
            max_output_bytes=rules.commands.max_output_bytes,
        )
        grants = Grants(
            home=folder.home,
            readable=_find_python(words, variables, script_environment.home),
            writable=(copy,),
            network=rules.scripts.network,
        )
        digest = _read_digest(request.args, skill, copy)
        wrapped = script_environment.sandbox.wrap(command, grants, rules.scripts)
        yield PreparedRun(words, wrapped, digest)


def _find_python(
    words: Sequence[str], variables: Mapping[str, str], home: Path
) -> tuple[Path, ...]:
    """Return what uv has to read besides itself: the Python that it starts."""
    search_path = variables.get("PATH", "")
    python = find_program("python3", search_path) if words[0] == _UV else None
    return tuple(find_program_folders(python, search_path, home)) if python else ()


def _read_digest(args: Iterable[str], skill: Skill, copy: Path) -> str | None:
    """Return the digest of the first file of the skill that the arguments name."""
    paths = (PurePosixPath(argument).as_posix() for argument in args)
    file = next((path for path in paths if path in skill.files), None)
    if file is None:
        return None
    with (copy / file).open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


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
    if find_program(_UV, environment.get("PATH", "")) is None:
        return ("python3", *args)
    is_script = bool(args) and args[0].endswith(".py")
    program = () if is_script else ("python",)
    return (_UV, "run", "--no-project", *program, *args)
