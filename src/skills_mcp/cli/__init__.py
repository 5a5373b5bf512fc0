"""The command line: a file in `commands` for each command, loaded when it is called.

Exit codes: 0 success, 1 `validate`, `test`, `status` or `doctor` found something, 2
wrong usage, 3 the settings or the content cannot be used, 4 the sync failed without
older content, or in `sync` itself, or `status` sees failing syncs, 130 Ctrl-C.
"""

import os
import sys
from io import BufferedWriter, TextIOWrapper

import click

from skills_mcp.about import DISTRIBUTION, __version__
from skills_mcp.cli.command_group import CommandGroup


@click.group(
    cls=CommandGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": sys.maxsize,  # as wide as the terminal
    },
)
@click.version_option(__version__, "-v", "--version", prog_name=DISTRIBUTION)
def program() -> None:
    """Serve an organisation's engineering knowledge to coding agents over MCP."""


def run_program(*, is_interrupted: bool = False) -> None:
    """Run the program and exit; it only says so if it was interrupted before."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a poor terminal costs no traceback
    if isinstance(sys.stdout, TextIOWrapper) and not _blocks(sys.stdout):
        sys.stdout = _open_waiting(sys.stdout)
    program(prog_name="skills-mcp", obj=KeyboardInterrupt if is_interrupted else None)


def _blocks(stream: TextIOWrapper) -> bool:
    try:
        return not hasattr(os, "get_blocking") or os.get_blocking(stream.fileno())
    except OSError:  # it is no file
        return True


def _open_waiting(stream: TextIOWrapper) -> TextIOWrapper:
    """Open standard output again, with writes that wait for room in the pipe."""
    from skills_mcp.server.wire import WaitingFile  # for a few hosts only

    output = BufferedWriter(WaitingFile(stream.fileno(), "wb", closefd=False))
    return TextIOWrapper(output, stream.encoding, "replace", line_buffering=stream.line_buffering)
