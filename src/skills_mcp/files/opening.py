"""Opening below a folder without following any link.

Another program can put a link at a path between check and use. So there is no check:
each step starts from a held descriptor. Linux does it in one call, `openat2`, missing
in Python; other systems open each folder in turn.
"""

import errno
import os
import stat
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

from skills_mcp.errors import MissingFileError
from skills_mcp.files.durable import GUARDED_FLAGS

Opener = Callable[[int, Sequence[str], int], int]

_NO_NAMES = frozenset({"", ".", ".."})
_HAS_DESCRIPTORS = os.open in os.supports_dir_fd and os.scandir in os.supports_fd

_FLAGS = os.O_RDONLY | GUARDED_FLAGS
_FOLDER = _FLAGS | getattr(os, "O_DIRECTORY", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)

MAX_PATH_BYTES = 4095

_OPENAT2 = 437  # the same on every processor that Python is built for
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08


def open_inside(directory: Path, parts: Sequence[str], opener: Opener | None = None) -> BinaryIO:
    """Open a regular file below `directory` without following links.

    Links on the way to `directory`, the operator's choice, are followed.

    Raises:
        MissingFileError: There is no regular file at this path.
    """
    name = "/".join(parts)
    try:
        number = _open(directory, parts, _FLAGS, opener)
    except (OSError, ValueError) as error:
        raise MissingFileError(f"There is no readable file {name!r}") from error
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise MissingFileError(f"{name!r} is not a regular file")
    return os.fdopen(number, "rb")


class OpenFolder:
    """Open folder, reused by many listings."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number: int | None = None

    @contextmanager
    def scan_folder(self, parts: Sequence[str]) -> Iterator[Iterator["os.DirEntry[str]"]]:
        """Scan an inner folder without following links.

        Entries last as long as the block.

        Raises:
            OSError: There is no folder at this path, or no permission.
        """
        if not _HAS_DESCRIPTORS:
            with os.scandir(_require_no_links(self._directory, parts)) as scan:
                yield scan
            return
        number = self._open(parts)
        try:
            with os.scandir(number) as scan:
                yield scan
        finally:
            os.close(number)

    def _open(self, parts: Sequence[str]) -> int:
        _require_names(parts)
        if not parts:
            return os.open(self._directory, _FOLDER & ~_NO_FOLLOW)
        if self._number is None:
            self._number = os.open(self._directory, _FOLDER & ~_NO_FOLLOW)
            weakref.finalize(self, os.close, self._number)
        return best_opener()(self._number, parts, _FOLDER)


def open_stepwise(folder: int, names: Sequence[str], flags: int) -> int:
    """Open name by name; portable to systems with folder descriptors.

    Raises:
        OSError: A name is missing, or is a link.
    """
    parent = folder
    try:
        for name in names[:-1]:
            inner = os.open(name, _FOLDER, dir_fd=parent)
            _close_unless(folder, parent)
            parent = inner
        return os.open(names[-1], flags | _NO_FOLLOW, dir_fd=parent)
    finally:
        _close_unless(folder, parent)


def open_with_openat2(folder: int, names: Sequence[str], flags: int) -> int:
    """Open in one call, immune to concurrent replacement.

    Raises:
        OSError: A name is missing, or is a link.
    """
    path = os.fsencode("/".join(names))
    if len(path) > MAX_PATH_BYTES:
        return open_stepwise(folder, names, flags)
    return call_openat2(folder, path, flags)


OPENERS: dict[str, Opener] = {"openat2": open_with_openat2, "walk": open_stepwise}


@cache
def best_opener() -> Opener:
    return OPENERS["openat2" if has_openat2() else "walk"]


def _open(directory: Path, parts: Sequence[str], flags: int, opener: Opener | None = None) -> int:
    if not _HAS_DESCRIPTORS:
        return os.open(_require_no_links(directory, parts), flags)
    _require_names(parts)
    folder = os.open(directory, _FOLDER & ~_NO_FOLLOW)
    if not parts:
        return folder
    try:
        return (opener or best_opener())(folder, parts, flags)
    finally:
        os.close(folder)


def _require_no_links(directory: Path, parts: Sequence[str]) -> Path:
    _require_names(parts)
    path = directory.joinpath(*parts)
    if path.resolve() != directory.resolve().joinpath(*parts):
        raise FileNotFoundError(path)
    return path


def _require_names(parts: Sequence[str]) -> None:
    has_slash = "/".join(parts).count("/") >= len(parts) > 0
    if has_slash or not _NO_NAMES.isdisjoint(parts):
        raise FileNotFoundError(parts)


def _close_unless(spared: int, number: int) -> None:
    if number != spared:
        os.close(number)


def call_openat2(folder: int, path: bytes, flags: int) -> int:
    """`openat2` with `RESOLVE_BENEATH`, without links.

    Raises:
        OSError: It is missing, a link is on the way, or it leads out.
        ValueError: It has a NUL; the kernel would ignore the rest.
    """
    if b"\0" in path:
        raise ValueError(path)
    ask, read_error = _load_openat2()
    while (number := ask(folder, path, flags)) < 0:
        error = read_error()
        if error != errno.EINTR:
            raise OSError(error, os.strerror(error))
    return number


def has_openat2() -> bool:
    """Whether this kernel has `openat2`, not filtered by a container."""
    # Elsewhere the number belongs to another call.
    if sys.platform != "linux":
        return False
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(call_openat2(root, b".", os.O_PATH | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


@cache
def _load_openat2() -> tuple[Callable[[int, bytes, int], int], Callable[[], int]]:
    import ctypes  # late: the first answer opens nothing

    how = ctypes.c_uint64 * 3  # `struct open_how`: flags, mode, resolve
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = (
        *(ctypes.c_long, ctypes.c_int, ctypes.c_char_p),
        *(ctypes.POINTER(how), ctypes.c_size_t),
    )

    def ask(folder: int, path: bytes, flags: int) -> int:
        open_how = how(flags, 0, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
        found: int = syscall(_OPENAT2, folder, path, open_how, ctypes.sizeof(how))
        return found

    return ask, ctypes.get_errno
