"""What hosts are called on the command line.

Nothing is imported here, so that the first answer of a server waits for no host.
"""

from typing import Literal

HostName = Literal[
    "claude-code", "codex", "gemini", "cursor", "vscode", "opencode", "copilot"
]

HostScope = Literal["user", "project"]
"""For one person in all projects, or for all people in one project."""

PluginHost = Literal["claude-code", "gemini"]
"""Hosts that have plugins or extensions."""

HookHost = Literal["claude-code", "codex", "gemini", "copilot"]
"""Hosts with a hook that can add to a prompt."""

DEFAULT_NAME = "skills"
"""What the server is called in an entry; hosts show it before each tool."""
