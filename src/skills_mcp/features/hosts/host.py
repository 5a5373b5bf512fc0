"""The supported hosts, with the locations and format of their files.

Rule: a host is a row of `host.toml`, taken from its documentation.
"""

import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from skills_mcp.files.paths import expand_home_folder, find_user_home
from skills_mcp.skills.source_layout import EXPORT_LOCK

HostName = Literal["claude-code", "codex", "gemini", "cursor", "vscode", "opencode", "copilot"]

HostScope = Literal["user", "project"]
"""One person in all projects, or all people in one project."""

PluginHost = Literal["claude-code", "gemini"]

HookHost = Literal["claude-code", "codex", "gemini", "copilot"]

DEFAULT_NAME = "skills"
"""Default name of an entry; hosts show it with each tool."""


BY_NAME = "by name"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryShape:
    """Keys of a server entry, started or remote."""

    started: Mapping[str, object] = field(default_factory=dict)
    remote: Mapping[str, object] = field(default_factory=dict)
    trailing: Mapping[str, object] = field(default_factory=dict)
    is_one_list: bool = False
    """Whether command and arguments share a list."""
    environment: str = "env"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """An agent program, an MCP client."""

    name: HostName
    title: str
    programs: Sequence[str]
    folder: Sequence[str]
    """`(variable, default)` of its configuration folder, below home."""
    user_files: Sequence[str]
    """Relative to its folder; the first existing one, else the first."""
    project_files: Sequence[str]
    section: str
    native_folders: Sequence[str]
    """Folders of skills that it reads by itself: of a project, and with `~/` of the user."""
    refused: Mapping[HostScope, Sequence[str]] = field(default_factory=dict)
    """What its parser does not accept in the file of a scope, beyond JSON."""
    plugin_files: Sequence[str] = ()
    hook_files: Mapping[HostScope, str] = field(default_factory=dict)
    """Where its hooks stand; empty if none of them can add to the context."""
    hook_step: str = ""
    """Manual step before it runs its hooks."""
    is_toml: bool = False
    shape: EntryShape = field(default_factory=EntryShape)
    variable: str = ""
    """Template of a reference to variable NAME; empty if servers get all."""
    manual_steps: Mapping[HostScope, str] = field(default_factory=dict)
    """Manual step before the first start."""

    def find_folder(self, environment: Mapping[str, str]) -> Path:
        """Configuration folder of the user; may not exist."""
        variable, default = self.folder
        moved = environment.get(variable)
        if moved:
            return expand_home_folder(moved)
        return find_user_home() / default

    def find_file(self, scope: HostScope, environment: Mapping[str, str], project: Path) -> Path:
        """File with the servers; may not exist."""
        is_own = scope == "user"
        folder = self.find_folder(environment) if is_own else project
        names = self.user_files if is_own else self.project_files
        files = [folder / name for name in names]
        return next((file for file in files if file.is_file()), files[0])

    def find_hook_file(
        self, scope: HostScope, environment: Mapping[str, str], project: Path
    ) -> Path | None:
        """File with the hooks, which may not exist; None for a host without."""
        if scope not in self.hook_files:
            return None
        name = self.hook_files[scope]
        if scope == "project":
            return project / name
        variable, _ = self.folder
        # Where a variable moves the folder of Claude Code, there is no `.claude` in it.
        is_moved = variable == "CLAUDE_CONFIG_DIR" and bool(environment.get(variable))
        name = Path(name).name if is_moved else name
        return self.find_folder(environment) / name

    def is_installed(self, environment: Mapping[str, str]) -> bool:
        """Whether the host is, or was, installed."""
        if any(shutil.which(program) for program in self.programs):
            return True
        files = [self.find_folder(environment) / name for name in self.user_files]
        folders = {file.parent for file in files} - {find_user_home()}
        return any(file.is_file() for file in files) or any(map(Path.is_dir, folders))


def _parse_host(row: Mapping[str, Any]) -> Host:
    on_platform = {"folder": row.get("folder_on", {}).get(sys.platform, row["folder"])}
    shape = {"shape": EntryShape(**row.get("shape", {}))}
    return Host(**{key: row[key] for key in row if key != "folder_on"} | on_platform | shape)


_FILE = Path(__file__).with_suffix(".toml")
HOSTS = tuple(map(_parse_host, tomllib.loads(_FILE.read_text("utf-8"))["host"]))


def find_host(name: str) -> Host:
    return next(host for host in HOSTS if host.name == name)


def describe_exports(home: Path, project: Path) -> Iterator[str]:
    """Yield a warning per exported folder.

    A host with both such a folder and the server shows its model every skill twice.
    """
    for folder, hosts in find_exports(home, project):
        names = ", ".join(host.title for host in hosts)
        yield (
            f"An export has written {folder}, which these read: {names}. One that uses "
            "this server, too, sees each skill twice; skills-mcp doctor says which"
        )


def find_exports(home: Path, project: Path) -> Iterator[tuple[Path, Sequence[Host]]]:
    """Folders that an export has written, each with the hosts that read it."""
    readers: dict[Path, list[Host]] = {}
    for host in HOSTS:
        names = host.native_folders
        folders = [home / name[2:] if name.startswith("~/") else project / name for name in names]
        for folder in dict.fromkeys(folders):
            readers.setdefault(folder, []).append(host)
    for folder, hosts in readers.items():
        if (folder / EXPORT_LOCK).is_file():
            yield folder, hosts
