"""The rules of `run_script`, one function each, in the order of 001 §8.4.  Pure."""

import re
import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath

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

ENVIRONMENT_ALLOWED = (
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME",
    # Without these, Windows cannot start a program.
    "SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE",
)  # fmt: skip
"""What a script sees of our environment: no token, no key, no agent's secret."""

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
    """Refuse a call that lacks an argument.

    Raises:
        MissingArgumentsError: Naming all that are missing.
        InvalidArgumentsError: One holds what no environment can carry.
    """
    missing = [a for a in script.args if a.required and a.name not in given]
    if missing:
        listed = ", ".join(
            f"{a.name} ({a.description})" if a.description else a.name for a in missing
        )
        raise MissingArgumentsError(
            f"{script.file!r} needs these arguments, too: {listed}. Pass them in args."
        )
    unusable = [
        name for name, value in given.items() if _NOT_IN_A_VALUE.search(name + value)
    ]
    if unusable:
        raise InvalidArgumentsError(
            f"args: {', '.join(map(ascii, unusable))} holds a NUL character or half a "
            "surrogate pair. Remove it."
        )
    variables = [variable_name(name) for name in given]
    if len(set(variables)) < len(variables):
        raise InvalidArgumentsError(
            f"args: two of {', '.join(map(repr, given))} would be the same variable. "
            "Use the names that get_skill lists."
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
    ours: Mapping[str, str], given: Mapping[str, str]
) -> dict[str, str]:
    """Return the whole environment of a script.

    >>> derive_environment({"PATH": "/bin", "AWS_SECRET": "x"}, {"client-id": "7"})
    {'PATH': '/bin', 'SKILL_ARG_CLIENT_ID': '7'}
    """
    allowed = {name: ours[name] for name in ENVIRONMENT_ALLOWED if name in ours}
    return allowed | {variable_name(name): value for name, value in given.items()}


def variable_name(argument: str) -> str:
    """Return the environment variable that carries an argument (001 §8.4)."""
    return "SKILL_ARG_" + _NOT_IN_A_NAME.sub("_", argument.upper())


def _extension(file: str) -> str:
    return PurePosixPath(file).suffix
