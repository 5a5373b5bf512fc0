"""Health of the sources: whether they can be reached, which is checked without fetching."""

from dataclasses import dataclass, replace
from datetime import datetime

from skills_mcp.config import Limits
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.source import ContentPart, Mode, Mount, SourceState
from skills_mcp.errors import LimitExceededError, SyncError, UnreadableContentError
from skills_mcp.skills.skill_discovery import SourceWalk, count_outside_packages
from skills_mcp.skills.source_layout import FolderTree

# A person waits for it, and a host that drops packets never answers.
_ANSWER_SECONDS = 30.0


def redact_state(state: SourceState) -> SourceState:
    """Remove names and counts of other callers' skills from a state."""
    error = state.error
    is_of_content = isinstance(error, UnreadableContentError | LimitExceededError)
    # The reason why a commit is refused may name any of its skills.
    if error and (is_of_content or state.refused_commit):
        error = type(error)(
            f"{state.name}: the newest content cannot be served, so what was served "
            "before stays. The operator's log has the reason",
            is_recalled=error.is_recalled,
        )
    return replace(state, error=error, not_served=0, loss=None, pins=())


def find_not_served(part: ContentPart, limits: Limits) -> int:
    """Count the packages outside of the served folders.  Blocking."""
    selection = part.mount.selection
    surveyed = part.checkout.surveyed.get(selection)
    if surveyed:
        return count_outside_packages(surveyed.problems)
    tree = FolderTree(part.checkout.directory)
    return count_outside_packages(SourceWalk(tree, selection, limits).outside())


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
    check = SourceCheck(name=source.name, mode=source.mode)
    if isinstance(source, RemoteBranch):
        return _check_remote(source, check, is_offline=is_offline)
    try:
        source.open()
    except SyncError as error:
        return replace(check, error=error)
    return check


def _check_remote(source: RemoteBranch, check: SourceCheck, *, is_offline: bool) -> SourceCheck:
    try:
        check = replace(check, git_version=source.read_git_version())
    except SyncError as error:
        return replace(check, git_error=error, was_contacted=False)
    if is_offline:
        return replace(check, was_contacted=False)
    check = replace(check, sends_token=source.sends_token)
    try:
        answer = source.ask_remote(_ANSWER_SECONDS)
    except SyncError as error:
        return replace(check, error=error)
    answered_at = datetime.now(answer.sent_at.tzinfo) if answer.sent_at else None
    return replace(check, commit=answer.object, sent_at=answer.sent_at, answered_at=answered_at)
