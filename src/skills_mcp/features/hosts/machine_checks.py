"""Checks for `doctor`: machine, Git, network, token, repository, served content."""

import errno
import os
import platform
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from skills_mcp.about import __version__
from skills_mcp.config import Scripts
from skills_mcp.config.unknown_variables import find_unknown_variables
from skills_mcp.features.hosts.finding import CheckResult
from skills_mcp.library import Choice

NEEDED_DISK_BYTES = 500 * 1024 * 1024

MAX_CLOCK_SKEW = timedelta(minutes=2)
"""Clock skew beyond which tokens and certificates look invalid."""

_MEGABYTE = 1024 * 1024

_SET_CLOCK = {
    "darwin": "sudo sntp -sS time.apple.com",
    "win32": "w32tm /resync",
}


def check_versions() -> CheckResult:
    python = f"Python {platform.python_version()} at {sys.executable}"
    return CheckResult("versions", True, f"skills-mcp {__version__}, {python}")  # noqa: FBT003


def check_variables(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    for unknown in find_unknown_variables(environment):
        fix = f"unset {unknown.name}"
        if unknown.suggestion:
            value = shlex.quote(environment[unknown.name])
            fix = f"export {unknown.suggestion}={value}; {fix}"
        yield CheckResult("variables", is_ok=False, message=str(unknown), fix=fix)


def check_cache(home: Path) -> CheckResult:
    cache = home / "cache"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache) as file:
            file.write(b"\0")
    except OSError as error:
        location = error.filename or cache
        message = f"{location} cannot be written: {error.strerror}"
        return CheckResult(
            "cache", is_ok=False, message=message, fix=_suggest_cache_fix(error, home)
        )
    return CheckResult("cache", is_ok=True, message=f"{cache} can be written")


def check_disk(home: Path, needed_bytes: int = NEEDED_DISK_BYTES) -> CheckResult:
    folder = next(candidate for candidate in (home, *home.parents) if candidate.is_dir())
    free = shutil.disk_usage(folder).free
    message = f"{free // _MEGABYTE:,} MB are free at {folder}"
    if free >= needed_bytes:
        return CheckResult("disk", is_ok=True, message=message)
    return CheckResult(
        "disk",
        is_ok=False,
        message=f"{message}; a sync may need {needed_bytes // _MEGABYTE:,} MB",
        fix="Make room on this disk, or move the cache: export SKILLS_MCP_HOME=FOLDER",
    )


def check_sandbox(choice: Choice | None, rules: Scripts) -> CheckResult:
    """Check the confinement of scripts."""
    if choice is None:
        return CheckResult("sandbox", is_ok=True, message="No script runs: it is off")
    if choice.refusal:
        return CheckResult(
            "sandbox",
            is_ok=False,
            message="No script runs: a sandbox is required, and this machine has none",
            fix=_install_sandbox(),
        )
    if choice.confines:
        return CheckResult("sandbox", is_ok=True, message=f"Scripts run in {choice.name}")
    if rules.sandbox == "off":
        message = "Scripts are not confined, as scripts.sandbox is off"
        return CheckResult("sandbox", is_ok=True, message=message)
    missing = f" ({'; '.join(choice.missing)})" if choice.missing else ""
    return CheckResult(
        "sandbox",
        is_ok=False,
        message=f"Scripts are NOT confined: they can read and write all that you can{missing}",
        fix=_install_sandbox(),
    )


def check_clock(
    sent_at: datetime, answered_at: datetime, max_skew: timedelta = MAX_CLOCK_SKEW
) -> CheckResult:
    apart = answered_at - sent_at
    seconds = abs(round(apart.total_seconds()))
    if abs(apart) <= max_skew:
        message = f"The clock agrees with that of the remote to {seconds} s"
        return CheckResult("clock", is_ok=True, message=message)
    direction = "ahead of" if apart > timedelta() else "behind"
    return CheckResult(
        "clock",
        is_ok=False,
        message=f"The clock is {seconds:,} s {direction} that of the remote",
        fix=_SET_CLOCK.get(sys.platform, "sudo timedatectl set-ntp true"),
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
