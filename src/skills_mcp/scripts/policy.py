"""The rules of `run_script`, one function each, in the order of 001 §8.4.  Pure."""

import os
import re
import shlex
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import PurePath, PurePosixPath

from skills_mcp.config import Scripts
from skills_mcp.errors import (
    AgentScriptError,
    ExtensionError,
    InvalidArgumentsError,
    MissingArgumentsError,
    RunnerError,
    ScriptsDisabledError,
    UndeclaredScriptError,
)
from skills_mcp.skills.inheritance import Located
from skills_mcp.skills.model import Script
from skills_mcp.text.rendering import shorten

ENVIRONMENT_ALLOWED = (
    "PATH", "LANG", "LC_*", "TZ", "USER", "LOGNAME",
    # Without these, Windows cannot start a program.
    "SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT",
)  # fmt: skip
"""What a script sees of our environment: no token, no key, no agent's secret."""

MAX_VALUE_BYTES = 32 * 1024
"""Of one argument: Linux ends a variable at 128 KiB, Windows at 32 Ki characters."""
MAX_VALUES_BYTES = 256 * 1024
"""Of all arguments: a quarter of what macOS has for arguments and environment."""

# They would ask the network again and again until the time is over; told that there is
# none, they say at once which package they lack.
_OFFLINE = {"UV_OFFLINE": "1", "NPM_CONFIG_OFFLINE": "true"}

_ARGUMENT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")

# NUL ends a C string; a lone surrogate is no character, so it has no bytes.
_NOT_IN_A_VALUE = re.compile("[\0\ud800-\udfff]")
_NOT_IN_A_NAME = re.compile(r"[^A-Z0-9_]")


def require_enabled(rules: Scripts) -> None:
    """Refuse every script when they are switched off.

    Raises:
        ScriptsDisabledError: `scripts.enabled` is false.
    """
    if not rules.enabled:
        raise ScriptsDisabledError(
            "Scripts are switched off here (scripts.enabled). Read the script with "
            "get_asset and do its steps yourself, or ask the operator."
        )


def require_declared(path: str, file: str, located: Located | None) -> Script:
    """Return the declaration of a script.

    Raises:
        UndeclaredScriptError: The skill has no such script.
    """
    if located is None or not isinstance(located.entry, Script):
        raise UndeclaredScriptError(
            f"{path} declares no script {file!r}. Call get_skill with this skill_path "
            "to see its scripts."
        )
    return located.entry


def require_server(path: str, script: Script) -> None:
    """Refuse what the agent is meant to run.

    Raises:
        AgentScriptError: `execution` is not `server`.
    """
    if script.execution != "server":
        raise AgentScriptError(
            f"{script.file!r} is meant for your own shell (execution: claude). Fetch "
            f"it with get_asset(skill_path={path!r}, file={script.file!r}) and run it "
            "with bash."
        )


def require_arguments(script: Script, given: Mapping[str, str]) -> None:
    """Refuse a call whose arguments are not those that the script declares.

    Raises:
        MissingArgumentsError: Naming all that are missing.
        InvalidArgumentsError: One is not declared, is too long, or holds what no
            environment can carry.
    """
    missing = [a for a in script.args if a.required and a.name not in given]
    if missing:
        listed = ", ".join(
            f"{a.name} ({a.description})" if a.description else a.name for a in missing
        )
        raise MissingArgumentsError(
            f"{script.file!r} needs these arguments, too: {listed}. Pass them in args."
        )
    _require_declared_names(script, given)
    _require_values(given)


def _require_declared_names(script: Script, given: Mapping[str, str]) -> None:
    declared = [argument.name for argument in script.args]
    unknown = [name for name in given if name not in declared]
    if unknown:
        raise InvalidArgumentsError(
            f"args: {script.file!r} declares no {', '.join(map(shorten, unknown))}. "
            f"It takes {', '.join(map(shorten, declared)) or 'no arguments'}."
        )
    unusable = [name for name in given if not _ARGUMENT_NAME.fullmatch(name)]
    if unusable:
        raise InvalidArgumentsError(
            f"args: {', '.join(map(ascii, unusable))} cannot be passed: a name has at "
            "most 64 letters from A to Z, digits, underscores and hyphens, and begins "
            "with a letter. Tell the skill's author."
        )
    if len(set(map(variable_name, given))) < len(given):
        raise InvalidArgumentsError(
            f"args: two of {', '.join(map(shorten, given))} would be the same "
            "variable. Pass one of them, and tell the skill's author."
        )


def _require_values(given: Mapping[str, str]) -> None:
    unusable = [name for name, value in given.items() if _NOT_IN_A_VALUE.search(value)]
    if unusable:
        raise InvalidArgumentsError(
            f"args: {', '.join(map(ascii, unusable))} holds a NUL character or half a "
            "surrogate pair. Remove it."
        )
    sizes = {name: len(value.encode()) for name, value in given.items()}
    too_long = [name for name, size in sizes.items() if size > MAX_VALUE_BYTES]
    if too_long or sum(sizes.values()) > MAX_VALUES_BYTES:
        raise InvalidArgumentsError(
            f"args: {', '.join(too_long) or 'all values together'} too long. One value "
            f"has at most {MAX_VALUE_BYTES:,} bytes of UTF-8, all have "
            f"{MAX_VALUES_BYTES:,}. Put the text into a file below cwd, and pass its "
            "name."
        )


def require_extension(rules: Scripts, file: str) -> None:
    """Refuse a kind of file that the operator does not run.

    Raises:
        ExtensionError: Its extension is not in `scripts.allowed_extensions`.
    """
    if _extension(file) not in rules.allowed_extensions:
        raise ExtensionError(
            f"{file!r} may not run here: the operator allows "
            f"{', '.join(rules.allowed_extensions) or 'no extension'} "
            "(scripts.allowed_extensions)."
        )


def require_runner(rules: Scripts, file: str) -> tuple[str, ...]:
    """Return the words of the command that runs such a file.

    Raises:
        RunnerError: `scripts.runners` has none for its extension.
    """
    words = tuple(shlex.split(rules.runners.get(_extension(file), "")))
    if not words:
        raise RunnerError(
            f"No runner is configured for {_extension(file)!r}. The operator can add "
            "one to scripts.runners."
        )
    return words


def derive_environment(
    ours: Mapping[str, str], given: Mapping[str, str], rules: Scripts
) -> dict[str, str]:
    """Return what a run sees, but for what names its private folder.

    Args:
        ours: The environment of the server.
        given: Arguments, by their names.
        rules: The operator's: what is let through besides, and whether there is a
            network.

    >>> ours = {"PATH": "/bin:.", "AWS_SECRET": "x"}
    >>> derive_environment(ours, {"client-id": "7"}, Scripts(network=True))
    {'PATH': '/bin', 'SKILL_ARG_CLIENT_ID': '7'}
    """
    allowed = {
        name: value
        for name, value in ours.items()
        if name in rules.environment
        or any(fnmatchcase(name, each) for each in ENVIRONMENT_ALLOWED)
    }
    allowed["PATH"] = derive_search_path(ours.get("PATH", os.defpath))
    if not rules.network:
        allowed |= _OFFLINE
    return allowed | {variable_name(name): value for name, value in given.items()}


def derive_search_path(path: str) -> str:
    """Return the folders of a PATH that are the same wherever a program starts.

    An empty one means the current folder, and so would let a skill, or the project
    that an agent works in, bring a program of its own.
    """
    folders = path.split(os.pathsep)
    return os.pathsep.join(f for f in folders if PurePath(f).is_absolute())


def variable_name(argument: str) -> str:
    """Return the environment variable that carries an argument (001 §8.4)."""
    return "SKILL_ARG_" + _NOT_IN_A_NAME.sub("_", argument.upper())


def _extension(file: str) -> str:
    return PurePosixPath(file).suffix
