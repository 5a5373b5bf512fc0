"""Reachability."""

from dataclasses import dataclass
from datetime import datetime

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.source import Mode, Mount
from skills_mcp.errors import SyncError


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCheck:
    name: str
    mode: Mode
    git_version: str = ""
    git_error: SyncError | None = None
    was_contacted: bool = True
    """False for a remote in offline mode."""
    error: SyncError | None = None
    commit: str | None = None
    sent_at: datetime | None = None
    """The remote's clock (HTTP `Date`), for clock skew."""
    answered_at: datetime | None = None
    """Our clock at the same moment."""
    sends_token: bool = False


def check_source(mount: Mount, *, is_offline: bool) -> SourceCheck:
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
        return SourceCheck(name=name, mode=mode, git_error=error, was_contacted=False)
    if is_offline:
        return SourceCheck(name=name, mode=mode, git_version=version, was_contacted=False)
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
