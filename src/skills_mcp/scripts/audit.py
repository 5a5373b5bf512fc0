"""Audit file: a line for every run, local and independent of analytics.

Rule: lines are atomic. Several processes append to one file; each line is one write at
its end, and a partial write on a full disk is truncated.
"""

import json
import logging
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal

from skills_mcp.files.durable import PRIVATE_MODE, append_line, open_private
from skills_mcp.files.locks import lock_file
from skills_mcp.scripts.execution import SandboxName, ScriptResult
from skills_mcp.text.redaction import redact
from skills_mcp.text.rendering import render_time

logger = logging.getLogger(__name__)

RunKind = Literal["script", "command", "entry"]

# Other processes hold the lock for one write, but a stopped one may hold it for ever.
_LOCK_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A permitted run: ended, cancelled, or failed to start."""

    kind: RunKind
    skill_path: str
    file: str
    commit: str | None
    sha256: str | None
    """Of the executed bytes; None for a program of the machine."""
    arguments: tuple[str, ...]
    """Names only. No value is ever written."""
    sandbox: SandboxName | None
    outcome: str
    """`ended`, `cancelled`, or the error code of a failed start."""
    result: ScriptResult | None
    """None unless `outcome` is `ended`."""
    duration_seconds: float


class AuditFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, entry: AuditEntry) -> None:
        """Append a line; on failure log it: a full disk must not stop the agent."""
        line = json.dumps(render_audit_entry(entry), ensure_ascii=False)
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
            is_locked = _try_lock(handle)
            size = os.fstat(handle.fileno()).st_size
            try:
                append_line(handle, data)
            except OSError:
                if is_locked:
                    os.ftruncate(handle.fileno(), size)
                raise


def render_audit_entry(entry: AuditEntry) -> dict[str, Any]:
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


def _try_lock(handle: IO[bytes]) -> bool:
    """Try to lock; an append without a lock is atomic unless the disk is full."""
    try:
        lock_file(handle, timeout_seconds=_LOCK_SECONDS)
    except OSError:
        return False
    return True
