"""A change that is pushed to a branch of its own, where people review it.

Rule: it builds on the newest commit of the branch that is followed, in a store of its
own. Neither that branch nor what is served changes.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from skills_mcp.content.git.git_environment import RemoteAccess
from skills_mcp.content.git.git_runner import Git
from skills_mcp.content.git.import_stream import (
    quote,
    render_commit,
    render_file,
    render_known_file,
)
from skills_mcp.content.git.remote import Remote, is_ref_name
from skills_mcp.content.git.tree_listing import TreeEntry, parse_listing
from skills_mcp.content.source import EndingError
from skills_mcp.content.sync_policy import SyncPolicy
from skills_mcp.errors import SyncError
from skills_mcp.files.temporary_folders import temporary_folder
from skills_mcp.text.redaction import redact

_BASE_REF = "refs/skills/base"
_CHANGE_REF = "refs/skills/change"

_THERE_ALREADY = ("stale info", "already exists", "fetch first", "non-fast-forward")


@dataclass(frozen=True, slots=True)
class FolderChange:
    """A folder that takes the place of what lies there in a repository."""

    folder: Path
    """The files; all of them are regular ones."""
    place: str
    """Where they go, such as `skills/pdf-forms`."""
    branch: str
    """The branch to make."""
    message: str
    """That of the commit."""
    keep: (
        Callable[[Collection[str], Callable[[str], bytes]], Collection[str]] | None
    ) = None
    """Chooses the files that stay of what lies there; None for none of them."""
    timeout_seconds: float = inf
    """How long it may take, if the policy does not say less."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A branch that waits for a review."""

    branch: str
    base: str
    """The branch that it is for."""
    is_new: bool
    """False if there was a branch of this name already: it stays as it is."""


def push_change(
    git: Git, remote: Remote, base: str, change: FolderChange, policy: SyncPolicy
) -> Proposal:
    """Push a change to a new branch of the remote.  Blocking.

    Args:
        git: Git for this remote.
        remote: Where the branch is made.
        base: The ref that the change is for, such as `refs/heads/main`, or `HEAD`.
        change: What is changed.
        policy: Limits of the download and of the time.

    Raises:
        SyncError: The remote does not answer or refuses the branch, or nothing would
            change. The message says what to do.
    """
    if not is_ref_name(change.branch):
        raise SyncError(f"{change.branch} can be no branch. Rename the skill")
    access = git.open_access()
    seconds = min(policy.timeout_seconds, change.timeout_seconds)
    deadline = time.monotonic() + seconds
    with temporary_folder("skills-mcp-change-") as folder:
        store = git.beside(folder / "store")
        store.run("init", "--quiet", "--bare", "--template=")
        store.run(
            *("fetch", "--quiet", "--no-tags", "--depth=1", *access.options),
            *("--end-of-options", remote.url, f"+{base}:{_BASE_REF}"),
            access=access,
            timeout_seconds=seconds,
            max_growth_bytes=policy.max_download_bytes,
        )
        _commit(store, change)
        left = max(deadline - time.monotonic(), 1.0)
        is_new = _push(store, remote, change.branch, access, left)
    return Proposal(change.branch, base.removeprefix("refs/heads/"), is_new)


def _commit(store: Git, change: FolderChange) -> None:
    """Make the commit, by a stream in which each file follows its name."""
    stream = b"".join(_render(change, _find_kept(store, change)))
    store.run("fast-import", "--quiet", "--done", stdin=stream)
    words = ("rev-parse", f"{_BASE_REF}^{{tree}}", f"{_CHANGE_REF}^{{tree}}")
    before, after = store.run(*words).text.split()
    if before == after:
        raise SyncError(
            f"{change.place} is the same in the repository already, so there is "
            "nothing to review"
        )


def _find_kept(store: Git, change: FolderChange) -> Sequence[TreeEntry]:
    """Return the entries of the newest commit that stay in the folder."""
    if change.keep is None:
        return ()
    place = f"{change.place}/"
    words = ("ls-tree", "-r", "-z", "--full-tree", _BASE_REF, "--", place)
    records = store.run(*words).stdout.split(b"\0")
    entries = {
        each.file.removeprefix(place): each
        for each in parse_listing(filter(None, records))
    }

    def read(file: str) -> bytes:
        entry = entries[file]
        if entry.kind != "file":
            return b""
        return store.run("cat-file", "blob", entry.blob).stdout

    kept = change.keep(entries, read)
    return [entry for file, entry in entries.items() if file in kept]


def _render(change: FolderChange, kept: Sequence[TreeEntry]) -> Iterator[bytes]:
    """Yield the stream of `git fast-import`, see its manual."""
    yield from render_commit(_CHANGE_REF, change.message, seconds=int(time.time()))
    place = quote(change.place)
    yield b"from %s^0\nD %s\n" % (_BASE_REF.encode(), place)
    for entry in kept:
        yield render_known_file(entry.file, entry.blob, entry.mode)
    for path in sorted(change.folder.rglob("*")):
        if path.is_dir():
            continue
        file = path.relative_to(change.folder).as_posix()
        yield from render_file(
            f"{change.place}/{file}",
            path.read_bytes(),
            is_executable=os.access(path, os.X_OK),
        )
    yield b"done\n"


def _push(
    store: Git, remote: Remote, branch: str, access: RemoteAccess, seconds: float
) -> bool:
    """Push the commit; return whether the branch is new."""
    ref = f"refs/heads/{branch}"
    try:
        done = store.run(
            *("push", "--porcelain", "--no-verify", "--no-follow-tags"),
            # An empty expectation: the branch must not be there.
            *(f"--force-with-lease={ref}:", *access.push_options),
            *("--end-of-options", remote.url, f"{_CHANGE_REF}:{ref}"),
            access=access,
            timeout_seconds=seconds,
            is_ok=(0, 1),
        )
    except EndingError:
        raise
    except SyncError as error:
        raise SyncError(
            f"the branch {branch} cannot be pushed. Reading works, so see whether the "
            f"credentials of this source may also write: {error}"
        ) from error
    refused = [line for line in done.text.splitlines() if line.startswith("!")]
    if done.returncode == 0 and not refused:
        return True
    reason = redact(refused[0].rpartition("\t")[2] if refused else done.stderr.strip())
    if any(sign in reason for sign in _THERE_ALREADY):
        return False
    raise SyncError(
        f"{remote.url} refuses the branch {branch}: {reason}. Let its rules permit "
        "branches that begin with skills-mcp/"
    )
