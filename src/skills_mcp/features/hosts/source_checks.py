"""Checks of the sources: Git, network, token, repository, served content."""

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence

from skills_mcp.errors import AccessRefusedError, RemoteMissingError, SyncError
from skills_mcp.features.hosts.finding import CheckResult
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
) -> Iterator[CheckResult]:
    """Check access to each source, and its last sync."""
    yield from _check_git(checks)
    for check in checks:
        yield from _check_source(check)
    for state in states:
        yield from check_content(state, arguments)


def _check_git(checks: Sequence[SourceCheck]) -> Iterator[CheckResult]:
    for check in checks:
        if check.git_error:
            fix = _suggest_git()
            yield CheckResult("git", is_ok=False, message=str(check.git_error), fix=fix)
            return
    version = next((result.git_version for result in checks if result.git_version), "")
    message = version or "Git is not needed: no repository is served"
    yield CheckResult("git", is_ok=True, message=message)


def _check_source(check: SourceCheck) -> Iterator[CheckResult]:
    if check.git_error:
        return
    if check.mode == "local":
        yield _check_folder(check)
        return
    if not check.was_contacted:
        message = f"{check.name} was not asked, as you are offline"
        yield CheckResult("network", is_ok=True, message=message)
        return
    if check.error:
        yield from _diagnose(check, check.error)
        return
    yield CheckResult("network", is_ok=True, message=f"{check.name} answers")
    if check.sends_token:
        yield CheckResult("token", is_ok=True, message="The repository accepts the token")
    found = f"{check.name} is at {check.commit}"
    yield CheckResult("repository", is_ok=True, message=found)
    if check.sent_at and check.answered_at:
        yield check_clock(check.sent_at, check.answered_at)


def _check_folder(check: SourceCheck) -> CheckResult:
    if check.error:
        fix = f"mkdir -p {shlex.quote(check.name)}"
        return CheckResult("folder", is_ok=False, message=str(check.error), fix=fix)
    return CheckResult("folder", is_ok=True, message=f"{check.name} can be read")


def _diagnose(check: SourceCheck, error: SyncError) -> Iterator[CheckResult]:
    """Tell network, token and repository errors apart."""
    if not isinstance(error, AccessRefusedError | RemoteMissingError):
        fix = "Check the address, the proxy and the VPN; then: skills-mcp doctor"
        yield CheckResult("network", is_ok=False, message=str(error), fix=fix)
        return
    yield CheckResult("network", is_ok=True, message=f"{check.name} answers")
    if isinstance(error, AccessRefusedError):
        fix = "export GITHUB_TOKEN=TOKEN, one that may read this repository"
        if shutil.which("gh"):
            fix = "export GITHUB_TOKEN=$(gh auth token)"
        yield CheckResult("token", is_ok=False, message=str(error), fix=fix)
        return
    fix = "export SKILLS_REPO=URL SKILLS_BRANCH=NAME, as the message says"
    yield CheckResult("repository", is_ok=False, message=str(error), fix=fix)


def check_content(state: SourceState, arguments: str) -> Iterator[CheckResult]:
    """Report the served commit of a repository; nothing for a folder."""
    if state.mode == "local":
        return
    fix = f"skills-mcp sync{arguments}"
    if state.commit is None:
        message = f"{state.name} was never synced on this machine"
        yield CheckResult("content", is_ok=False, message=message, fix=fix)
        return
    age = describe_age(state.age_seconds)
    message = f"{state.name}: {state.commit} is served, synced {age}"
    if state.is_failing or state.is_stale:
        reason = f"; the last sync failed: {state.error}" if state.error else ""
        yield CheckResult("content", is_ok=False, message=f"{message}{reason}", fix=fix)
        return
    yield CheckResult("content", is_ok=True, message=message)


def _suggest_git() -> str:
    found = (_PACKAGERS[name] for name in _PACKAGERS if shutil.which(name))
    return _INSTALL_GIT.get(sys.platform) or next(found, "Install Git 2.31 or newer")
