"""Whether what the first line of a program names is there (`#!/usr/bin/env python3`).

Without it the system only says "No such file", of a program that anybody can see, and
inside a sandbox it does so in the sandbox's words.
"""

import re
from pathlib import Path

from skills_mcp.errors import shorten
from skills_mcp.scripts.sandbox.programs import find_program

_MARK = b"#!"
_LONGEST = 256  # Linux reads no more of it (BINPRM_BUF_SIZE)
_ENV = re.compile(r"\S*/env(?:[ \t]+-S)?[ \t]+(?P<name>[^\s=-][^\s=]*)(?:\s|$)")


def find_fault(program: Path, search_path: str) -> str:
    """Return why a program cannot be started, or an empty text.

    Args:
        program: Its absolute path.
        search_path: Where `env` looks.
    """
    try:
        with program.open("rb") as handle:
            line, _, _ = handle.read(_LONGEST).partition(b"\n")
    except OSError:  # it may be started and not read
        return ""
    if not line.startswith(_MARK):
        return ""
    text = line.removeprefix(_MARK).decode("utf-8", "replace").lstrip(" \t")
    if text.endswith("\r"):
        return "its first line ends like those of Windows"
    by_env = _ENV.match(text)
    if by_env and find_program(by_env["name"], search_path) is None:
        return f"its first line names {shorten(by_env['name'])}, which is not in PATH"
    interpreter = (text.split(maxsplit=1) or [""])[0]
    if not Path(interpreter).is_file():
        return f"its first line names {shorten(interpreter)}, which is not there"
    return ""
