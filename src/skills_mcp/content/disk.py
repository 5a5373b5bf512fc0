"""What a disk can do to our cache, in words, and files that are replaced in one step.

Rule: whatever stands where a file of ours belongs, a writer that holds the lock gets
rid of it. Only what is not ours to change is an error.
"""

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from skills_mcp.errors import SyncError

NEW_PREFIX = ".new-"
"""Of files that are not complete yet."""

DELETED_PREFIX = ".deleted-"
"""Of what is about to be deleted."""

_ADVICE = {
    errno.ENOSPC: "the disk is full: make room",
    errno.EDQUOT: "your quota is used up: make room",
    errno.EFBIG: "files may not become that large here: raise the limit (ulimit -f)",
    errno.EROFS: "the disk is read-only: set SKILLS_MCP_HOME to a folder on another",
    errno.EACCES: "the folder belongs to somebody else, or its permissions are wrong: "
    "repair them, or set SKILLS_MCP_HOME to a folder of your own",
    errno.EMFILE: "this process has too many open files: raise the limit (ulimit -n)",
    errno.ENFILE: "this machine has too many open files: end other programs",
    errno.EIO: "the disk is failing: check it, or set SKILLS_MCP_HOME to another",
    errno.EEXIST: "something else stands in its place: delete that",
    errno.ENOTDIR: "a file stands where a folder belongs: delete that",
    errno.ENAMETOOLONG: "the path is too long: set SKILLS_MCP_HOME to a shorter one",
}
_ADVICE[errno.EPERM] = _ADVICE[errno.EACCES]
_OTHER_ADVICE = "something is wrong with it: check the disk and the permissions"

SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What says nothing about the file that was to be opened."""

# Opening a named pipe for reading waits for somebody who writes, without this.
_READ = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)  # each is missing on some system


@contextmanager
def explained(directory: Path) -> Iterator[None]:
    """Turn what the disk refuses into words.

    Args:
        directory: The cache, for the message.

    Raises:
        SyncError: For any `OSError` in the block.
    """
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, _OTHER_ADVICE)
        raise SyncError(
            f"the cache {directory} cannot be written, as {advice}. It is tried again "
            f"later. The system said: {error}"
        ) from error


def read_small(path: Path, max_bytes: int = 1024 * 1024) -> bytes | None:
    """Return what a regular file holds; None if there is none, or none like that.

    Raises:
        OSError: The system could not even look.
    """
    try:
        with os.fdopen(os.open(path, _READ), "rb") as handle:
            found = os.fstat(handle.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > max_bytes:
                return None
            return handle.read(max_bytes)
    except OSError as error:
        if error.errno in SCARCE:
            raise
        return None


def replace_text(path: Path, text: str) -> None:
    """Write a file so that nobody ever sees half of it, not even after a crash.

    Call it only with the lock held.

    Raises:
        OSError: The file is as it was.
    """
    descriptor, name = tempfile.mkstemp(prefix=NEW_PREFIX, dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        if path.is_dir() and not path.is_symlink():
            delete(path)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    flush_names(path.parent)


def flush_names(directory: Path) -> None:
    """Make sure that the names in a folder outlive a power cut.

    Raises:
        OSError: The disk is failing.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return  # where folders cannot be opened, the system keeps them by itself
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def delete(path: Path) -> None:
    """Delete a file, or a folder with all that is in it; what cannot be stays."""
    with suppress(OSError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():
            _open_up(path)
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def made_anew(path: Path) -> Iterator[None]:
    """Begin a block without what is there; if the block fails, that is back.

    Call it only with the lock held.

    Raises:
        OSError: It cannot be moved.
    """
    aside = path.with_name(f"{DELETED_PREFIX}{uuid4().hex}")
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
    """Make a folder that can be looked into, whatever stands in its place.

    Raises:
        OSError: There is no room, or no permission.
    """
    if path.is_symlink() or not path.is_dir():
        delete(path)
    path.mkdir(exist_ok=True)
    open_up(path)


def open_up(directory: Path) -> bool:
    """Give the owner what is needed to look into a folder; tell if that was missing.

    Raises:
        OSError: It belongs to somebody else.
    """
    mode = stat.S_IMODE(directory.lstat().st_mode)
    if mode & stat.S_IRWXU == stat.S_IRWXU:
        return False
    directory.chmod(mode | stat.S_IRWXU)
    return True


def _open_up(directory: Path) -> None:
    """Open up a folder and all below it, as far as that is possible."""
    with suppress(OSError):
        open_up(directory)
    for folder, inner, _ in os.walk(directory):
        for name in inner:
            inside = Path(folder, name)
            with suppress(OSError):
                if not inside.is_symlink():
                    open_up(inside)
