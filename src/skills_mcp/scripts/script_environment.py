"""The environment of runs on this machine: variables, folders and the sandbox."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skills_mcp.config import Scripts
from skills_mcp.errors import FolderNotAllowedError, InvalidArgumentsError
from skills_mcp.scripts.execution import HOLDING, SandboxName
from skills_mcp.scripts.policy import derive_search_path
from skills_mcp.scripts.sandbox import Sandbox, expand_home

_HERE = "."


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEnvironment:
    """The parts of the server's environment that runs are derived from."""

    variables: Mapping[str, str]
    """The server's environment variables; a run sees few of them."""
    home: Path
    """The user's home."""
    own_folder: Path
    """Where the server keeps skills, events and the operator's settings."""
    started_in: Path | None
    """The folder in which the server was started; None if it does not exist."""
    sandbox: Sandbox

    @classmethod
    def of(
        cls,
        variables: Mapping[str, str],
        offered: Sequence[SandboxName] = HOLDING,
    ) -> "ScriptEnvironment":
        """Return the environment of a server that was started in the current folder.

        Args:
            variables: All environment variables of the server.
            offered: The sandbox tiers to look for.
        """
        home = Path(variables.get("HOME") or Path.home()).resolve()
        moved = variables.get("SKILLS_MCP_HOME")
        own = expand_home(moved, home) if moved else home / ".skills-mcp"
        try:
            started_in = Path.cwd().resolve()
        except OSError:
            started_in = None
        search_path = derive_search_path(variables.get("PATH", os.defpath))
        return cls(
            variables=variables,
            home=home,
            own_folder=own.resolve(),
            started_in=started_in,
            sandbox=Sandbox(home, search_path, offered),
        )

    def require_folder(self, cwd: str, rules: Scripts) -> Path:
        """Return the folder that a caller wants a script to run in, without links.

        Raises:
            InvalidArgumentsError: It is no absolute path of a folder.
            FolderNotAllowedError: It lies in no folder of `scripts.roots`, or in
                or above one that no script may see.
        """
        # os.path: a name that no file system takes is no folder, and no exception.
        if not (os.path.isabs(cwd) and os.path.isdir(cwd)):  # noqa: PTH112, PTH117
            raise InvalidArgumentsError(
                "cwd: must be the absolute path of a folder that exists. Leave it out "
                "to run in an empty folder."
            )
        folder = Path(cwd).resolve()
        roots = [root for root in self._roots(rules) if folder.is_relative_to(root)]
        if not any(self._is_open(folder, root) for root in roots):
            raise FolderNotAllowedError(
                "cwd: lies in no folder that scripts may see here. Pass the project's "
                "folder, or leave cwd out; the operator can add folders "
                "(scripts.roots)."
            )
        return folder

    def _roots(self, rules: Scripts) -> list[Path]:
        """Return the folders that the operator allows, without links."""
        roots = [expand_home(root, self.home) for root in rules.roots if root != _HERE]
        here = self.started_in
        # An agent that is started there has no project, and all of them are below.
        if _HERE in rules.roots and here and not self.home.is_relative_to(here):
            roots.append(here)
        return [root.resolve() for root in roots]

    def _is_open(self, folder: Path, root: Path) -> bool:
        """Whether a script may see a folder below a root, secrets considered.

        The home as a whole and what we keep ourselves stay closed. So do the hidden
        folders of the home, where programs keep keys: unless a root names one.
        """
        closed = (self.home, self.own_folder)
        if any(each.is_relative_to(folder) for each in closed):
            return False
        if folder.is_relative_to(self.own_folder):
            return False
        if not folder.is_relative_to(self.home):
            return True
        first = folder.relative_to(self.home).parts[0]
        return not first.startswith(".") or root.is_relative_to(self.home / first)
