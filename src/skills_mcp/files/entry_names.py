"""Which names of an archive are refused, and the reason that is given.  Pure."""

import re
from collections.abc import Callable, Iterable

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


def require_distinct(
    files: Iterable[str], folders: Iterable[str], check_number: Callable[[int], None]
) -> None:
    """Check that no two names are one on some system, and how many there are.

    Args:
        files: The path of each file, as often as it occurs.
        folders: The path of each folder that the archive names.
        check_number: Called with the number of files and folders, those that a path
            implies included, whenever there is one more; it may refuse.

    Raises:
        PackageRefusedError: Two entries are called the same, or nearly.
    """
    seen: dict[str, tuple[str, bool]] = {}
    for path in files:
        if seen.get(fold_name(path)) == (path, True):
            _refuse_pair(path, path)
        _claim(seen, path, check_number, is_file=True)
    for path in folders:
        _claim(seen, path, check_number, is_file=False)


def _claim(
    seen: dict[str, tuple[str, bool]],
    path: str,
    check_number: Callable[[int], None],
    *,
    is_file: bool,
) -> None:
    """Note a path and the folders above it; refuse one that means another entry.

    Above a folder that is noted already, all are: so each is looked at once.
    """
    folded = fold_name(path)
    while path:
        entry = (path, is_file)
        known = seen.get(folded)
        if known == entry:
            return
        if known:
            _refuse_pair(known[0], path)
        seen[folded] = entry
        check_number(len(seen))
        path, folded = path.rpartition("/")[0], folded.rpartition("/")[0]
        is_file = False


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
