"""Policy of scripts, commands and entries: one function per rule, in order.

Pure: nothing is opened.
"""

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath, PurePosixPath

from skills_mcp import errors
from skills_mcp.config import Commands, Scripts
from skills_mcp.skills.document import split_command
from skills_mcp.skills.inheritance import LocatedEntry
from skills_mcp.skills.model import Script, Skill
from skills_mcp.text.rendering import abbreviate_value

ENVIRONMENT_ALLOWED = (
    "PATH", "LANG", "LC_*", "TZ", "USER", "LOGNAME",
    # Without these, Windows cannot start a program.
    "SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT",
)  # fmt: skip
"""Inherited environment variables: no token, no key, no agent's secret."""

MAX_VALUE_BYTES = 32 * 1024
"""Of one argument: Linux ends a variable at 128 KiB, Windows at 32 Ki characters."""
MAX_VALUES_BYTES = 256 * 1024
"""A quarter of macOS's limit for arguments and environment."""

# uv and npm would retry until the timeout; told that there is no network, they say at
# once which package is missing.
_OFFLINE = {"UV_OFFLINE": "1", "NPM_CONFIG_OFFLINE": "true"}

_ARGUMENT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")

# NUL ends a C string; a lone surrogate is no character, so it has no bytes.
_INVALID_IN_VALUE = re.compile("[\0\ud800-\udfff]")
_INVALID_IN_NAME = re.compile(r"[^A-Z0-9_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRequest:
    skill_path: str
    file: str
    args: Mapping[str, str]
    cwd: str | None = None
    """Absolute path of a folder; None for an empty one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    skill_name: str
    command: str
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRequest:
    skill_name: str
    args: str = ""


# --- scripts --------------------------------------------------------------------


def require_scripts_enabled(rules: Scripts) -> None:
    """Require enabled scripts.

    Raises:
        ScriptsDisabledError: `scripts.enabled` is false.
    """
    if not rules.enabled:
        raise errors.ScriptsDisabledError(
            "Scripts are switched off here (scripts.enabled). Read the script with "
            "get_asset and do its steps yourself, or ask the operator."
        )


def require_declared_script(path: str, file: str, located: LocatedEntry | None) -> Script:
    """Declaration of a script.

    Raises:
        UndeclaredScriptError: The skill has no such script.
    """
    if located is None or not isinstance(located.entry, Script):
        raise errors.UndeclaredScriptError(
            f"{path} declares no script {file!r}. Call get_skill with this skill_path "
            "to see its scripts."
        )
    return located.entry


def require_server_execution(path: str, script: Script) -> None:
    """Refuse a script declared for the agent's own shell.

    Raises:
        AgentScriptError: `execution` is not `server`.
    """
    if script.execution != "server":
        raise errors.AgentScriptError(
            f"{script.file!r} is meant for your own shell (execution: claude). Fetch "
            f"it with get_asset(skill_path={path!r}, file={script.file!r}) and run it "
            "with bash."
        )


def require_arguments(script: Script, arguments: Mapping[str, str]) -> None:
    """Validate arguments against the declaration.

    Raises:
        MissingArgumentsError: Required arguments are missing; all are named.
        InvalidArgumentsError: One is undeclared, too long, or invalid in an environment
            variable.
    """
    missing = [a for a in script.args if a.required and a.name not in arguments]
    if missing:
        listed = ", ".join(
            f"{a.name} ({a.description})" if a.description else a.name for a in missing
        )
        raise errors.MissingArgumentsError(
            f"{script.file!r} needs these arguments, too: {listed}. Pass them in args."
        )
    _require_declared_names(script, arguments)
    _require_values(arguments, "Put the text into a file below cwd, and pass its name.")


def _require_declared_names(script: Script, arguments: Mapping[str, str]) -> None:
    declared = [argument.name for argument in script.args]
    unknown = [name for name in arguments if name not in declared]
    if unknown:
        raise errors.InvalidArgumentsError(
            f"args: {script.file!r} declares no {', '.join(map(abbreviate_value, unknown))}. "
            f"It takes {', '.join(map(abbreviate_value, declared)) or 'no arguments'}."
        )
    unusable = [name for name in arguments if not _ARGUMENT_NAME.fullmatch(name)]
    if unusable:
        raise errors.InvalidArgumentsError(
            f"args: {', '.join(map(ascii, unusable))} cannot be passed: a name has at "
            "most 64 letters from A to Z, digits, underscores and hyphens, and begins "
            "with a letter. Tell the skill's author."
        )
    if len(set(map(argument_variable, arguments))) < len(arguments):
        raise errors.InvalidArgumentsError(
            f"args: two of {', '.join(map(abbreviate_value, arguments))} would be the same "
            "variable. Pass one of them, and tell the skill's author."
        )


def _require_values(values: Mapping[str, str], advice: str) -> None:
    """Refuse values invalid for a process; keys are for messages."""
    unusable = [name for name, value in values.items() if _INVALID_IN_VALUE.search(value)]
    if unusable:
        raise errors.InvalidArgumentsError(
            f"args: {', '.join(map(ascii, unusable))} holds a NUL character or half a "
            "surrogate pair. Remove it."
        )
    sizes = {name: len(value.encode()) for name, value in values.items()}
    too_long = [name for name, size in sizes.items() if size > MAX_VALUE_BYTES]
    if too_long or sum(sizes.values()) > MAX_VALUES_BYTES:
        raise errors.InvalidArgumentsError(
            f"args: too long: {', '.join(too_long) or 'all values together'}. One "
            f"value may have {MAX_VALUE_BYTES:,} bytes of UTF-8, all together "
            f"{MAX_VALUES_BYTES:,}. {advice}"
        )


def require_allowed_extension(rules: Scripts, file: str) -> None:
    """Require an allowed file extension.

    Raises:
        ExtensionError: It is not in `scripts.allowed_extensions`.
    """
    if _extension(file) not in rules.allowed_extensions:
        raise errors.ExtensionError(
            f"{file!r} may not run here: the operator allows "
            f"{', '.join(rules.allowed_extensions) or 'no extension'} "
            "(scripts.allowed_extensions)."
        )


def derive_runner(rules: Scripts, file: str) -> tuple[str, ...]:
    """Command prefix to run a file.

    Raises:
        RunnerError: `scripts.runners` has none for its extension.
    """
    words = tuple(shlex.split(rules.runners.get(_extension(file), "")))
    if not words:
        raise errors.RunnerError(
            f"No runner is configured for {_extension(file)!r}. The operator can add "
            "one to scripts.runners."
        )
    return words


def _extension(file: str) -> str:
    return PurePosixPath(file).suffix


# --- commands and entries -------------------------------------------------------


def require_commands_enabled(rules: Commands) -> None:
    """Require enabled commands.

    Raises:
        CommandsDisabledError: `commands.enabled` is false.
    """
    if not rules.enabled:
        raise errors.CommandsDisabledError(
            "Commands are switched off here (commands.enabled). Run it in your own "
            "shell, in the folder that load_skill names."
        )


def derive_command(request: CommandRequest | EntryRequest, skill: Skill) -> CommandRequest:
    """Program and arguments of a request.

    Raises:
        NoEntryError: The skill declares no entry.
        InvalidArgumentsError: An unclosed quote in the arguments of an entry.
    """
    if isinstance(request, CommandRequest):
        return request
    if not skill.entry:
        raise errors.NoEntryError(
            f"{skill.path} declares no entry. Follow the text that load_skill returns, "
            "or run one of its files with run_skill_command."
        )
    more = split_command(request.args)
    if more is None:
        raise errors.InvalidArgumentsError(
            "args: a quote is never closed, or it ends with a backslash. Write words "
            "as for a shell: --name 'two words'"
        )
    program, *words = skill.entry
    return CommandRequest(skill_name=request.skill_name, command=program, args=(*words, *more))


def require_allowed_command(request: CommandRequest, rules: Commands) -> None:
    """Validate program and arguments.

    Raises:
        CommandError: The program is not in `commands.allowed`.
        InvalidArgumentsError: An argument is too long or invalid for a process.
    """
    if request.command not in rules.allowed:
        raise errors.CommandError(
            f"{abbreviate_value(request.command)} may not run here. The operator allows: "
            f"{', '.join(rules.allowed) or 'nothing'} (commands.allowed)."
            f"{_hint_command_line(request.command, rules)}"
        )
    values = {f"argument {n}": value for n, value in enumerate(request.args, start=1)}
    _require_values(values, "Shorten them, or use a file of the skill.")


def _hint_command_line(command: str, rules: Commands) -> str:
    program, *words = split_command(command) or [""]
    if program not in rules.allowed or not words:
        return ""
    return f" A command is one word: command={program!r}, args={abbreviate_value(words)}"


# --- the environment of every run -----------------------------------------------


def derive_run_variables(
    ours: Mapping[str, str], arguments: Mapping[str, str], rules: Scripts
) -> dict[str, str]:
    """Environment of a run, without its private folder.

    >>> ours = {"PATH": "/bin:.", "AWS_SECRET": "x"}
    >>> derive_run_variables(ours, {"client-id": "7"}, Scripts(network=True))
    {'PATH': '/bin', 'SKILL_ARG_CLIENT_ID': '7'}
    """
    allowed = {
        name: value
        for name, value in ours.items()
        if name in rules.environment
        or any(fnmatchcase(name, pattern) for pattern in ENVIRONMENT_ALLOWED)
    }
    allowed["PATH"] = keep_absolute_folders(ours.get("PATH", os.defpath))
    if not rules.network:
        allowed |= _OFFLINE
    return allowed | {argument_variable(name): value for name, value in arguments.items()}


def keep_absolute_folders(path: str) -> str:
    """Absolute folders of a PATH: a project could plant programs in a relative one."""
    folders = path.split(os.pathsep)
    return os.pathsep.join(f for f in folders if PurePath(f).is_absolute())


def argument_variable(argument: str) -> str:
    return "SKILL_ARG_" + _INVALID_IN_NAME.sub("_", argument.upper())
