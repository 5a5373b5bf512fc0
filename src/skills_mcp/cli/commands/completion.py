"""Complete commands and options in your shell.

The script for SHELL is printed; without SHELL, it is for the one that you use.
"""

import os
import shlex
from pathlib import Path
from typing import Literal, cast, get_args

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.files.paths import find_user_home

Shell = Literal["bash", "zsh", "fish"]

_KINDS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}

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


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp completion --install",
        "skills-mcp completion zsh > ~/.zfunc/_skills-mcp",
    ),
)
@click.argument("shell", required=False, type=click.Choice(get_args(Shell)))
@click.option(
    "--install",
    "is_installed",
    is_flag=True,
    help="Write it where the shell looks for it, in your home.",
)
@click.pass_context
def command(context: click.Context, /, *, shell: Shell | None, is_installed: bool) -> None:
    chosen = shell or _find_shell()
    script = _KINDS[chosen](context.find_root().command, {}, _PROGRAM, _VARIABLE).source()
    if not is_installed:
        click.echo(script)
        return
    variable, usual, inside = _SHELL_FILES[chosen]
    file = Path(os.environ.get(variable) or find_user_home() / usual) / inside
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{script}\n", encoding="utf-8")
    click.echo(f"{file} completes {_PROGRAM} in {chosen}. {_advise(chosen, file)}")


def _find_shell() -> Shell:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in _KINDS:
        raise click.UsageError(f"Name your shell: {', '.join(_KINDS)}.")
    return cast("Shell", name)


def _advise(shell: Shell, file: Path) -> str:
    match shell:
        case "bash":
            return "Open a new shell; it needs the package bash-completion."
        case "zsh":
            line = f"fpath=({shlex.quote(str(file.parent))} $fpath)"
            return f"Add this line to ~/.zshrc, above compinit: {line}"
        case "fish":
            return "Open a new shell."
