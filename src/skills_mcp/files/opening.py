"""Files and folders below a folder, opened without following any link.

Between a look at a path and its opening another program can put a link there. So there
is no look: each step starts from a descriptor that is held already. Linux does that in
one call, `openat2`, which Python has no name for; elsewhere each folder is opened in
turn.
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
"""Opens names below the descriptor of a folder, with flags; returns a descriptor."""

_NO_NAMES = frozenset({"", ".", ".."})
_HAS_DESCRIPTORS = os.open in os.supports_dir_fd and os.scandir in os.supports_fd

_FLAGS = os.O_RDONLY | GUARDED_FLAGS
_FOLDER = _FLAGS | getattr(os, "O_DIRECTORY", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)

MAX_PATH_BYTES = 4095
"""The longest path that the kernel accepts, without its final NUL."""

_OPENAT2 = 437  # the same on every processor that Python is built for
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08


def open_inside(
    directory: Path, parts: Sequence[str], opener: Opener | None = None
) -> BinaryIO:
    """Open a regular file below `directory` without following any link.

    Args:
        directory: The operator's choice; links on the way to it are followed.
        parts: The names from there to the file.
        opener: How; None for the best one that this system has.

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


class HeldFolder:
    """A folder that stays open, so that each of many listings need not find it again.

    Args:
        directory: The operator's choice; links on the way to it are followed.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number: int | None = None

    @contextmanager
    def listed(self, parts: Sequence[str]) -> Iterator[Iterator["os.DirEntry[str]"]]:
        """List a folder inside of it without following any link.

        What the entries say of themselves is asked while the block lasts.

        Raises:
            OSError: There is no folder at this path, or it may not be listed.
        """
        if not _HAS_DESCRIPTORS:
            with os.scandir(_check(self._directory, parts)) as scan:
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
        return choose_opener()(self._number, parts, _FOLDER)


def open_by_walk(folder: int, names: Sequence[str], flags: int) -> int:
    """Open name by name; on every system that has descriptors of folders.

    Raises:
        OSError: A name is not there, or is a link.
    """
    held = folder
    try:
        for name in names[:-1]:
            inner = os.open(name, _FOLDER, dir_fd=held)
            _close_unless(folder, held)
            held = inner
        return os.open(names[-1], flags | _NO_FOLLOW, dir_fd=held)
    finally:
        _close_unless(folder, held)


def open_by_kernel(folder: int, names: Sequence[str], flags: int) -> int:
    """Open in one call, during which no part of the path can be replaced.

    Raises:
        OSError: A name is not there, or is a link.
    """
    path = os.fsencode("/".join(names))
    if len(path) > MAX_PATH_BYTES:
        return open_by_walk(folder, names, flags)
    return open_beneath(folder, path, flags)


OPENERS: dict[str, Opener] = {"openat2": open_by_kernel, "walk": open_by_walk}
"""All ways to open, the best one first; this machine may lack it."""


@cache
def choose_opener() -> Opener:
    """Return the best way to open that this machine has; asks the kernel once."""
    return OPENERS["openat2" if has_openat2() else "walk"]


def _open(
    directory: Path, parts: Sequence[str], flags: int, opener: Opener | None = None
) -> int:
    if not _HAS_DESCRIPTORS:
        return os.open(_check(directory, parts), flags)
    _require_names(parts)
    folder = os.open(directory, _FOLDER & ~_NO_FOLLOW)
    if not parts:
        return folder
    try:
        return (opener or choose_opener())(folder, parts, flags)
    finally:
        os.close(folder)


def _check(directory: Path, parts: Sequence[str]) -> Path:
    """Return a path that has no link now: Windows has no better guard."""
    _require_names(parts)
    path = directory.joinpath(*parts)
    if path.resolve() != directory.resolve().joinpath(*parts):
        raise FileNotFoundError(path)
    return path


def _require_names(parts: Sequence[str]) -> None:
    has_slash = "/".join(parts).count("/") >= len(parts) > 0
    if has_slash or not _NO_NAMES.isdisjoint(parts):
        raise FileNotFoundError(parts)


def _close_unless(kept: int, number: int) -> None:
    if number != kept:
        os.close(number)


def open_beneath(folder: int, path: bytes, flags: int) -> int:
    """Open a path below the descriptor of a folder, and follow no link on the way.

    Raises:
        OSError: It is not there, a link is on the way, or it leads out.
        ValueError: It has a NUL, behind which the kernel would not look.
    """
    if b"\0" in path:
        raise ValueError(path)
    ask, read_error = _load_call()
    while (number := ask(folder, path, flags)) < 0:
        error = read_error()
        if error != errno.EINTR:
            raise OSError(error, os.strerror(error))
    return number


def has_openat2() -> bool:
    """Whether this kernel has `openat2`, and no sandbox forbids it.

    A container may filter it out, and answer that it is not permitted or not there.
    """
    # Elsewhere the number belongs to another call.
    if sys.platform != "linux":
        return False
    here = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(open_beneath(here, b".", os.O_PATH | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        os.close(here)
    return True


@cache
def _load_call() -> tuple[Callable[[int, bytes, int], int], Callable[[], int]]:
    """Return the system call, and a function that returns its error."""
    import ctypes  # late: the first answer opens nothing

    how = ctypes.c_uint64 * 3  # `struct open_how`: flags, mode, resolve
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = (
        *(ctypes.c_long, ctypes.c_int, ctypes.c_char_p),
        *(ctypes.POINTER(how), ctypes.c_size_t),
    )

    def ask(folder: int, path: bytes, flags: int) -> int:
        wanted = how(flags, 0, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
        found: int = syscall(_OPENAT2, folder, path, wanted, ctypes.sizeof(how))
        return found

    return ask, ctypes.get_errno
