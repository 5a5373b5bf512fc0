"""The command line: a file in `commands` for each command, loaded when it is called.

Exit codes: 0 success, 1 `validate`, `test`, `status` or `doctor` found something, 2
wrong usage, 3 the settings or the content cannot be used, 4 the sync failed without
older content, or in `sync` itself, or `status` sees failing syncs, 130 Ctrl-C.
"""

import errno
import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from select import select
from typing import Any, TextIO

import click

from skills_mcp.about import DISTRIBUTION, __version__
from skills_mcp.cli.command_group import CommandGroup

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_FULL = "The disk is full, so not all was written. Make room, or write the output elsewhere."


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
    sys.stdout = _open_output(sys.stdout)
    program(prog_name="skills-mcp", obj=KeyboardInterrupt if is_interrupted else None)


def _open_output(stream: TextIO) -> TextIO:
    """Open standard output as `_OutputFile`, unless it is a console of Windows or in memory."""
    buffer = getattr(stream, "buffer", None)
    is_file = isinstance(getattr(buffer, "raw", buffer), FileIO)
    if not is_file or not isinstance(stream, TextIOWrapper):
        return stream
    output = BufferedWriter(_OutputFile(stream.fileno(), "wb", closefd=False))
    is_by_line = stream.line_buffering or stream.write_through
    return TextIOWrapper(output, stream.encoding, "replace", line_buffering=is_by_line)


class _OutputFile(FileIO):
    """Standard output: waits for room in a pipe; a full disk ends the program in one line."""

    def write(self, data: Any, /) -> int:
        try:
            while (count := super().write(data)) is None:  # a host has made it non-blocking
                select([], [self], [])
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            # What is still in a buffer would fail again at the end, with Python's exit code.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            raise SystemExit(f"skills-mcp: {_FULL}") from None
        return count
