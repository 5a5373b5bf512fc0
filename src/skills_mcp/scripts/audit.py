"""The audit file: a line for every run, kept on this machine whatever is counted.

Rule: a line is whole or not there.  Any number of windows append to one file; each
line is one write at its end, and what a full disk has taken of it is cut off again.
"""

import errno
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import portalocker

from skills_mcp.scripts.execution import SandboxName, ScriptResult
from skills_mcp.text.redaction import redact

logger = logging.getLogger(__name__)

RunKind = Literal["script", "command", "entry"]
"""`run_script`, `run_skill_command`, `run_skill_entry`."""

# Others hold the lock for one write; a window that was stopped may hold it for ever.
_LOCK_SECONDS = 1.0
_LOOK_SECONDS = 0.005

_EXCLUSIVE = portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING

# Never a link that leads elsewhere, nor a pipe that nobody reads.
_FLAGS = (
    os.O_WRONLY
    | os.O_APPEND
    | os.O_CREAT
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One run that the rules allowed, however it went."""

    kind: RunKind
    skill_path: str
    file: str
    """The script, or the program of a command."""
    commit: str | None
    sha256: str | None
    """Of the bytes that ran; None where a program of the machine ran."""
    arguments: tuple[str, ...]
    """Their names. No value is ever written."""
    sandbox: SandboxName | None
    """None if it came to no sandbox."""
    outcome: str
    """`ended`, `cancelled`, or the code of the error that kept it from starting."""
    result: ScriptResult | None
    """Of a run that has ended."""
    duration_seconds: float


class AuditFile:
    """The file that all windows of an account append to."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, entry: AuditEntry) -> None:
        """Write a line.  Blocking.

        A file that cannot be written is said in the log and stops no run: an agent
        whose disk is full still has to be able to work.
        """
        line = json.dumps(render(entry), ensure_ascii=False)
        try:
            self._write(line.encode("utf-8", "replace") + b"\n")
        except OSError as error:
            logger.error(  # noqa: TRY400 - where it failed is of no interest
                "%s takes no line: %s. Not written: %s",
                self._path,
                error.strerror,
                line,
            )

    def _write(self, data: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._path, _FLAGS, 0o600)
        try:
            if hasattr(os, "fchmod"):
                os.fchmod(handle, 0o600)  # also what somebody has put there
            with _locked(handle) as is_locked:
                size = os.fstat(handle).st_size
                if os.write(handle, data) == len(data):
                    return
                if is_locked:
                    os.ftruncate(handle, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(handle)


def render(entry: AuditEntry) -> dict[str, Any]:
    """Return a line as JSON has it, without secrets."""
    result = entry.result
    return {
        "time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z",
        "outcome": entry.outcome,
        "kind": entry.kind,
        "skill_path": redact(entry.skill_path),
        "file": redact(entry.file),
        "commit": entry.commit,
        "sha256": entry.sha256,
        "arguments": [redact(name) for name in sorted(entry.arguments)],
        "sandbox": entry.sandbox,
        "exit_code": result.exit_code if result else None,
        "signal": result.signal if result else None,
        "timed_out": result.timed_out if result else None,
        "duration_ms": round(entry.duration_seconds * 1000),
        "stdout_bytes": result.stdout_bytes if result else None,
        "stderr_bytes": result.stderr_bytes if result else None,
    }


@contextmanager
def _locked(handle: int) -> Iterator[bool]:
    """Hold the file's lock; False if nobody can have it.

    A line is written all the same: one write in append mode is whole on its own,
    unless the disk is full.
    """
    deadline = time.monotonic() + _LOCK_SECONDS
    while not (is_locked := _try_to_lock(handle)) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
    try:
        yield is_locked
    finally:
        if is_locked:
            with suppress(portalocker.LockException, OSError):
                portalocker.unlock(handle)


def _try_to_lock(handle: int) -> bool:
    try:
        portalocker.lock(handle, _EXCLUSIVE)
    except (portalocker.LockException, OSError):
        return False
    return True
