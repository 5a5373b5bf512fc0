"""Proposed changes: a commit pushed to a new branch for review.

Rule: it builds on the newest commit of the followed branch, in a store of its own.
Neither that branch nor the served content changes.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from skills_mcp.content.git.command import Git, RemoteCall
from skills_mcp.content.git.object_store import TreeEntry, parse_listing
from skills_mcp.content.git.remote import Remote, is_ref_name
from skills_mcp.content.source import ShutdownError, SyncPolicy
from skills_mcp.errors import SyncError
from skills_mcp.files.locks import locked_temporary_folder
from skills_mcp.text.redaction import redact

_BASE_REF = "refs/skills/base"
_CHANGE_REF = "refs/skills/change"

_PROPOSED_REFS = "refs/skills/proposed"
_MAX_COMMITS = 1_000
"""Newest commits of the followed branch in which a proposal is looked for."""

_COMMITTER = "skills-mcp <skills-mcp@localhost>"

_ALREADY_EXISTS = ("stale info", "already exists", "fetch first", "non-fast-forward")


@dataclass(frozen=True, slots=True)
class FolderChange:
    """A replacement for a folder of the repository."""

    folder: Path
    """The new files; all are regular ones."""
    target_folder: str
    """Target folder, such as `skills/pdf-forms`."""
    branch: str
    message: str
    select_retained: Callable[[Collection[str], Callable[[str], bytes]], Collection[str]] | None = (
        None
    )
    """Selects the existing files to retain; None for none."""
    timeout_seconds: float = inf
    """Deadline, unless the policy's is shorter."""


@dataclass(frozen=True, slots=True)
class TextReplacement:
    """A new text for an existing file of the repository; its mode stays."""

    file: str
    before: bytes
    """The text that is replaced: another one in the newest commit is a conflict."""
    after: bytes
    branch: str
    message: str
    timeout_seconds: float = inf
    """Deadline, unless the policy's is shorter."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A branch for review."""

    branch: str
    base: str
    is_new: bool
    """False if the branch existed already: it stays as it is."""


def push_change(
    git: Git, remote: Remote, base: str, change: FolderChange | TextReplacement, policy: SyncPolicy
) -> Proposal:
    """Push a change to a new branch of the remote.  Blocking.

    `base` is the target ref, such as `refs/heads/main`, or `HEAD`.

    Raises:
        SyncError: The remote refuses it or does not answer, nothing would change, or the
            file has changed meanwhile.
    """
    if not is_ref_name(change.branch):
        raise SyncError(f"{change.branch} can be no branch. Rename the skill")
    seconds = min(policy.timeout_seconds, change.timeout_seconds)
    call = RemoteCall(access=git.open_access(), deadline=time.monotonic() + seconds)
    with locked_temporary_folder("skills-mcp-change-") as folder:
        store = git.with_directory(folder / "store")
        store.init()
        store.fetch(call, f"+{base}:{_BASE_REF}", "--depth=1")
        _commit(store, change)
        is_new = _push(store, remote, change.branch, call)
    return Proposal(change.branch, base.removeprefix("refs/heads/"), is_new)


def read_trailers(
    git: Git, remote: Remote, base: str, trailer: tuple[str, str], policy: SyncPolicy
) -> frozenset[str]:
    """Read the values of a trailer in the base's history and on branches for review.  Blocking.

    `trailer` is its key, and what the names of these branches begin with.

    Raises:
        SyncError: The remote does not answer.
    """
    call = RemoteCall(access=git.open_access(), deadline=time.monotonic() + policy.timeout_seconds)
    with locked_temporary_folder("skills-mcp-trailers-") as folder:
        store = git.with_directory(folder / "store")
        store.init()
        # Messages are read, and no files.
        filters = () if remote.scheme == "file" else ("--filter=tree:0",)
        key, beginning = trailer
        branches = f"+refs/heads/{beginning}*:{_PROPOSED_REFS}/*"
        refs = f"+{base}:{_BASE_REF}\n{branches}\n".encode()
        store.fetch(call, "", f"--depth={_MAX_COMMITS}", *filters, "--stdin", stdin=refs)
        form = f"--format=%(trailers:key={key},valueonly)"
        return frozenset(store.run("log", "--all", form).text.split())


def _commit(store: Git, change: FolderChange | TextReplacement) -> None:
    if isinstance(change, TextReplacement):
        target, parts = change.file, _render_file(change, _require_unchanged(store, change))
    else:
        target, parts = change.target_folder, _render(change, _find_retained(store, change))
    store.run("fast-import", "--quiet", "--done", stdin=b"".join(parts))
    words = ("rev-parse", f"{_BASE_REF}^{{tree}}", f"{_CHANGE_REF}^{{tree}}")
    before, after = store.run(*words).text.split()
    if before == after:
        raise SyncError(
            f"{target} is the same in the repository already, so there is nothing to review"
        )


def _require_unchanged(store: Git, change: TextReplacement) -> TreeEntry:
    words = ("ls-tree", "-z", "--full-tree", _BASE_REF, "--", change.file)
    records = filter(None, store.run(*words).stdout.split(b"\0"))
    entry = next(iter(parse_listing(records)), None)
    if entry and entry.kind == "file" and _read_blob(store, entry) == change.before:
        return entry
    raise SyncError(
        f"{change.file} has changed in the repository, and the server has not fetched that "
        "yet. Try again in a minute"
    )


def _render_file(change: TextReplacement, entry: TreeEntry) -> Iterator[bytes]:
    yield from render_commit(_CHANGE_REF, change.message, seconds=int(time.time()))
    yield b"from %s^0\n" % _BASE_REF.encode()
    yield from render_inline_file(change.file, change.after, is_executable=entry.is_executable)
    yield b"done\n"


def _read_blob(store: Git, entry: TreeEntry) -> bytes:
    return store.run("cat-file", "blob", entry.blob).stdout


def _find_retained(store: Git, change: FolderChange) -> Sequence[TreeEntry]:
    if change.select_retained is None:
        return ()
    prefix = f"{change.target_folder}/"
    words = ("ls-tree", "-r", "-z", "--full-tree", _BASE_REF, "--", prefix)
    records = store.run(*words).stdout.split(b"\0")
    entries = {
        listed.file.removeprefix(prefix): listed for listed in parse_listing(filter(None, records))
    }

    def read(file: str) -> bytes:
        entry = entries[file]
        if entry.kind != "file":
            return b""
        return _read_blob(store, entry)

    retained = change.select_retained(entries, read)
    return [entry for file, entry in entries.items() if file in retained]


def _render(change: FolderChange, retained: Sequence[TreeEntry]) -> Iterator[bytes]:
    yield from render_commit(_CHANGE_REF, change.message, seconds=int(time.time()))
    quoted = quote_c_style(change.target_folder)
    yield b"from %s^0\nD %s\n" % (_BASE_REF.encode(), quoted)
    for entry in retained:
        yield render_blob_file(entry.file, entry.blob, entry.mode)
    for path in sorted(change.folder.rglob("*")):
        if path.is_dir():
            continue
        file = path.relative_to(change.folder).as_posix()
        yield from render_inline_file(
            f"{change.target_folder}/{file}",
            path.read_bytes(),
            is_executable=os.access(path, os.X_OK),
        )
    yield b"done\n"


def _push(store: Git, remote: Remote, branch: str, call: RemoteCall) -> bool:
    ref = f"refs/heads/{branch}"
    try:
        output = store.run(
            *("push", "--porcelain", "--no-verify", "--no-follow-tags"),
            # An empty expectation: the branch must not be there.
            *(f"--force-with-lease={ref}:", *call.access.push_options),
            *("--end-of-options", remote.url, f"{_CHANGE_REF}:{ref}"),
            access=call.access,
            timeout_seconds=max(call.remaining_seconds, 1.0),
            is_ok=(0, 1),
        )
    except ShutdownError:
        raise
    except SyncError as error:
        raise SyncError(
            f"the branch {branch} cannot be pushed. Reading works, so see whether the "
            f"credentials of this source may also write: {error}"
        ) from error
    refused = [line for line in output.text.splitlines() if line.startswith("!")]
    if output.returncode == 0 and not refused:
        return True
    reason = redact(refused[0].rpartition("\t")[2] if refused else output.stderr.strip())
    if any(sign in reason for sign in _ALREADY_EXISTS):
        return False
    raise SyncError(
        f"{remote.url} refuses the branch {branch}: {reason}. Let its rules permit "
        "branches that begin with skills-mcp/"
    )


# Streams for fast-import: https://git-scm.com/docs/git-fast-import


def render_commit(ref: str, message: str, *, seconds: int) -> Iterator[bytes]:
    """Render the header of a commit by this program; `seconds` since the epoch."""
    text = message.encode()
    yield b"commit %s\n" % ref.encode()
    yield b"committer %s %d +0000\n" % (_COMMITTER.encode(), seconds)
    yield b"data %d\n%s\n" % (len(text), text)


def render_inline_file(path: str, data: bytes, *, is_executable: bool) -> Iterator[bytes]:
    mode = b"100755" if is_executable else b"100644"
    yield b"M %s inline %s\n" % (mode, quote_c_style(path))
    yield b"data %d\n%s\n" % (len(data), data)


def render_blob_file(path: str, blob: str, mode: str) -> bytes:
    """Render a file of the current commit by the id of an existing blob."""
    return b"M %s %s %s\n" % (mode.encode(), blob.encode(), quote_c_style(path))


def quote_c_style(path: str) -> bytes:
    r"""Quote a path as in C.

    >>> quote_c_style('a "b".md')
    b'"a \\"b\\".md"'
    """
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return b'"%s"' % escaped.encode()
