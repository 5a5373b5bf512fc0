"""Whether a source can be read now, asked without fetching anything."""

from dataclasses import dataclass
from datetime import datetime

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.source import Mode, Mount
from skills_mcp.errors import SyncError


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCheck:
    """What was found of one source."""

    name: str
    mode: Mode
    git_version: str = ""
    """What Git says of itself; empty for a folder."""
    git_error: SyncError | None = None
    """Why Git cannot be used, if it cannot."""
    is_asked: bool = True
    """Whether the source was asked; a remote is not if the program is offline."""
    error: SyncError | None = None
    """Why the source cannot be read."""
    commit: str | None = None
    """The newest commit of a remote."""
    sent_at: datetime | None = None
    """The clock of the remote when it answered, if it was asked over HTTP."""
    answered_at: datetime | None = None
    """Ours at that moment."""
    sends_token: bool = False
    """Whether a token of the operator was sent along."""


def check_source(mount: Mount, *, is_offline: bool) -> SourceCheck:
    """Ask a source whether it can be read.  Blocking.

    Args:
        mount: The source.
        is_offline: Whether no network may be used.
    """
    source = mount.source
    if isinstance(source, RemoteBranch):
        return _check_remote(source, is_offline=is_offline)
    try:
        source.open()
    except SyncError as error:
        return SourceCheck(name=source.name, mode=source.mode, error=error)
    return SourceCheck(name=source.name, mode=source.mode)


def _check_remote(source: RemoteBranch, *, is_offline: bool) -> SourceCheck:
    name, mode = source.name, source.mode
    try:
        version = source.read_git_version()
    except SyncError as error:
        return SourceCheck(name=name, mode=mode, git_error=error, is_asked=False)
    if is_offline:
        return SourceCheck(name=name, mode=mode, git_version=version, is_asked=False)
    sends_token = source.sends_token
    try:
        answer = source.ask_remote()
    except SyncError as error:
        return SourceCheck(
            name=name,
            mode=mode,
            git_version=version,
            error=error,
            sends_token=sends_token,
        )
    return SourceCheck(
        name=name,
        mode=mode,
        git_version=version,
        commit=answer.commit,
        sent_at=answer.sent_at,
        answered_at=datetime.now(answer.sent_at.tzinfo) if answer.sent_at else None,
        sends_token=sends_token,
    )
