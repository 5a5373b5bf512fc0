"""Values of a run: command, grants, limits and result."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
