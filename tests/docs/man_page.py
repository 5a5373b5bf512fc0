"""The manual page of the program, from its help; `make man` writes it."""

from collections.abc import Iterator

import click

from skills_mcp import __version__
from skills_mcp.cli import program
from tests.docs.pages import REFERENCE

PAGE = REFERENCE / "skills-mcp.1"

_HEAD = f""".TH SKILLS-MCP 1 "" "skills-mcp {__version__}" "User Commands"
.SH NAME
skills-mcp \\- {{summary}}
.SH SYNOPSIS
.B skills-mcp
[COMMAND] [OPTION]...
.SH COMMANDS
Without a command, it is
.BR serve .
"""

_TAIL = """.SH EXIT STATUS
0 success; 1 something was found; 2 wrong usage; 3 the settings or the content cannot be
used; 4 the sync has failed; 130 interrupted.
"""


def render() -> str:
    context = click.Context(program, info_name="skills-mcp", **program.context_settings)
    summary = (program.help or "").strip().rstrip(".")
    parts = [_HEAD.format(summary=_escape(summary[0].lower() + summary[1:]))]
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        if command is not None:
            parts += _render_command(command, context)
    return "".join([*parts, _TAIL])


def _render_command(command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, parent, info_name=command.name)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_escape(f'skills-mcp {command.name} {usage}')}\n"
    yield "".join(f"{_escape(line)}\n" for line in (command.help or "").splitlines() if line)
    for option in command.get_params(context):
        record = option.get_help_record(context)
        if record is not None and isinstance(option, click.Option):
            names, text = record
            yield f".TP\n.B {_escape(names)}\n{_escape(' '.join(text.split()))}\n"


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
