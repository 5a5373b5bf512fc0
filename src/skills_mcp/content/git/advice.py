"""What Git says when it fails, what that means, and what a person can do.  Pure."""

from dataclasses import dataclass
from datetime import datetime

from skills_mcp.content.git.causes import (
    DAMAGE,
    ELSEWHERE,
    FOLDERS,
    NOT_PINNED,
    THIS_MACHINE,
    Cause,
)
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.git.transcript import Response
from skills_mcp.errors import (
    AccessRefusedError,
    RemoteMissingError,
    SyncError,
)


@dataclass(frozen=True, slots=True)
class Advice:
    """What went wrong, in words that a person can act on."""

    kind: type[SyncError]
    words: str
    retry_after_seconds: float | None = None


PIN_ADVICE = (
    "the repository has no such tag or commit, or does not hand it out. Check `ref`: "
    "the name of a tag, or a commit with all its digits"
)

_WITH_TOKEN = {
    401: "access was refused: the token is wrong, expired or revoked. Put a new one "
    "into GITHUB_TOKEN, or into the file that SKILLS_MCP_TOKEN_FILE names",
    403: "access was refused: the token is known, but may not read this repository. "
    "Give it read access to contents, or authorise it for the organisation's single "
    "sign-on",
    404: "there is no such repository, or the token may not see it: hosts say 404 for "
    "both. Check the address, and which repositories the token may read",
}
_WITHOUT_TOKEN = {
    401: "access was refused: the host wants to know who asks. Set GITHUB_TOKEN, or "
    "SKILLS_MCP_TOKEN_FILE, to a token that may read the repository",
    403: "access was refused. Set GITHUB_TOKEN, or SKILLS_MCP_TOKEN_FILE, to a token "
    "that may read the repository",
    404: "there is no such repository, or it is private: hosts say 404 for both. Check "
    "the address, or set GITHUB_TOKEN to a token that may read it",
}
_KINDS: dict[int, type[SyncError]] = {
    401: AccessRefusedError,
    403: AccessRefusedError,
    404: RemoteMissingError,
}


def find_advice(
    said: str,
    said_here: str,
    remote: Remote,
    response: Response | None,
    now: datetime,
) -> Advice | None:
    """Return what to do, or None when Git's own store may be the cause.

    Args:
        said: The words of Git.
        said_here: Those that are not the host's: its disk may be full, too, and its
            store damaged.
        remote: What was asked.
        response: What the host answered last, if it speaks HTTP and has answered.
        now: For a host that says at what time to come again.
    """
    if advice := find_cause_here(said_here):
        return advice
    if any(sign in said_here for sign in DAMAGE):
        return None
    if response and (advice := _read_status(response, remote, now)):
        return advice
    if remote.pin and any(sign in said for sign in NOT_PINNED):
        return Advice(RemoteMissingError, PIN_ADVICE)
    return _look_up(FOLDERS if remote.scheme == "file" else (), said) or _look_up(
        ELSEWHERE, said
    )


def render_failure(advice: Advice | None, remote: Remote, said: str) -> str:
    """Return the message about a remote, which may hold secrets yet."""
    words = advice.words if advice else "Git failed"
    note = ""
    if remote.keeps_token_back:
        note = " (the token was not sent: it travels over https only)"
    return f"{remote}: {words}. Git said: {said}{note}"


def find_cause_here(said: str) -> Advice | None:
    """Return what to do about this machine, if Git says that it is the cause."""
    return _look_up(THIS_MACHINE, said)


def _look_up(causes: tuple[Cause, ...], said: str) -> Advice | None:
    fitting = (each for each in causes if any(sign in said for sign in each.signs))
    cause = next(fitting, None)
    return Advice(cause.kind, cause.words) if cause else None


def _read_status(response: Response, remote: Remote, now: datetime) -> Advice | None:
    status = response.status
    retry_after = response.retry_after_seconds(now)
    if response.is_throttled:
        words = "the host wants fewer requests. It is asked again later"
        return Advice(SyncError, words, retry_after)
    table = _WITH_TOKEN if remote.sends_token else _WITHOUT_TOKEN
    if words := table.get(status, ""):
        return Advice(_KINDS[status], words)
    match status // 100:
        case 3:
            return Advice(SyncError, _render_move(response.location))
        case 4:
            return Advice(RemoteMissingError, _render_refusal(status))
        case 5:
            words = f"the host is in trouble ({status}). It is asked again later"
            return Advice(SyncError, words, retry_after)
        case _:
            return None


def _render_refusal(status: int) -> str:
    if status == 407:  # noqa: PLR2004
        return (
            "the proxy wants to know who asks. Put a user and a password into "
            "http.proxy of your Git configuration"
        )
    return f"the host answered {status}. Check its address"


def _render_move(location: str) -> str:
    address = location.partition("/info/refs")[0].partition("/git-upload-pack")[0]
    target = f" to {address}" if address else ""
    return f"the address has moved{target}. Configure the new one"
