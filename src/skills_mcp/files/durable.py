"""Crash-safe files: guarded opening, atomic appending and replacement.

Rules: links are never followed at the last component, new files are private to the
owner, and a reader sees either the old content or the new, even after a power cut.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

NEW_PREFIX = ".new-"

DELETED_PREFIX = ".deleted-"

GUARDED_FLAGS = (
    getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)  # each is missing on some system
"""Flags of every opened file.

No child process inherits the file, a link is refused, a named pipe does not block, a
terminal does not become the controlling one, and Windows translates no line ends.
"""

PRIVATE_MODE = 0o600

RESOURCE_ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors of the process's resources, not of the file."""


def open_regular(
    path: Path, *, max_bytes: int | None = None, is_writing: bool = False
) -> IO[bytes] | None:
    """Open an existing regular file; None if it is another kind, or too large.

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
    """Content of a regular file; None if it is unreadable.

    Raises:
        OSError: File descriptors or memory are exhausted.
    """
    try:
        handle = open_regular(path, max_bytes=max_bytes)
        if handle is None:
            return None
        with handle:
            return handle.read(max_bytes)
    except OSError as error:
        if error.errno in RESOURCE_ERRORS:
            raise
        return None


def read_stamp(path: Path) -> object:
    """Version of a file: another one after each change or replacement; None without it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def open_private(path: Path, *, is_new: bool = False) -> IO[bytes]:
    """Open a file for unbuffered appending; a new file is private to its owner.

    Raises:
        OSError: It cannot be opened, is not a regular file, or exists although
        `is_new`.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | (os.O_EXCL if is_new else 0)
    descriptor = os.open(path, flags | GUARDED_FLAGS, PRIVATE_MODE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "It is not a regular file", str(path))
    return os.fdopen(descriptor, "a+b", buffering=0)


def append_line(handle: IO[bytes], data: bytes) -> None:
    """Append in one write, so that lines of several processes never mix.

    Raises:
        OSError: The disk is full; a part may be in the file.
    """
    if handle.write(data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def atomic_write(path: Path, mode: int = PRIVATE_MODE) -> Iterator[IO[bytes]]:
    """New file replacing `path` after the block succeeds.

    Raises:
        OSError: There is no space or no permission; the old file is unchanged.
    """
    staging = path.with_name(f"{NEW_PREFIX}{_random_name()}")
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
    fsync_folder(path.parent)


def write_text_atomically(path: Path, text: str) -> None:
    """Atomically replace a file of ours, or a folder in its place.

    Raises:
        OSError: There is no space or no permission; the old file is unchanged.
    """
    with atomic_write(path) as handle:
        handle.write(text.encode("utf-8"))
        if path.is_dir() and not path.is_symlink():
            delete_tree(path)


def fsync_folder(directory: Path) -> None:
    """Fsync a folder, so that renames survive a power cut.

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


def delete_tree(path: Path) -> None:
    """Delete a file or a folder tree; errors are ignored."""
    import shutil  # late: it is slow to import, and seldom needed

    with suppress(OSError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():
            _grant_owner_access_below(path)
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def replaced_with_rollback(path: Path) -> Iterator[None]:
    """Move a file or folder away for a block; restore it on failure.

    Raises:
        OSError: It cannot be moved.
    """
    backup = path.with_name(f"{DELETED_PREFIX}{_random_name()}")
    with suppress(FileNotFoundError):
        path.rename(backup)
    try:
        yield
    except BaseException:
        with suppress(FileNotFoundError):
            backup.lstat()
            delete_tree(path)
            backup.rename(path)
        raise
    delete_tree(backup)


def ensure_folder(path: Path) -> None:
    """Make an accessible folder, replacing anything else.

    Raises:
        OSError: There is no space, or no permission.
    """
    if path.is_symlink() or not path.is_dir():
        delete_tree(path)
    path.mkdir(exist_ok=True)
    grant_owner_access(path)


def grant_owner_access(directory: Path) -> bool:
    """Grant the owner all rights to a folder; whether one was missing.

    Raises:
        OSError: It belongs to another user.
    """
    mode = stat.S_IMODE(directory.lstat().st_mode)
    if mode & stat.S_IRWXU == stat.S_IRWXU:
        return False
    directory.chmod(mode | stat.S_IRWXU)
    return True


def _grant_owner_access_below(directory: Path) -> None:
    with suppress(OSError):
        grant_owner_access(directory)
    for folder, inner, _ in os.walk(directory):
        for name in inner:
            inside = Path(folder, name)
            with suppress(OSError):
                if not inside.is_symlink():
                    grant_owner_access(inside)


def _random_name() -> str:
    return os.urandom(16).hex()


SECRET_KEY_BYTES = 32
"""Length of a SHA-256 digest, as RFC 2104 recommends."""


def load_secret_key(path: Path) -> bytes:
    """Key of this installation, generated once by concurrent processes.

    Without a readable and writable file it lasts as long as the process: derived values
    differ between processes, and are no easier to guess.
    """
    with suppress(OSError):
        if found := read_secret_key(path):
            return found
    key = secrets.token_bytes(SECRET_KEY_BYTES)
    try:
        return _store_key(path, key)
    except OSError:
        return key


def read_secret_key(path: Path) -> bytes | None:
    try:
        handle = open_regular(path)
    except FileNotFoundError:
        return None
    if handle is None:
        return None
    with handle:
        text = handle.read(SECRET_KEY_BYTES * 2).decode("ascii", "replace")
    try:
        key = bytes.fromhex(text)
    except ValueError:
        return None
    return key if len(key) == SECRET_KEY_BYTES else None


def _store_key(path: Path, key: bytes) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with open_private(new, is_new=True) as handle:
            append_line(handle, key.hex().encode("ascii"))
            os.fsync(handle.fileno())
        try:
            os.link(new, path)  # unlike a rename, it never replaces another key
        except FileExistsError:
            if existing := read_secret_key(path):
                return existing
            new.replace(path)  # the file is damaged, or not ours
    finally:
        new.unlink(missing_ok=True)
    return key


def flush_to_disk(folder: Path) -> None:
    """Flush the folder's file system to the disk, against a power cut.

    A call for each of ten thousand files takes minutes on the disk of a laptop.

    Raises:
        OSError: The disk is full, or failing.
    """
    flush = _find_syncfs()
    if flush is None:
        getattr(os, "sync", lambda: None)()  # or the system decides
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        flush(descriptor)
    finally:
        os.close(descriptor)


def _find_syncfs() -> Callable[[int], None] | None:
    import ctypes

    try:
        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (AttributeError, OSError, TypeError):
        return None

    def flush(descriptor: int) -> None:
        if syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return flush
