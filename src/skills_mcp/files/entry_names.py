"""Which names of an archive are refused, and the reason that is given.  Pure."""

import re
from collections.abc import Iterable

from skills_mcp.errors import InvalidPathError, PackageRefusedError
from skills_mcp.files.paths import MAX_PARTS, fold_name, parse_relative
from skills_mcp.text.rendering import shorten

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DRIVE = re.compile(r"[A-Za-z]:")
_MAX_NAME = 1024
_MAX_PART_BYTES = 255
_MISREAD = (
    "is reserved or misread on some system: a device of Windows, .git, an empty part, "
    "a dot or space at an end, or a character that shows nothing"
)


def parse_entry_name(name: str) -> str:
    """Return the path of an entry without the slash of a folder.

    >>> parse_entry_name("pdf/scripts/")
    'pdf/scripts'

    Raises:
        PackageRefusedError: The name is hostile, or not the same on every system.
    """
    path = name.removesuffix("/")
    path = path.removeprefix("./") if path != "." else path
    fault = _find_fault(path)
    if fault:
        raise PackageRefusedError(
            f"The archive has an entry called {shorten(name)}, which {fault}. "
            "Rename or remove it, and pack the folder again"
        )
    return path


def require_distinct(files: Iterable[str], folders: Iterable[str]) -> None:
    """Check that no two names are one on some system.

    Args:
        files: The path of each file, as often as it occurs.
        folders: The path of each folder that the archive names.

    Raises:
        PackageRefusedError: Two entries are called the same, or nearly.
    """
    files, seen = tuple(files), dict[str, tuple[str, bool]]()
    if len(set(files)) < len(files):
        twice = next(path for path in files if files.count(path) > 1)
        _refuse_pair(twice, twice)
    for path in files:
        _claim(seen, path, is_file=True)
    for path in folders:
        _claim(seen, path, is_file=False)


def _claim(seen: dict[str, tuple[str, bool]], path: str, *, is_file: bool) -> None:
    """Note a path and the folders above it; refuse one that means another entry."""
    parts = path.split("/")
    for depth in range(1, len(parts) + 1):
        place = "/".join(parts[:depth])
        entry = (place, is_file and depth == len(parts))
        known = seen.setdefault(fold_name(place), entry)
        if known != entry:
            _refuse_pair(known[0], place)


def _refuse_pair(first: str, second: str) -> None:
    if first == second:
        reason = f"has two entries called {shorten(first)}"
    else:
        reason = (
            f"has {shorten(first)} and {shorten(second)}, which are one name where "
            "case or accents do not count"
        )
    raise PackageRefusedError(
        f"The archive {reason}. Keep one of them, and pack the folder again"
    )


def _find_fault(path: str) -> str:
    """Return what is wrong with a path, as a clause; empty if nothing is."""
    parts = path.split("/")
    faults = (
        ("\0" in path, "holds a NUL character"),
        (_CONTROL.search(path), "holds a control character"),
        (path.startswith("/"), "is an absolute path"),
        (_DRIVE.match(path), "begins with a drive letter"),
        (".." in parts, "leads out of the folder with .."),
        ("\\" in path, "holds a backslash; archives separate folders with slashes"),
        (len(parts) > MAX_PARTS, f"lies deeper than {MAX_PARTS - 1} folders"),
        (
            len(path) > _MAX_NAME or any(map(_is_long, parts)),
            "is longer than file systems allow",
        ),
        (not _is_relative(path), _MISREAD),
    )
    return next((clause for is_so, clause in faults if is_so), "")


def _is_relative(path: str) -> bool:
    try:
        parse_relative(path)
    except InvalidPathError:
        return False
    return True


def _is_long(part: str) -> bool:
    return len(part.encode("utf-8", "surrogatepass")) > _MAX_PART_BYTES
