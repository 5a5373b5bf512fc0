"""`skills-mcp completion`: shell completion scripts."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, cast, get_args

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

Shell = Literal["bash", "zsh", "fish"]

_KINDS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}

_SHELL = "SHELL"  # which one a person uses
_DATA = ("XDG_DATA_HOME", ".local/share")
_SETTINGS = ("XDG_CONFIG_HOME", ".config")
_SHELL_FILES = {
    "bash": (*_DATA, "bash-completion/completions/skills-mcp"),
    "zsh": (*_DATA, "zsh/site-functions/_skills-mcp"),
    "fish": (*_SETTINGS, "fish/completions/skills-mcp.fish"),
}
"""For each shell: a variable, its default folder, and a file."""

_PROGRAM = "skills-mcp"
_VARIABLE = "_SKILLS_MCP_COMPLETE"


def print_completion(
    program: click.Command,
    shell: Shell | None,
    environment: Mapping[str, str],
    *,
    is_installed: bool,
) -> None:
    """Print the completion script for a shell, or install it.

    Args:
        program: The program with all its commands.
        shell: None for the shell in `SHELL`.
        environment: Names the shell, and the user's folders.
        is_installed: Whether to install the script instead of printing it.

    Raises:
        UsageError: The shell is not supported.
    """
    chosen = shell or _find_shell(environment)
    script = _KINDS[chosen](program, {}, _PROGRAM, _VARIABLE).source()
    if not is_installed:
        click.echo(script)
        return
    file = _find_file(chosen, environment)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{script}\n", encoding="utf-8")
    click.echo(f"{file} completes {_PROGRAM} in {chosen}. {_advise(chosen, file)}")


def _find_shell(environment: Mapping[str, str]) -> Shell:
    name = Path(environment.get(_SHELL, "")).name
    for shell in get_args(Shell):
        if shell == name:
            return cast("Shell", shell)
    raise click.UsageError(f"Name your shell: {', '.join(_KINDS)}.")


def _find_file(shell: Shell, environment: Mapping[str, str]) -> Path:
    """The completion file of the shell, in the user's home."""
    variable, usual, inside = _SHELL_FILES[shell]
    return Path(environment.get(variable) or Path.home() / usual) / inside


def _advise(shell: Shell, file: Path) -> str:
    match shell:
        case "bash":
            return "Open a new shell; it needs the package bash-completion."
        case "zsh":
            line = f"fpath=({shlex.quote(str(file.parent))} $fpath)"
            return f"Add this line to ~/.zshrc, above compinit: {line}"
        case "fish":
            return "Open a new shell."
