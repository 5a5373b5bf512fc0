"""A folder of a Git work tree as it was in another commit."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from skills_mcp.content.git import GitRepository
from skills_mcp.content.remote import Remote
from skills_mcp.errors import SyncError

_GIT = ".git"
_POINTER = "gitdir:"
"""How the file begins that linked work trees and submodules have for a folder."""

# `HEAD~2`, `v1.0^{commit}` and `main@{yesterday}` are commits; an option is none, and
# what follows a colon is a file.
_COMMIT = re.compile(r"[^-\s:][^\s:]*")


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
    repository = GitRepository(_find_store(top), Remote(str(top), ""))
    inside = folder.resolve().relative_to(top).as_posix()
    with TemporaryDirectory(prefix="skills-mcp-") as made:
        _write(repository, ref, inside, Path(made), top)
        yield Path(made)


def _write(
    repository: GitRepository, ref: str, inside: str, target: Path, top: Path
) -> None:
    wanted = ref if inside == "." else f"{ref}:{inside}"
    try:
        repository.write(wanted, target)
    except SyncError as error:
        if inside != "." and _is_known(repository, ref):
            raise SyncError(
                f"{ref} has no folder {inside} yet. Name a later commit as --baseline"
            ) from error
        raise SyncError(f"{_unknown(ref, top)}. {error}") from error


def _is_known(repository: GitRepository, ref: str) -> bool:
    try:
        repository.list_files(ref)
    except SyncError:
        return False
    return True


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
