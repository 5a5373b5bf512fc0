"""A folder of a Git work tree as it was in another commit."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from skills_mcp.content.git.remote import Remote
from skills_mcp.content.git.repository import GitRepository
from skills_mcp.content.store.export import export
from skills_mcp.content.sync_policy import SyncPolicy
from skills_mcp.errors import SyncError

_GIT = ".git"
_POINTER = "gitdir:"
"""How the file begins that linked work trees and submodules have for a folder."""

# `HEAD~2`, `v1.0^{commit}` and `main@{yesterday}` are commits; an option is none, and
# what follows a colon is a file.
_COMMIT = re.compile(r"[^-\s:][^\s:]*")

# It is the user's own repository, and all of it is there already.
_UNLIMITED = SyncPolicy(
    max_files=sys.maxsize, max_file_bytes=sys.maxsize, max_total_bytes=sys.maxsize
)


@contextmanager
def checked_out(folder: Path, ref: str) -> Iterator[Path]:
    """Write a folder as a commit has it into a temporary one, and delete that later.

    Nothing in the work tree changes, and nothing of the repository's runs.

    Args:
        folder: Somewhere inside of a work tree.
        ref: A branch, a tag, a commit, or what Git understands beside these.

    Raises:
        SyncError: There is no such commit, or no such folder in it.
    """
    top = _find_top(folder.resolve())
    if top is None:
        raise SyncError(
            f"{folder} is in no work tree of Git, so it has no other commit. Leave "
            "--baseline out, or name a folder inside of a clone"
        )
    if not _COMMIT.fullmatch(ref):
        raise SyncError(_unknown(ref, top))
    repository = GitRepository(_find_store(top), Remote(str(top), ""), _UNLIMITED)
    if _read_kind(repository, f"{ref}^{{commit}}") != "commit":
        raise SyncError(_unknown(ref, top))
    inside = folder.resolve().relative_to(top).as_posix()
    wanted = ref if inside == "." else f"{ref}:{inside}"
    if inside != "." and _read_kind(repository, wanted) != "tree":
        raise SyncError(
            f"{ref} has no folder {inside} yet. Name a later commit as --baseline"
        )
    with TemporaryDirectory(prefix="skills-mcp-") as made:
        export(repository.list_files(wanted), repository, Path(made))
        yield Path(made)


def _read_kind(repository: GitRepository, name: str) -> str:
    """Return what an object is: a commit, a tree, or missing."""
    printed = repository.git.run(
        *("cat-file", "--batch-check=%(objecttype)"), stdin=f"{name}\n".encode()
    )
    return printed.text.rpartition(" ")[2]


def _unknown(ref: str, top: Path) -> str:
    return (
        f"{top} has no commit {ref!r}. Write a branch, a tag or a commit that Git "
        "knows there, such as HEAD~1 or origin/main"
    )


def _find_top(folder: Path) -> Path | None:
    """Return the nearest folder above that is the top of a work tree."""
    places = (folder, *folder.parents)
    return next((place for place in places if (place / _GIT).exists()), None)


def _find_store(top: Path) -> Path:
    """Return where the objects are, or what leads Git there."""
    marker = top / _GIT
    if marker.is_dir():
        return marker
    text = marker.read_text(encoding="utf-8", errors="replace").strip()
    return (top / text.removeprefix(_POINTER).strip()).resolve()
