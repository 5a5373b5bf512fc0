"""The private folder of one run: its home, gone when the run is over.

A server that is killed leaves its folder behind. It has held a lock on it until then,
so the next server can tell, and removes it.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from skills_mcp.errors import MissingFileError
from skills_mcp.files.durable import open_regular
from skills_mcp.files.locks import acquire_lock, lock_file

_PREFIX = "skills-mcp-run-"
_LOCK = "lock"

# Between making a folder and locking it somebody else could take it for left behind.
_FRESH_SECONDS = 60 * 60


@dataclass(frozen=True, slots=True)
class PrivateFolder:
    """A folder that belongs to one run, for our account alone."""

    path: Path
    """Absolute, and without links. What else a run needs may be put beside `home`."""

    @property
    def home(self) -> Path:
        """What the run sees as HOME and TMPDIR; the only place it may always write."""
        return self.path / "home"

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables of the environment that name it."""
        names = ("HOME", "TMPDIR", "TEMP", "TMP", "USERPROFILE")
        return dict.fromkeys(names, str(self.home))


@contextmanager
def private_folder() -> Iterator[PrivateFolder]:
    """Make a folder for one run, and remove it whatever happens.  Blocking.

    Raises:
        MissingFileError: The system has no room or no place for it.
    """
    _remove_left_behind(tempfile.gettempdir())
    # A process that has left its group may still write into it: then it stays.
    with ExitStack() as opened:
        try:
            folder = PrivateFolder(Path(opened.enter_context(_folder())).resolve())
            opened.enter_context(acquire_lock(folder.path / _LOCK))
            folder.home.mkdir()
        except OSError as error:
            raise MissingFileError(
                f"no temporary folder can be made: {error.strerror}. Run it in your "
                "own shell, or ask the operator to look at TMPDIR."
            ) from error
        yield folder


def _folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)


@cache
def _remove_left_behind(parent: str) -> None:
    """Remove what killed servers have left; once is enough for this one."""
    for folder in Path(parent).glob(f"{_PREFIX}*"):
        try:
            is_fresh = time.time() - folder.lstat().st_mtime < _FRESH_SECONDS
            if is_fresh or folder.is_symlink():
                continue
            handle = open_regular(folder / _LOCK, is_writing=True)
            if handle is None:
                continue
            with handle:
                lock_file(handle)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # in use, or the folder of another user
