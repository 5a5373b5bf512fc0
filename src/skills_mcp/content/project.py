"""Which folders of the project, and of the user, hold skills (002 §5.1, §5.2)."""

import os
from pathlib import Path

from skills_mcp.content.local import DiscoveredFolder
from skills_mcp.content.source import TOP, Mount

FOLDER = ".agents/skills"
MARKERS = (".git", ".jj", ".codelia")
"""What stands at the top of a project; a file does, too, as in a worktree of Git."""


def find_project_root(working: Path) -> Path:
    """Return the nearest folder above `working` with a marker, or `working` itself."""
    return next(filter(_has_marker, (working, *working.parents)), working)


def derive_folders(root: Path, working: Path) -> tuple[Path, ...]:
    """Return the folders from the project's root down to the working directory.

    A working directory elsewhere is no part of the project: then it is the root alone.

    >>> [f.as_posix() for f in derive_folders(Path("/home/a"), Path("/home/a/b/c"))]
    ['/home/a', '/home/a/b', '/home/a/b/c']
    """
    chain = (working, *working.parents)
    if root not in chain:
        return (root,)
    return tuple(reversed(chain[: chain.index(root) + 1]))


def derive_mounts(root: Path, working: Path, home: Path) -> tuple[Mount, ...]:
    """Return every place where skills may be, whether or not they are there yet.

    Each is served from its `TOP`: a package of the name `skills` is one of many.
    """
    project = [
        Mount(
            source=DiscoveredFolder(folder / FOLDER),
            at=(folder / FOLDER).relative_to(root).as_posix(),
            subfolder=TOP,
            scope="repo",
        )
        for folder in derive_folders(root, working)
    ]
    own = Mount(
        source=DiscoveredFolder(home / FOLDER),
        at=f"~/{FOLDER}",
        subfolder=TOP,
        scope="user",
    )
    return (*project, own)


def _has_marker(folder: Path) -> bool:
    # Unlike the method, this function does not fail where we may not look.
    return any(os.path.exists(folder / marker) for marker in MARKERS)  # noqa: PTH110
