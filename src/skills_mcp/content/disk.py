"""Errors of the cache's disk, with advice for the operator."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skills_mcp.errors import SyncError

_ADVICE = {
    errno.ENOSPC: "the disk is full: make room",
    errno.EDQUOT: "your quota is used up: make room",
    errno.EFBIG: "files may not become that large here: raise the limit (ulimit -f)",
    errno.EROFS: "the disk is read-only: set SKILLS_MCP_HOME to a folder on another",
    errno.EACCES: "the folder belongs to another user, or its permissions are wrong: "
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


@contextmanager
def translate_disk_errors(directory: Path) -> Iterator[None]:
    """Translate `OSError` into `SyncError` with advice.

    Raises:
        SyncError: For any `OSError` in the block.
    """
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, _OTHER_ADVICE)
        raise SyncError(
            f"the cache {directory} cannot be written, as {advice}. The system said: {error}"
        ) from error
