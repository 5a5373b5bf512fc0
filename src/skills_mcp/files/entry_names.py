"""Archive entry names."""

import re
from collections.abc import Callable, Iterable

from skills_mcp.errors import InvalidPathError, PackageRefusedError
from skills_mcp.files.paths import MAX_PARTS, fold_name, parse_relative
from skills_mcp.text.rendering import abbreviate_value

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DRIVE = re.compile(r"[A-Za-z]:")
_MAX_NAME = 1024
_MAX_PART_BYTES = 255
_AMBIGUOUS = (
    "is reserved or misread on some system: a device of Windows, .git, an empty part, "
    "a dot or space at an end, or a character that shows nothing"
)


def parse_entry_name(name: str) -> str:
    """Path of an entry, without a folder's trailing slash.

    >>> parse_entry_name("pdf/scripts/")
    'pdf/scripts'

    Raises:
        PackageRefusedError: The name is hostile, or differs between systems.
    """
    path = name.removesuffix("/")
    path = path.removeprefix("./") if path != "." else path
    fault = _find_fault(path)
    if fault:
        raise PackageRefusedError(
            f"The archive has an entry called {abbreviate_value(name)}, which {fault}. "
            "Rename or remove it, and pack the folder again"
        )
    return path


def require_distinct_entries(
    files: Iterable[str], folders: Iterable[str], check_number: Callable[[int], None]
) -> None:
    """Require distinct names on every system.

    `check_number` gets the growing number of entries, including implied folders; it may
    refuse.

    Raises:
        PackageRefusedError: Two entries collide.
    """
    seen: dict[str, tuple[str, bool]] = {}
    for path in files:
        if seen.get(fold_name(path)) == (path, True):
            _refuse_pair(path, path)
        _register(seen, path, check_number, is_file=True)
    for path in folders:
        _register(seen, path, check_number, is_file=False)


def _register(
    seen: dict[str, tuple[str, bool]],
    path: str,
    check_number: Callable[[int], None],
    *,
    is_file: bool,
) -> None:
    """Register a path and its unregistered parents; refuse a collision."""
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
        reason = f"has two entries called {abbreviate_value(first)}"
    else:
        reason = (
            f"has {abbreviate_value(first)} and {abbreviate_value(second)}, which are one "
            f"name where "
            "case or accents do not count"
        )
    raise PackageRefusedError(f"The archive {reason}. Keep one of them, and pack the folder again")


def _find_fault(path: str) -> str:
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
        (not _is_relative(path), _AMBIGUOUS),
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
