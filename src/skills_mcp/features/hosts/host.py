"""The hosts: where each of them looks for MCP servers, and what it reads there.

Rule: a host is a row of data, as its documentation has it.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from skills_mcp.errors import HostFileError
from skills_mcp.features.hosts.host_names import HostName, HostScope

BY_NAME = "by name"
"""How Codex takes variables: a list of their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryShape:
    """The keys of an entry that starts a server, and of one that names its URL."""

    started: Mapping[str, object] = field(default_factory=dict)
    """What stands in each entry that starts a server, before its command."""
    remote: Mapping[str, object] = field(default_factory=dict)
    """What stands in each entry with a URL."""
    trailing: Mapping[str, object] = field(default_factory=dict)
    """What stands in both, behind the rest."""
    is_one_list: bool = False
    """Whether the command and its arguments are one list."""
    environment: str = "env"
    """The key of the variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A program with an agent in it, which starts MCP servers."""

    name: HostName
    title: str
    programs: tuple[str, ...]
    """What it is called in PATH."""
    folder: tuple[str, str]
    """The variable that moves its folder, and where that is without it, below home."""
    user_files: tuple[str, ...]
    """Below its folder; the first that exists is used, or else the first."""
    project_files: tuple[str, ...]
    """The same, below the folder of a project."""
    section: str
    """The key of the table with the servers."""
    plugin_files: tuple[str, ...] = ()
    """Patterns of the files of plugins that name servers, below its folder."""
    is_toml: bool = False
    shape: EntryShape = field(default_factory=EntryShape)
    variable: str = ""
    """How an entry names a variable NAME; empty if a server gets all of them."""
    afterwards: Mapping[HostScope, str] = field(default_factory=dict)
    """What a person has to do once before the host starts the server."""

    def find_folder(self, environment: Mapping[str, str]) -> Path:
        """Return the folder with the files of a person; it need not exist."""
        variable, default = self.folder
        moved = environment.get(variable)
        if moved:
            return Path(moved).expanduser()
        return Path.home() / default

    def find_file(
        self, scope: HostScope, environment: Mapping[str, str], project: Path
    ) -> Path:
        """Return the file in which the host looks for servers; it need not exist."""
        is_own = scope == "user"
        folder = self.find_folder(environment) if is_own else project
        names = self.user_files if is_own else self.project_files
        files = [folder / name for name in names]
        return next((file for file in files if file.is_file()), files[0])

    def is_here(self, environment: Mapping[str, str]) -> bool:
        """Whether the host is installed on this machine, or was."""
        if any(shutil.which(each) for each in self.programs):
            return True
        folder = self.find_folder(environment)
        if folder != Path.home():
            return folder.is_dir()
        return any((folder / name).is_file() for name in self.user_files)


def _find_code_folder() -> str:
    """Return where VS Code keeps the settings of a person, below home."""
    if sys.platform == "darwin":
        return "Library/Application Support/Code/User"
    return "AppData/Roaming/Code/User" if os.name == "nt" else ".config/Code/User"


HOSTS: tuple[Host, ...] = (
    Host(
        name="claude-code",
        title="Claude Code",
        programs=("claude",),
        folder=("CLAUDE_CONFIG_DIR", ""),
        user_files=(".claude.json",),
        project_files=(".mcp.json",),
        plugin_files=(
            ".claude/plugins/cache/*/*/*/.mcp.json",
            "plugins/cache/*/*/*/.mcp.json",  # where CLAUDE_CONFIG_DIR is set
        ),
        section="mcpServers",
        shape=EntryShape(started={"type": "stdio"}, remote={"type": "http"}),
        afterwards={"project": "Each developer accepts the server once, in /mcp."},
    ),
    Host(
        name="codex",
        title="Codex",
        programs=("codex",),
        folder=("CODEX_HOME", ".codex"),
        user_files=("config.toml",),
        project_files=(".codex/config.toml",),
        section="mcp_servers",
        is_toml=True,
        # A first start may take longer than the 10 seconds that Codex waits by itself.
        shape=EntryShape(started={}, trailing={"startup_timeout_sec": 30}),
        variable=BY_NAME,
        afterwards={"project": "Codex reads it in a project that you trust."},
    ),
    Host(
        name="gemini",
        title="Gemini CLI",
        programs=("gemini",),
        folder=("GEMINI_CLI_HOME", ""),
        user_files=(".gemini/settings.json",),
        project_files=(".gemini/settings.json",),
        plugin_files=(".gemini/extensions/*/gemini-extension.json",),
        section="mcpServers",
        shape=EntryShape(remote={"type": "http"}),
        variable="${NAME:-}",
        afterwards={
            "user": "Gemini CLI starts it in a folder that you trust.",
            "project": "Gemini CLI starts it in a folder that you trust.",
        },
    ),
    Host(
        name="cursor",
        title="Cursor",
        programs=("cursor", "cursor-agent"),
        folder=("", ".cursor"),
        user_files=("mcp.json",),
        project_files=(".cursor/mcp.json",),
        section="mcpServers",
        shape=EntryShape(started={"type": "stdio"}),
        variable="${env:NAME}",
        afterwards={"project": "Cursor asks before it starts the server."},
    ),
    Host(
        name="vscode",
        title="VS Code",
        programs=("code",),
        folder=("", _find_code_folder()),
        user_files=("mcp.json",),
        project_files=(".vscode/mcp.json",),
        section="servers",
        shape=EntryShape(started={"type": "stdio"}, remote={"type": "http"}),
        afterwards={"project": "VS Code asks before it starts the server."},
    ),
    Host(
        name="opencode",
        title="OpenCode",
        programs=("opencode",),
        folder=("XDG_CONFIG_HOME", ".config"),
        user_files=("opencode/opencode.jsonc", "opencode/opencode.json"),
        project_files=("opencode.jsonc", "opencode.json"),
        section="mcp",
        shape=EntryShape(
            started={"type": "local"},
            remote={"type": "remote"},
            trailing={"enabled": True},
            is_one_list=True,
            environment="environment",
        ),
    ),
    Host(
        name="copilot",
        title="Copilot CLI",
        programs=("copilot",),
        folder=("COPILOT_HOME", ".copilot"),
        user_files=("mcp-config.json",),
        project_files=(".github/mcp.json",),
        section="mcpServers",
        shape=EntryShape(
            started={"type": "local"},
            remote={"type": "http"},
            trailing={"tools": ["*"]},
        ),
        afterwards={"project": "Copilot CLI reads it in a folder that you trust."},
    ),
)
"""Every host that is known, in the order in which they are listed."""


def find_project() -> Path:
    """Return the folder of the project: the working directory.

    Raises:
        HostFileError: It has been deleted.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise HostFileError(
            "The working directory is gone. Change to a folder that exists"
        ) from error


def find_host(name: str) -> Host:
    """Return the host of this name."""
    return next(host for host in HOSTS if host.name == name)
