"""Values of a run: command, grants, limits, result, and its line in the audit file.

Rule: lines are atomic. Several processes append to one file; each line is one write at
its end, and a partial write on a full disk is truncated.
"""

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal

from skills_mcp.files.durable import PRIVATE_MODE, append_line, open_private
from skills_mcp.files.locks import lock_file
from skills_mcp.text.redaction import redact
from skills_mcp.text.rendering import render_time

SandboxName = Literal["bubblewrap", "landlock", "seatbelt", "limits", "none"]
"""Tier of a run; `none` only if the operator wants none, or on Windows."""

CONFINING_TIERS: tuple[SandboxName, ...] = ("bubblewrap", "landlock", "seatbelt")
"""Confining tiers, strongest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """Paths accessible to a run, in addition to the system's: absolute, without links."""

    home: Path
    """HOME and TMPDIR: writable, initially empty, in a private folder."""
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    network: bool = False
    home_bytes: int = 64 * 1024 * 1024
    """Size limit of `home`, in tiers supporting one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    memory_bytes: int
    """For each process; reserved but unused memory is not counted."""
    file_bytes: int
    processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommand:
    words: tuple[str, ...]
    environment: Mapping[str, str]
    working_directory: Path
    timeout_seconds: float
    max_output_bytes: int
    sandbox: SandboxName = "none"
    limits: ProcessLimits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResult:
    """Outcome of a run. Failure and timeout are results, not errors."""

    exit_code: int
    """128 + n after signal n, as in a shell."""
    stdout: str
    stderr: str
    duration_seconds: float
    timed_out: bool
    signal: str | None = None
    """Such as `SIGSEGV`; a sandbox may hide it."""
    truncated_stdout: bool = False
    truncated_stderr: bool = False
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    sandbox: SandboxName = "none"

    @property
    def success(self) -> bool:
        return self.exit_code == 0 and not self.timed_out

    @property
    def confined(self) -> bool:
        """Whether a tier confined files, processes and network."""
        return self.sandbox in CONFINING_TIERS


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
