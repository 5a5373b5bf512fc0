"""Plain folders as sources: configured ones and `.agents/skills`."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from skills_mcp.content.source import Checkout, Mount
from skills_mcp.errors import SyncError
from skills_mcp.skills.source_layout import TOP_SUBFOLDER, Selection

FOLDER = ".agents/skills"
MARKERS = (".git", ".jj", ".codelia")
"""Markers of a project's root: a folder, or a file as in a Git worktree."""


class LocalFolder:
    """A folder served in place; `setting` names its setting in messages."""

    mode: Literal["local"] = "local"

    def __init__(self, directory: Path, setting: str = "SKILLS_DIR") -> None:
        self.name = str(directory)
        self.directory = directory
        self._setting = setting

    def open(self) -> Checkout | None:
        """Open the folder in its present state.

        Raises:
            SyncError: It does not exist, or cannot be read.
        """
        try:
            return self._open()
        except OSError as error:
            raise SyncError(
                f"the folder {self.name} cannot be read: {error.strerror}. "
                f"Create it, or set {self._setting} to the folder that holds the "
                "skills."
            ) from error

    def _open(self) -> Checkout:
        os.scandir(self.directory).close()
        return Checkout(self.directory, None, datetime.now(UTC))


class DiscoveredFolder(LocalFolder):
    """An unconfigured folder; it need not exist."""

    def open(self) -> Checkout | None:
        """Open the folder in its present state; None if it does not exist.

        Raises:
            SyncError: It exists and cannot be read.
        """
        try:
            return self._open()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise SyncError(
                f"the folder {self.name} cannot be read: {error.strerror}. "
                "Check its permissions, or set discover to false."
            ) from error


def find_project_root(working: Path) -> Path:
    """Find the nearest folder with a marker, upwards; `working` itself without one."""
    return next(filter(_has_marker, (working, *working.parents)), working)


def derive_folders(root: Path, working: Path) -> tuple[Path, ...]:
    """List the folders from the project's root down to the working directory.

    A working directory outside of the project adds nothing.

    >>> [f.as_posix() for f in derive_folders(Path("/home/a"), Path("/home/a/b/c"))]
    ['/home/a', '/home/a/b', '/home/a/b/c']
    """
    chain = (working, *working.parents)
    if root not in chain:
        return (root,)
    return tuple(reversed(chain[: chain.index(root) + 1]))


def derive_mounts(root: Path, working: Path, home: Path) -> tuple[Mount, ...]:
    """Mount every potential skills folder of the project and the user."""
    # 002 §5.1, §5.2
    project = [
        Mount(
            source=DiscoveredFolder(folder / FOLDER),
            at=(folder / FOLDER).relative_to(root).as_posix(),
            selection=Selection(TOP_SUBFOLDER),
            scope="repo",
        )
        for folder in derive_folders(root, working)
    ]
    own = Mount(
        source=DiscoveredFolder(home / FOLDER),
        at=f"~/{FOLDER}",
        selection=Selection(TOP_SUBFOLDER),
        scope="user",
    )
    return (*project, own)


def _has_marker(folder: Path) -> bool:
    # Unlike the method, this function does not fail in a folder without permission.
    return any(os.path.exists(folder / marker) for marker in MARKERS)  # noqa: PTH110
