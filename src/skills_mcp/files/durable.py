"""Files on a disk that can fail: opened with care, appended to, replaced in one step.

Rules: a link in the place of a file is never followed, a file that this program makes
is for its owner alone, and a reader sees either the old content or the new, even after
a power cut.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

NEW_PREFIX = ".new-"
"""How the name of a file begins that is not complete yet."""

DELETED_PREFIX = ".deleted-"
"""How the name of a folder begins that is about to be deleted."""

GUARDED_FLAGS = (
    getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)  # each is missing on some system
"""The flags with which every file is opened.

No child process inherits the file, a link is refused, a named pipe does not block, a
terminal does not become that of this process, and Windows translates no line ends.
"""

PRIVATE_MODE = 0o600

SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors that say nothing about the file that was to be opened."""


def open_regular(
    path: Path, *, max_bytes: int | None = None, is_writing: bool = False
) -> IO[bytes] | None:
    """Open a regular file that exists; None if it is anything else, or too large.

    Raises:
        OSError: It cannot be opened.
    """
    flags = os.O_RDWR if is_writing else os.O_RDONLY
    descriptor = os.open(path, flags | GUARDED_FLAGS)
    found = os.fstat(descriptor)
    is_fit = max_bytes is None or found.st_size <= max_bytes
    if is_fit and stat.S_ISREG(found.st_mode):
        return os.fdopen(descriptor, "r+b" if is_writing else "rb")
    os.close(descriptor)
    return None


def read_regular(path: Path, max_bytes: int = 1024 * 1024) -> bytes | None:
    """Return what a regular file holds; None if there is none that can be read.

    Raises:
        OSError: This machine has too few open files or too little memory left.
    """
    try:
        handle = open_regular(path, max_bytes=max_bytes)
        if handle is None:
            return None
        with handle:
            return handle.read(max_bytes)
    except OSError as error:
        if error.errno in SCARCE:
            raise
        return None


def open_private(path: Path, *, is_new: bool = False) -> IO[bytes]:
    """Open a file for appending, unbuffered; a new file is for its owner alone.

    Args:
        path: The file, in a folder that exists.
        is_new: Whether a file that exists is an error.

    Raises:
        OSError: It cannot be opened, or is not a regular file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | (os.O_EXCL if is_new else 0)
    descriptor = os.open(path, flags | GUARDED_FLAGS, PRIVATE_MODE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "It is not a regular file", str(path))
    return os.fdopen(descriptor, "a+b", buffering=0)


def append(handle: IO[bytes], data: bytes) -> None:
    """Write at the end of a file from `open_private`, in one call.

    So the lines of several processes never mix.

    Raises:
        OSError: The disk takes nothing, or only a part, which is then in the file.
    """
    if handle.write(data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def replacing(path: Path, mode: int = PRIVATE_MODE) -> Iterator[IO[bytes]]:
    """Yield a new file that takes the place of `path` when the block ends well.

    Args:
        path: The file, in a folder that exists.
        mode: Who may read and write it, less what the process masks out.

    Raises:
        OSError: There is no room or no permission; the old file is as it was.
    """
    staging = path.with_name(f"{NEW_PREFIX}{_draw_name()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | GUARDED_FLAGS
    handle = os.fdopen(os.open(staging, flags, mode), "wb")
    try:
        with handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        staging.replace(path)
    except BaseException:
        with suppress(OSError):
            staging.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_text(path: Path, text: str) -> None:
    """Replace a file of ours by a text, also if a folder stands in its place.

    Raises:
        OSError: There is no room or no permission; the old file is as it was.
    """
    with replacing(path) as handle:
        handle.write(text.encode("utf-8"))
        if path.is_dir() and not path.is_symlink():
            delete(path)


def sync_folder(directory: Path) -> None:
    """Make sure that the names in a folder survive a power cut.

    Raises:
        OSError: The disk is failing.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return  # where folders cannot be opened, the system does this by itself
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def delete(path: Path) -> None:
    """Delete a file, or a folder with all its content; what cannot be deleted stays."""
    import shutil  # late: it is slow to import, and seldom needed

    with suppress(OSError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():
            _open_up_all(path)
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def made_anew(path: Path) -> Iterator[None]:
    """Move a file or folder out of the way for a block; put it back if that fails.

    Raises:
        OSError: It cannot be moved.
    """
    aside = path.with_name(f"{DELETED_PREFIX}{_draw_name()}")
    with suppress(FileNotFoundError):
        path.rename(aside)
    try:
        yield
    except BaseException:
        with suppress(FileNotFoundError):
            aside.lstat()
            delete(path)
            aside.rename(path)
        raise
    delete(aside)


def make_folder(path: Path) -> None:
    """Make a folder that can be entered, in the place of anything else.

    Raises:
        OSError: There is no room, or no permission.
    """
    if path.is_symlink() or not path.is_dir():
        delete(path)
    path.mkdir(exist_ok=True)
    open_up(path)


def open_up(directory: Path) -> bool:
    """Give the owner all rights to a folder; return whether one was missing.

    Raises:
        OSError: It belongs to another user.
    """
    mode = stat.S_IMODE(directory.lstat().st_mode)
    if mode & stat.S_IRWXU == stat.S_IRWXU:
        return False
    directory.chmod(mode | stat.S_IRWXU)
    return True


def _open_up_all(directory: Path) -> None:
    """Open up a folder and all folders below it, as far as that is possible."""
    with suppress(OSError):
        open_up(directory)
    for folder, inner, _ in os.walk(directory):
        for name in inner:
            inside = Path(folder, name)
            with suppress(OSError):
                if not inside.is_symlink():
                    open_up(inside)


def _draw_name() -> str:
    """Return a name that no other file has."""
    return os.urandom(16).hex()
