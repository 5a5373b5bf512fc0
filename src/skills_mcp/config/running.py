"""Every setting of what may run, and in which surroundings (001 §8.4, 000 §3.5)."""

from pydantic import Field

from skills_mcp.config.section import Section
from skills_mcp.config.values import (
    AbsolutePath,
    Bytes,
    BytesOnDisk,
    Command,
    Count,
    EnvironmentName,
    Extension,
    ProgramName,
    Root,
    SandboxDemand,
    Seconds,
)


class Scripts(Section):
    """What `run_script` may do (001 §8.4, §12.2)."""

    enabled: bool = Field(default=True, description="The switch for all scripts.")
    timeout_seconds: Seconds = Field(
        default=60,
        description="Seconds after which a script and all its children are ended.",
    )
    max_output_bytes: Bytes = Field(
        default=1_048_576,
        description="Bytes kept of stdout and of stderr each; the rest is dropped.",
    )
    allowed_extensions: tuple[Extension, ...] = Field(
        default=(".sh", ".ts", ".js", ".py"),
        description="File extensions that may run.",
    )
    runners: dict[Extension, Command] = Field(
        default={
            ".sh": "bash",
            ".ts": "npx tsx",
            ".js": "node",
            ".py": "python3",
        },
        description="The command for each extension; the script's path is appended.",
    )
    sandbox: SandboxDemand = Field(
        default="best_effort",
        description="required: run nothing without a sandbox. best_effort: the "
        "strongest that this machine has. off: none.",
    )
    network: bool = Field(
        default=False, description="Whether a sandboxed script may use the network."
    )
    roots: tuple[Root, ...] = Field(
        default=(".",),
        description="Folders in which `cwd` may lie; `.` is the folder in which the "
        "server was started, unless that is your home or the top of the disk.",
    )
    roots_writable: bool = Field(
        default=False,
        description="Whether a sandboxed script may write into its `cwd`.",
    )
    readable: tuple[AbsolutePath, ...] = Field(
        default=(),
        description="More folders that a sandboxed script may read, such as that of a "
        "compiler.",
    )
    environment: tuple[EnvironmentName, ...] = Field(
        default=(),
        description="More variables of the server's environment that a script sees.",
    )
    max_memory_bytes: BytesOnDisk = Field(
        default=1_073_741_824,
        description="The most memory that each process of a script may ask for.",
    )
    max_file_bytes: BytesOnDisk = Field(
        default=67_108_864,
        description="The largest file that a script may write, and the most that its "
        "private folder holds where the sandbox can say so.",
    )
    max_processes: Count = Field(
        default=64, description="The most processes that a script may have at once."
    )


class Commands(Section):
    """What commands and entries of skills may do (000 §3.5, §6.2, 003)."""

    enabled: bool = Field(
        default=False,
        description="Whether `run_skill_command` and `run_skill_entry` are among the "
        "tools of packages.",
    )
    allowed: tuple[ProgramName, ...] = Field(
        default=("python", "python3", "uv", "node", "cat", "ls", "grep"),
        description="Programs that may be started, by their bare names.",
    )
    timeout_seconds: Seconds = Field(
        default=60,
        description="Seconds after which a command and all its children are ended.",
    )
    max_output_bytes: Bytes = Field(
        default=65_536,
        description="Bytes kept of stdout and of stderr each; the rest is dropped.",
    )
