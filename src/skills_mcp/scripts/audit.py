"""The audit file: a line for every run, kept on this machine also without analytics.

Rule: a line is whole or not there.  Any number of windows append to one file; each
line is one write at its end, and what a full disk has taken of it is cut off again.
"""

import json
import logging
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal

from skills_mcp.files.durable import PRIVATE_MODE, append, open_private
from skills_mcp.files.locks import lock_file
from skills_mcp.scripts.execution import SandboxName, ScriptResult
from skills_mcp.text.redaction import redact
from skills_mcp.text.rendering import render_time

logger = logging.getLogger(__name__)

RunKind = Literal["script", "command", "entry"]
"""`run_script`, `run_skill_command`, `run_skill_entry`."""

# Other processes hold the lock for one write, but a stopped one may hold it for ever.
_LOCK_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One run that the rules allowed: ended, cancelled, or failed to start."""

    kind: RunKind
    skill_path: str
    file: str
    """The script's file, or the name of a command's program."""
    commit: str | None
    sha256: str | None
    """Of the bytes that ran; None if a program of the machine ran."""
    arguments: tuple[str, ...]
    """The names of the arguments. No value is ever written."""
    sandbox: SandboxName | None
    """None if the run failed before it had a sandbox."""
    outcome: str
    """`ended`, `cancelled`, or the code of the error that prevented the start."""
    result: ScriptResult | None
    """How the run ended; None unless `outcome` is `ended`."""
    duration_seconds: float


class AuditFile:
    """The file that all windows of an account append to."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, entry: AuditEntry) -> None:
        """Write a line.  Blocking.

        If the file cannot be written, the line goes to the log and the run goes on: an
        agent has to be able to work on a machine whose disk is full.
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
        with open_private(self._path) as handle:
            if hasattr(os, "fchmod"):
                os.fchmod(handle.fileno(), PRIVATE_MODE)  # also a file of another mode
            is_locked = _lock(handle)
            size = os.fstat(handle.fileno()).st_size
            try:
                append(handle, data)
            except OSError:
                if is_locked:
                    os.ftruncate(handle.fileno(), size)
                raise


def render(entry: AuditEntry) -> dict[str, Any]:
    """Return the fields of a line, without secrets."""
    result = entry.result
    return {
        "time": render_time(datetime.now(UTC)),
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


def _lock(handle: IO[bytes]) -> bool:
    """Lock the file; False if that is not possible.

    A line is written all the same: one write in append mode is whole on its own,
    unless the disk is full.
    """
    try:
        lock_file(handle, timeout_seconds=_LOCK_SECONDS)
    except OSError:
        return False
    return True
