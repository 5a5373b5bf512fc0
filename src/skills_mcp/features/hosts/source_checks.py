"""Checks of the sources: Git, the network, the token, the repository, what is here."""

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence

from skills_mcp.errors import AccessRefusedError, RemoteMissingError, SyncError
from skills_mcp.features.hosts.finding import Finding
from skills_mcp.features.hosts.machine_checks import check_clock
from skills_mcp.library import SourceState
from skills_mcp.library.source_check import SourceCheck
from skills_mcp.text.rendering import describe_age

_INSTALL_GIT = {"darwin": "xcode-select --install", "win32": "winget install Git.Git"}
_PACKAGERS = {
    "apt-get": "sudo apt-get install git",
    "dnf": "sudo dnf install git",
    "apk": "sudo apk add git",
}


def check_sources(
    checks: Sequence[SourceCheck], states: Sequence[SourceState], arguments: str
) -> Iterator[Finding]:
    """Say of each source whether it can be read, and what is here of it.

    Args:
        checks: What the sources have answered.
        states: What an earlier sync has left.
        arguments: The options of a command that is about the same sources.
    """
    yield from _check_git(checks)
    for check in checks:
        yield from _check_source(check)
    for state in states:
        yield from check_content(state, arguments)


def _check_git(checks: Sequence[SourceCheck]) -> Iterator[Finding]:
    for check in checks:
        if check.git_error:
            fix = _advise_git()
            yield Finding("git", is_ok=False, message=str(check.git_error), fix=fix)
            return
    version = next((each.git_version for each in checks if each.git_version), "")
    said = version or "Git is not needed: no repository is served"
    yield Finding("git", is_ok=True, message=said)


def _check_source(check: SourceCheck) -> Iterator[Finding]:
    if check.git_error:
        return
    if check.mode == "local":
        yield _check_folder(check)
        return
    if not check.is_asked:
        said = f"{check.name} was not asked, as you are offline"
        yield Finding("network", is_ok=True, message=said)
        return
    if check.error:
        yield from _explain(check, check.error)
        return
    yield Finding("network", is_ok=True, message=f"{check.name} answers")
    if check.sends_token:
        yield Finding("token", is_ok=True, message="The repository accepts the token")
    found = f"{check.name} is at {check.commit}"
    yield Finding("repository", is_ok=True, message=found)
    if check.sent_at and check.answered_at:
        yield check_clock(check.sent_at, check.answered_at)


def _check_folder(check: SourceCheck) -> Finding:
    if check.error:
        fix = f"mkdir -p {shlex.quote(check.name)}"
        return Finding("folder", is_ok=False, message=str(check.error), fix=fix)
    return Finding("folder", is_ok=True, message=f"{check.name} can be read")


def _explain(check: SourceCheck, error: SyncError) -> Iterator[Finding]:
    """Tell apart what is wrong: the way to the host, the token, or the repository."""
    if not isinstance(error, AccessRefusedError | RemoteMissingError):
        fix = "Check the address, the proxy and the VPN; then: skills-mcp doctor"
        yield Finding("network", is_ok=False, message=str(error), fix=fix)
        return
    yield Finding("network", is_ok=True, message=f"{check.name} answers")
    if isinstance(error, AccessRefusedError):
        fix = "export GITHUB_TOKEN=TOKEN, one that may read this repository"
        if shutil.which("gh"):
            fix = "export GITHUB_TOKEN=$(gh auth token)"
        yield Finding("token", is_ok=False, message=str(error), fix=fix)
        return
    fix = "export SKILLS_REPO=URL SKILLS_BRANCH=NAME, as the message says"
    yield Finding("repository", is_ok=False, message=str(error), fix=fix)


def check_content(state: SourceState, arguments: str) -> Iterator[Finding]:
    """Say which commit of a repository is served; nothing about a folder.

    Args:
        state: What an earlier sync has left.
        arguments: The options of a command that is about the same source.
    """
    if state.mode == "local":
        return
    fix = f"skills-mcp sync{arguments}"
    if state.commit is None:
        said = f"{state.name} was never synced on this machine"
        yield Finding("content", is_ok=False, message=said, fix=fix)
        return
    age = describe_age(state.age_seconds)
    said = f"{state.name}: {state.commit} is served, synced {age}"
    if state.is_failing or state.is_stale:
        reason = f"; the last sync failed: {state.error}" if state.error else ""
        yield Finding("content", is_ok=False, message=f"{said}{reason}", fix=fix)
        return
    yield Finding("content", is_ok=True, message=said)


def _advise_git() -> str:
    found = (_PACKAGERS[name] for name in _PACKAGERS if shutil.which(name))
    return _INSTALL_GIT.get(sys.platform) or next(found, "Install Git 2.31 or newer")
