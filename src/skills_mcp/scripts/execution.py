"""The values of a run: what is started, what it may reach and use, how it ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SandboxName = Literal["bubblewrap", "landlock", "seatbelt", "limits", "none"]
"""What held a run; `none` only if the operator wants none, or on Windows."""

HOLDING: tuple[SandboxName, ...] = ("bubblewrap", "landlock", "seatbelt")
"""The sandboxes that keep a run away from what it was not granted, strongest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """The places that a run may reach besides the system's programs.

    Every path is absolute, exists, and holds no link. The folder in which the
    command starts has to lie in one of them.
    """

    home: Path
    """For HOME and TMPDIR: writable, empty at the start, in a private folder."""
    readable: tuple[Path, ...] = ()
    """Files and folders that it may read, and run programs from."""
    writable: tuple[Path, ...] = ()
    """Folders in which it may do all that the account may do."""
    network: bool = False
    """Whether it may open connections."""
    home_bytes: int = 64 * 1024 * 1024
    """The most that `home` may hold, in a tier that can limit it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """What the processes of one run may use."""

    memory_bytes: int
    """The memory of each process; what it reserves and does not use is not counted."""
    file_bytes: int
    """The size of the largest file that a process may write."""
    processes: int
    """The number of processes at one time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommand:
    """A program to start; the words of its sandbox stand before its own."""

    words: tuple[str, ...]
    """The program, by its name or path, and its arguments."""
    environment: Mapping[str, str]
    working_directory: Path
    timeout_seconds: float
    max_output_bytes: int
    sandbox: SandboxName = "none"
    """The sandbox that the words start the program in."""
    limits: ProcessLimits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResult:
    """How a run ended. Failure and timeout are results, not errors."""

    exit_code: int
    """As a shell has it: 128 + n for a program that signal n ended."""
    stdout: str
    stderr: str
    duration_seconds: float
    timed_out: bool
    signal: str | None = None
    """The signal that ended the program, such as `SIGSEGV`; a sandbox may hide it."""
    truncated_stdout: bool = False
    truncated_stderr: bool = False
    stdout_bytes: int = 0
    """The bytes that were printed, with those that `stdout` leaves out."""
    stderr_bytes: int = 0
    sandbox: SandboxName = "none"

    @property
    def success(self) -> bool:
        """Whether the script ended in time, with exit code 0."""
        return self.exit_code == 0 and not self.timed_out

    @property
    def confined(self) -> bool:
        """Whether it was kept from files, processes and a network not granted."""
        return self.sandbox in HOLDING
