"""Relative paths that cannot escape the folder they are joined to (001 §12.1).

Three guards, all needed: `parse_relative` looks at the words of a path and never at
the disk; `find_name` takes nothing but what is listed; `open_inside` looks at the disk
and never follows a link.
"""

from skills_mcp.files.safe_path.names import (
    MAX_PARTS,
    find_name,
    find_twins,
    parse_relative,
)
from skills_mcp.files.safe_path.opening import (
    OPENERS,
    Opener,
    find_spelling,
    listed_inside,
    open_inside,
)

__all__ = [
    "MAX_PARTS",
    "OPENERS",
    "Opener",
    "find_name",
    "find_spelling",
    "find_twins",
    "listed_inside",
    "open_inside",
    "parse_relative",
]
