"""Owners of files, as CODEOWNERS names them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skills_mcp.files.durable import read_regular
from skills_mcp.files.paths import find_marked_folder

if TYPE_CHECKING:
    from pathspec import PathSpec

OWNER_FILES = (
    *(".github/CODEOWNERS", ".gitlab/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"),
    ".gitea/CODEOWNERS",
)
"""Where the forges look, the first one counts."""

_MAX_OWNER_BYTES = 3 * 1024 * 1024  # of GitHub

_SECTION = re.compile(r"\^?\[[^\]]*\](?:\[\d+\])?\s*(?P<owners>.*)")
"""Of GitLab; its owners are those of the lines below without any."""


class CodeOwners:
    r"""Owners by file, as CODEOWNERS names them: the last line that fits.

    >>> owners = CodeOwners("* @all\n/skills/ui/ @web # pages\n*.sql @db @ops")
    >>> [owners.find(f) for f in ("a.md", "skills/ui/x/y.md", "skills/ui/q.sql")]
    ['@all', '@web', '@db, @ops']
    """

    def __init__(self, text: str = "", folder: str = "") -> None:
        self._rules = tuple(_parse_owner_lines(text))
        self._folder = folder

    def find(self, file: str) -> str:
        name = f"{self._folder}{file}"
        fitting = (owners for files, owners in reversed(self._rules) if files.match_file(name))
        return next(fitting, "")


def _parse_owner_lines(text: str) -> Iterator[tuple["PathSpec[Any]", str]]:
    default = ""
    for line in text.splitlines():
        words = line.partition(" #")[0].strip()
        if not words or words.startswith("#"):
            continue
        if section := _SECTION.fullmatch(words):
            default = ", ".join(section["owners"].split())
            continue
        pattern, *owners = words.replace("\\ ", "\0").split()
        yield _compile_pattern(pattern.replace("\0", " ")), ", ".join(owners) or default


def _compile_pattern(pattern: str) -> "PathSpec[Any]":
    """Compile a pattern in the syntax of `.gitignore`, but for `folder/*`.

    To the forges it means the files of a folder, and not those of the folders in it.
    """
    from pathspec import PathSpec

    nested = [f"!{pattern}/**"] if pattern.endswith("/*") else []
    try:
        return PathSpec.from_lines("gitignore", [pattern, *nested])
    except ValueError:  # a pattern of nothing: the forges skip such a line
        return PathSpec([])


def read_code_owners(folder: Path) -> CodeOwners:
    """Owners of a folder in a working tree; none for one outside of Git."""
    top = find_marked_folder(folder, ".git")
    if top is None:
        return CodeOwners()
    texts = (read_regular(top / file, _MAX_OWNER_BYTES) for file in OWNER_FILES)
    raw = next(filter(None, texts), b"")
    inside = folder.relative_to(top).as_posix()
    return CodeOwners(raw.decode("utf-8", "replace"), "" if inside == "." else f"{inside}/")
