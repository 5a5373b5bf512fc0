"""Checks of this machine: versions, variables, cache, disk, sandbox, clock."""

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
from skills_mcp.features.hosts.finding import Finding
from skills_mcp.library import Choice

NEEDED_BYTES = 500 * 1024 * 1024
"""Room for a first sync of a large repository."""

LATE = timedelta(minutes=2)
"""A clock that is further away makes tokens and certificates look invalid."""

_MEGABYTE = 1024 * 1024

_SET_CLOCK = {
    "darwin": "sudo sntp -sS time.apple.com",
    "win32": "w32tm /resync",
}


def check_versions() -> Finding:
    """Say which program this is, and what runs it."""
    python = f"Python {platform.python_version()} at {sys.executable}"
    return Finding("versions", True, f"skills-mcp {__version__}, {python}")  # noqa: FBT003


def check_variables(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Find variables with a name like ours that nothing reads."""
    for each in find_unknown_variables(environment):
        fix = f"unset {each.name}"
        if each.meant:
            value = shlex.quote(environment[each.name])
            fix = f"export {each.meant}={value}; {fix}"
        yield Finding("variables", is_ok=False, message=str(each), fix=fix)


def check_cache(home: Path) -> Finding:
    """Try to write into the folder of the cache, which is made if it is missing."""
    cache = home / "cache"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache) as file:
            file.write(b"\0")
    except OSError as error:
        place = error.filename or cache
        said = f"{place} cannot be written: {error.strerror}"
        return Finding("cache", is_ok=False, message=said, fix=_advise(error, home))
    return Finding("cache", is_ok=True, message=f"{cache} can be written")


def check_disk(home: Path, needed_bytes: int = NEEDED_BYTES) -> Finding:
    """Compare the room on the disk of the cache with what a sync may need."""
    place = next(each for each in (home, *home.parents) if each.is_dir())
    free = shutil.disk_usage(place).free
    said = f"{free // _MEGABYTE:,} MB are free at {place}"
    if free >= needed_bytes:
        return Finding("disk", is_ok=True, message=said)
    return Finding(
        "disk",
        is_ok=False,
        message=f"{said}; a sync may need {needed_bytes // _MEGABYTE:,} MB",
        fix="Make room on this disk, or move the cache: export SKILLS_MCP_HOME=FOLDER",
    )


def check_sandbox(choice: Choice | None, rules: Scripts) -> Finding:
    """Say in plain words whether a script could reach more than it was given."""
    if choice is None:
        return Finding("sandbox", is_ok=True, message="No script runs: it is off")
    if choice.refusal:
        return Finding(
            "sandbox",
            is_ok=False,
            message="No script runs: a sandbox is required, and this machine has none",
            fix=_install_sandbox(),
        )
    if choice.confines:
        return Finding("sandbox", is_ok=True, message=f"Scripts run in {choice.name}")
    if rules.sandbox == "off":
        said = "Scripts are not confined, as scripts.sandbox is off"
        return Finding("sandbox", is_ok=True, message=said)
    missing = f" ({'; '.join(choice.missing)})" if choice.missing else ""
    return Finding(
        "sandbox",
        is_ok=False,
        message="Scripts are NOT confined: they can read and write all that you can"
        f"{missing}",
        fix=_install_sandbox(),
    )


def check_clock(
    sent_at: datetime, answered_at: datetime, late: timedelta = LATE
) -> Finding:
    """Compare our clock with that of the remote."""
    apart = answered_at - sent_at
    seconds = abs(round(apart.total_seconds()))
    if abs(apart) <= late:
        said = f"The clock agrees with that of the remote to {seconds} s"
        return Finding("clock", is_ok=True, message=said)
    way = "ahead of" if apart > timedelta() else "behind"
    return Finding(
        "clock",
        is_ok=False,
        message=f"The clock is {seconds:,} s {way} that of the remote",
        fix=_SET_CLOCK.get(sys.platform, "sudo timedatectl set-ntp true"),
    )


def _advise(error: OSError, home: Path) -> str:
    move = "export SKILLS_MCP_HOME=FOLDER, a folder that you can write"
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"chmod -R u+rwX {shlex.quote(str(home))}"
    if error.errno in {errno.ENOTDIR, errno.EEXIST}:
        place = Path(error.filename or home)
        file = next(
            each for each in (place, *place.parents) if each.exists() or not each.name
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
    return (
        f"Set scripts.enabled to false in config.yaml{', ' if accept else ''}{accept}"
    )
