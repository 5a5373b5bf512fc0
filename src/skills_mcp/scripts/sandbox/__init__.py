"""Sandbox of a run."""

from skills_mcp.scripts.sandbox.choice import Choice, Sandbox, expand_home_folder

__all__ = ["Choice", "Sandbox", "expand_home_folder"]
