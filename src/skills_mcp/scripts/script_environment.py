"""Prepared runs: the skill's bytes in a private folder, inside the sandbox.

A script runs from a copy of the bytes as read, with links to its neighbours. A command
runs in a writable copy of the skill, because a snapshot is shared by all processes and
immutable.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skills_mcp.config import Scripts
from skills_mcp.errors import FolderNotAllowedError, InvalidArgumentsError
from skills_mcp.scripts.execution import CONFINING_TIERS, SandboxName
from skills_mcp.scripts.policy import keep_absolute_folders
from skills_mcp.scripts.sandbox import Sandbox, expand_home_folder

_WORKING_DIRECTORY = "."


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEnvironment:
    """Parts of the server's environment used to derive runs."""

    variables: Mapping[str, str]
    """All environment variables; a run inherits few."""
    home: Path
    own_folder: Path
    started_in: Path | None
    """Working directory of the server; None if missing."""
    sandbox: Sandbox

    @classmethod
    def of(
        cls,
        variables: Mapping[str, str],
        offered: Sequence[SandboxName] = CONFINING_TIERS,
    ) -> "ScriptEnvironment":
        home = Path(variables.get("HOME") or Path.home()).resolve()
        moved = variables.get("SKILLS_MCP_HOME")
        own = expand_home_folder(moved, home) if moved else home / ".skills-mcp"
        try:
            started_in = Path.cwd().resolve()
        except OSError:
            started_in = None
        search_path = keep_absolute_folders(variables.get("PATH", os.defpath))
        return cls(
            variables=variables,
            home=home,
            own_folder=own.resolve(),
            started_in=started_in,
            sandbox=Sandbox(home, search_path, offered),
        )

    def require_folder(self, cwd: str, rules: Scripts) -> Path:
        """Resolve the working directory of a script.

        Raises:
            InvalidArgumentsError: It is no absolute path of a folder.
            FolderNotAllowedError: It is not below `scripts.roots`, or in or above a
            folder
                closed to scripts.
        """
        # os.path: a name that no file system takes is no folder, and no exception.
        if not (os.path.isabs(cwd) and os.path.isdir(cwd)):  # noqa: PTH112, PTH117
            raise InvalidArgumentsError(
                "cwd: must be the absolute path of a folder that exists. Leave it out "
                "to run in an empty folder."
            )
        folder = Path(cwd).resolve()
        roots = [root for root in self._resolve_roots(rules) if folder.is_relative_to(root)]
        if not any(self._is_accessible(folder, root) for root in roots):
            raise FolderNotAllowedError(
                "cwd: lies in no folder that scripts may see here. Pass the project's "
                "folder, or leave cwd out; the operator can add folders "
                "(scripts.roots)."
            )
        return folder

    def _resolve_roots(self, rules: Scripts) -> list[Path]:
        roots = [
            expand_home_folder(root, self.home)
            for root in rules.roots
            if root != _WORKING_DIRECTORY
        ]
        working_directory = self.started_in
        # An agent that is started there has no project, and all of them are below.
        if (
            _WORKING_DIRECTORY in rules.roots
            and working_directory
            and not self.home.is_relative_to(working_directory)
        ):
            roots.append(working_directory)
        return [root.resolve() for root in roots]

    def _is_accessible(self, folder: Path, root: Path) -> bool:
        """Whether a script may access a folder below a root.

        The home as a whole and our own folder stay closed. So do hidden folders of the
        home,
        with keys of other programs, unless a root names one.
        """
        closed = (self.home, self.own_folder)
        if any(closed_folder.is_relative_to(folder) for closed_folder in closed):
            return False
        if folder.is_relative_to(self.own_folder):
            return False
        if not folder.is_relative_to(self.home):
            return True
        first = folder.relative_to(self.home).parts[0]
        return not first.startswith(".") or root.is_relative_to(self.home / first)
