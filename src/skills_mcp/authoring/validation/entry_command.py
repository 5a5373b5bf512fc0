"""Whether the command that a package is entered by can be run (003)."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from skills_mcp.authoring.validation.rules import Finding, enumerate_shortly
from skills_mcp.errors import shorten
from skills_mcp.skills.model import Skill
from skills_mcp.skills.package import has_program_suffix


def check_entry(skill: Skill, line: int) -> Iterator[Finding]:
    """Check the program of an entry, and the files that it names.

    Args:
        skill: What the package says.
        line: Where it declares the entry.
    """
    if not skill.entry:
        return
    program, *words = skill.entry
    if not program or set(program) & set("/\\"):
        reason = f"has an entry that begins with {shorten(program)}, not with a program"
        hint = "begin it with a bare name: entry: bash scripts/run.sh"
        yield Finding("entry-program", reason, hint, line)
    files = (word for word in words if has_program_suffix(word) and word[0] != "-")
    missing = [file for file in files if str(PurePosixPath(file)) not in skill.files]
    if missing:
        reason = f"has an entry that names {enumerate_shortly(missing)}, not its file"
        hint = "write the path from the folder of the package: scripts/run.py"
        yield Finding("entry-file", reason, hint, line)
