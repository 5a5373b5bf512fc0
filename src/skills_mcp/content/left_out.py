"""Why a file of a commit is not written to a disk, and what to do about it.  Pure."""

from collections.abc import Mapping

from skills_mcp.content.source import LeftOutKind
from skills_mcp.skills.model import Problem

_REASONS: Mapping[LeftOutKind, tuple[str, str, str]] = {
    "link": ("is a link", "put a file with a plain name in its place", "link"),
    "submodule": (
        "is a submodule, which is another repository",
        "add that repository to your sources, or copy its files",
        "submodule",
    ),
    "name": (
        "has a name that is not safe on every system",
        "rename it: letters, digits, hyphens and dots are safe",
        "file-name",
    ),
    "collision": (
        "has a name that some file systems take for another one in its folder",
        "rename one of them so that they differ in more than capitals and accents",
        "name-collision",
    ),
    "size": (
        "is larger than limits.max_file_bytes",
        "keep it elsewhere, or let the operator raise the limit",
        "file-size",
    ),
}


def explain_left_out(file: str, kind: LeftOutKind) -> Problem:
    """Return what is said of a file that is left out."""
    reason, hint, rule = _REASONS[kind]
    return Problem(file, reason, hint, rule=rule)
