"""What is started, within which limits, and how it ended: the values of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SandboxName = Literal["bubblewrap", "landlock", "limits", "none"]
"""What held a run, the strongest first; `none` only if the operator wants none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """What the processes of one run may use."""

    memory_bytes: int
    """Of each process, for itself alone; what it only reserves does not count."""
    file_bytes: int
    """The largest file that any of them may write."""
    processes: int
    """How many there may be at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommand:
    """What to start; a sandbox is a part of the words (DESIGN §3.13)."""

    words: tuple[str, ...]
    """The program, by its name or path, and its arguments."""
    environment: Mapping[str, str]
    working_directory: Path
    timeout_seconds: float
    max_output_bytes: int
    sandbox: SandboxName = "none"
    """What the words put around the program."""
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
    """Such as `SIGSEGV`, if one ended the program and the sandbox has not hidden it."""
    truncated_stdout: bool = False
    truncated_stderr: bool = False
    stdout_bytes: int = 0
    """All that was printed, also what is left out of `stdout`."""
    stderr_bytes: int = 0
    sandbox: SandboxName = "none"

    @property
    def success(self) -> bool:
        """Whether the script ended by itself and said that all went well."""
        return self.exit_code == 0 and not self.timed_out
