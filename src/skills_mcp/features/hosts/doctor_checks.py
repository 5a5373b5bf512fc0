"""Result of a check, with its remedy."""

import errno
import os
import platform
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

from skills_mcp.about import __version__
from skills_mcp.config import Scripts
from skills_mcp.config.variables import find_unknown_variables
from skills_mcp.errors import AccessRefusedError, RemoteMissingError, SyncError
from skills_mcp.library import Choice, SourceState
from skills_mcp.library.source_health import SourceCheck
from skills_mcp.text.rendering import describe_age


@dataclass(frozen=True, slots=True)
class CheckResult:
    name: str
    is_ok: bool
    message: str
    fix: str = ""
    """Command or instruction; empty if ok."""

    def render(self) -> dict[str, object]:
        """JSON representation."""
        values = asdict(self)
        return {"name": values.pop("name"), "ok": values.pop("is_ok"), **values}


def passed(name: str, message: str) -> CheckResult:
    return CheckResult(name, is_ok=True, message=message)


def failed(name: str, message: str, fix: str) -> CheckResult:
    return CheckResult(name, is_ok=False, message=message, fix=fix)


NEEDED_DISK_BYTES = 500 * 1024 * 1024

MAX_CLOCK_SKEW = timedelta(minutes=2)
"""Clock skew beyond which tokens and certificates look invalid."""

_MEGABYTE = 1024 * 1024

_SET_CLOCK = {"darwin": "sudo sntp -sS time.apple.com", "win32": "w32tm /resync"}


def check_versions() -> CheckResult:
    python = f"Python {platform.python_version()} at {sys.executable}"
    return passed("versions", f"skills-mcp {__version__}, {python}")


def check_variables(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    for unknown in find_unknown_variables(environment):
        fix = f"unset {unknown.name}"
        if unknown.suggestion:
            value = shlex.quote(environment[unknown.name])
            fix = f"export {unknown.suggestion}={value}; {fix}"
        yield failed("variables", str(unknown), fix)


def check_cache(home: Path) -> CheckResult:
    cache = home / "cache"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache) as file:
            file.write(b"\0")
    except OSError as error:
        location = error.filename or cache
        message = f"{location} cannot be written: {error.strerror}"
        return failed("cache", message, _suggest_cache_fix(error, home))
    return passed("cache", f"{cache} can be written")


def check_disk(home: Path, needed_bytes: int = NEEDED_DISK_BYTES) -> CheckResult:
    folder = next(candidate for candidate in (home, *home.parents) if candidate.is_dir())
    free = shutil.disk_usage(folder).free
    message = f"{free // _MEGABYTE:,} MB are free at {folder}"
    if free >= needed_bytes:
        return passed("disk", message)
    return failed(
        "disk",
        f"{message}; a sync may need {needed_bytes // _MEGABYTE:,} MB",
        "Make room on this disk, or move the cache: export SKILLS_MCP_HOME=FOLDER",
    )


def check_sandbox(choice: Choice | None, rules: Scripts) -> CheckResult:
    """Check the confinement of scripts."""
    if choice is None:
        return passed("sandbox", "No script runs: it is off")
    if choice.refusal:
        return failed(
            "sandbox",
            "No script runs: a sandbox is required, and this machine has none",
            _install_sandbox(),
        )
    if choice.confines:
        return passed("sandbox", f"Scripts run in {choice.name}")
    if rules.sandbox == "off":
        message = "Scripts are not confined, as scripts.sandbox is off"
        return passed("sandbox", message)
    missing = f" ({'; '.join(choice.missing)})" if choice.missing else ""
    return failed(
        "sandbox",
        f"Scripts are NOT confined: they can read and write all that you can{missing}",
        _install_sandbox(),
    )


def check_clock(
    sent_at: datetime, answered_at: datetime, max_skew: timedelta = MAX_CLOCK_SKEW
) -> CheckResult:
    apart = answered_at - sent_at
    seconds = abs(round(apart.total_seconds()))
    if abs(apart) <= max_skew:
        message = f"The clock agrees with that of the remote to {seconds} s"
        return passed("clock", message)
    direction = "ahead of" if apart > timedelta() else "behind"
    return failed(
        "clock",
        f"The clock is {seconds:,} s {direction} that of the remote",
        _SET_CLOCK.get(sys.platform, "sudo timedatectl set-ntp true"),
    )


def _suggest_cache_fix(error: OSError, home: Path) -> str:
    move = "export SKILLS_MCP_HOME=FOLDER, a folder that you can write"
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"chmod -R u+rwX {shlex.quote(str(home))}"
    if error.errno in {errno.ENOTDIR, errno.EEXIST}:
        location = Path(error.filename or home)
        file = next(
            path for path in (location, *location.parents) if path.exists() or not path.name
        )
        quoted = shlex.quote(str(file))
        return f"mv {quoted} {quoted}.old"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "Make room on this disk"
    return move


def _install_sandbox() -> str:
    if sys.platform == "linux":
        programs = {"apt-get": "sudo apt-get install bubblewrap"}
        programs |= {name: f"sudo {name} install bubblewrap" for name in ("dnf", "yum")}
        found = next((programs[name] for name in programs if shutil.which(name)), "")
        command = found or "Install bubblewrap 0.8 or newer"
        return f"{command}, or set scripts.enabled to false in config.yaml"
    accept = "or accept it: scripts.sandbox: off" if os.name == "posix" else ""
    return f"Set scripts.enabled to false in config.yaml{', ' if accept else ''}{accept}"


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
            yield failed("git", str(check.git_error), fix)
            return
    version = next((result.git_version for result in checks if result.git_version), "")
    message = version or "Git is not needed: no repository is served"
    yield passed("git", message)


def _check_source(check: SourceCheck) -> Iterator[CheckResult]:
    if check.git_error:
        return
    if check.mode == "local":
        yield _check_folder(check)
        return
    if not check.was_contacted:
        message = f"{check.name} was not asked, as you are offline"
        yield passed("network", message)
        return
    if check.error:
        yield from _diagnose(check, check.error)
        return
    yield passed("network", f"{check.name} answers")
    if check.sends_token:
        yield passed("token", "The repository accepts the token")
    found = f"{check.name} is at {check.commit}"
    yield passed("repository", found)
    if check.sent_at and check.answered_at:
        yield check_clock(check.sent_at, check.answered_at)


def _check_folder(check: SourceCheck) -> CheckResult:
    if check.error:
        fix = f"mkdir -p {shlex.quote(check.name)}"
        return failed("folder", str(check.error), fix)
    return passed("folder", f"{check.name} can be read")


def _diagnose(check: SourceCheck, error: SyncError) -> Iterator[CheckResult]:
    """Tell network, token and repository errors apart."""
    if not isinstance(error, AccessRefusedError | RemoteMissingError):
        fix = "Check the address, the proxy and the VPN; then: skills-mcp doctor"
        yield failed("network", str(error), fix)
        return
    yield passed("network", f"{check.name} answers")
    if isinstance(error, AccessRefusedError):
        fix = "export GITHUB_TOKEN=TOKEN, one that may read this repository"
        if shutil.which("gh"):
            fix = "export GITHUB_TOKEN=$(gh auth token)"
        yield failed("token", str(error), fix)
        return
    fix = "export SKILLS_REPO=URL SKILLS_BRANCH=NAME, as the message says"
    yield failed("repository", str(error), fix)


def check_content(state: SourceState, arguments: str) -> Iterator[CheckResult]:
    """Report the served commit of a repository; nothing for a folder."""
    if state.mode == "local":
        return
    fix = f"skills-mcp sync{arguments}"
    if state.commit is None:
        message = f"{state.name} was never synced on this machine"
        yield failed("content", message, fix)
        return
    age = describe_age(state.age_seconds)
    message = f"{state.name}: {state.commit} is served, synced {age}"
    if state.is_failing or state.is_stale:
        reason = f"; the last sync failed: {state.error}" if state.error else ""
        yield failed("content", f"{message}{reason}", fix)
        return
    yield passed("content", message)


def _suggest_git() -> str:
    found = (_PACKAGERS[name] for name in _PACKAGERS if shutil.which(name))
    return _INSTALL_GIT.get(sys.platform) or next(found, "Install Git 2.31 or newer")
