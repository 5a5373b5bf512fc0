"""Names of hosts for the command line.

Nothing is imported here: the start of a server must not load the hosts.
"""

from typing import Literal

HostName = Literal["claude-code", "codex", "gemini", "cursor", "vscode", "opencode", "copilot"]

HostScope = Literal["user", "project"]
"""One person in all projects, or all people in one project."""

PluginHost = Literal["claude-code", "gemini"]

HookHost = Literal["claude-code", "codex", "gemini", "copilot"]

DEFAULT_NAME = "skills"
"""Default name of an entry; hosts show it with each tool."""
